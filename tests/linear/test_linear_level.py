from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from haxmlnet.linear.document_blocks import block_of
from haxmlnet.linear.linear_level import LinearLevel, Parents, train_level
from haxmlnet.linear.solver import SolverConfig
from haxmlnet.ranking import ABSENT


def corpus(n_documents: int, n_features: int, n_nodes: int, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    rng = np.random.default_rng(seed)
    features = sp.random_array((n_documents, n_features), density=0.2, rng=rng, dtype=np.float32, format="csr")
    scores = features @ rng.normal(size=(n_features, n_nodes)) + 0.3 * rng.normal(size=(n_documents, n_nodes))
    return features, sp.csr_array((scores > 0.5).astype(np.float32))


def train_flat(features: sp.csr_array, targets: sp.csr_array, **config) -> LinearLevel:
    return train_level(features, targets, None, SolverConfig(**config))


def weights_of(level: LinearLevel) -> np.ndarray:
    return level.vectors.to_matrix().toarray()


def all_margins(level: LinearLevel, features: sp.csr_array) -> np.ndarray:
    nodes = np.tile(np.arange(level.n_nodes, dtype=np.int32), (features.shape[0], 1))
    return level.margins(block_of(features, range(features.shape[0])), nodes)


def test_margins_are_those_of_liblinear():
    features, targets = corpus(200, 40, 3, 0)
    margins = all_margins(train_flat(features, targets, C=0.7, tolerance=1e-4, max_passes=2000), features)
    for node in range(3):
        labels = targets[:, [node]].toarray().ravel()
        svm = LinearSVC(C=0.7, dual=True, tol=1e-6, max_iter=100_000, random_state=0).fit(features, labels)
        np.testing.assert_allclose(margins[:, node], svm.decision_function(features), atol=5e-3)


def test_a_node_learns_from_the_documents_of_its_parent_alone():
    features, targets = corpus(60, 20, 2, 1)
    in_parent = np.zeros((60, 2), np.float32)
    in_parent[:30, 0] = in_parent[30:, 1] = 1
    inside = sp.csr_array(targets.multiply(in_parent))
    level = train_level(features, inside, Parents(sp.csr_array(in_parent), np.array([0, 1], np.int32)), SolverConfig())
    alone = train_flat(features[:30], inside[:30, [0]])
    np.testing.assert_allclose(weights_of(level)[:1], weights_of(alone), atol=0.2)
    only_features_of_parent = np.unique(features[:30].indices)
    assert set(level.vectors.vector(0)[0]) <= set(only_features_of_parent)


def test_the_same_seed_gives_the_same_weights_whatever_the_threads(monkeypatch):
    monkeypatch.setattr("haxmlnet.linear.linear_level.CALL_DOCUMENTS", 100)
    features, targets = corpus(80, 30, 9, 2)
    one, four = (train_level(features, targets, None, SolverConfig(), n_threads) for n_threads in (1, 4))
    np.testing.assert_array_equal(weights_of(one), weights_of(four))
    np.testing.assert_array_equal(one.biases, four.biases)


def test_small_weights_are_dropped_and_the_others_kept_as_they_are():
    features, targets = corpus(80, 30, 4, 3)
    all_weights, large = weights_of(train_flat(features, targets)), train_flat(features, targets, prune=0.3)
    expected = np.where(np.abs(all_weights) >= 0.3, all_weights, 0)
    np.testing.assert_array_equal(weights_of(large), expected)
    assert 0 < large.vectors.to_matrix().nnz < np.count_nonzero(all_weights)


def test_siblings_are_solved_alike_whether_their_documents_are_copied_or_not(monkeypatch):
    features, targets = corpus(120, 40, 12, 6)
    parent_of = np.random.default_rng(0).permutation(np.repeat(np.arange(3), 4)).astype(np.int32)
    targets = sp.csr_array(targets.multiply((np.arange(120) < 100)[:, None]))  # no parent has the others
    parents = Parents(sp.csr_array((targets @ np.eye(3)[parent_of] > 0).astype(np.float32)), parent_of)
    copied = train_level(features, targets, parents, SolverConfig())
    monkeypatch.setattr("haxmlnet.linear.solver.MAX_COPIED", 0)
    in_place = train_level(features, targets, parents, SolverConfig())
    np.testing.assert_array_equal(weights_of(copied), weights_of(in_place))
    np.testing.assert_array_equal(copied.biases, in_place.biases)
    assert (np.abs(weights_of(copied)).sum(axis=1) > 0).all()


@pytest.mark.parametrize(("positive", "bias"), [(0.0, -1.0), (1.0, 1.0)])
def test_a_node_without_examples_of_both_kinds_has_only_a_bias(positive, bias):
    features, _ = corpus(10, 5, 1, 4)
    level = train_flat(features, sp.csr_array(np.full((10, 1), positive, np.float32)))
    assert level.vectors.to_matrix().nnz == 0
    assert level.biases.tolist() == [bias]


def test_margins_are_dot_products_and_biases_and_0_where_a_node_is_absent():
    features, targets = corpus(30, 25, 6, 5)
    level = train_flat(features, targets)
    margins = level.margins(block_of(features, range(10, 30)), np.array([[5, 0, ABSENT]] * 20, np.int32))
    expected = features @ weights_of(level).T + level.biases
    np.testing.assert_allclose(margins[:, :2], expected[10:, [5, 0]], rtol=1e-5, atol=1e-6)
    assert (margins[:, 2] == 0).all()
