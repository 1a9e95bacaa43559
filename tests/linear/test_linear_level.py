from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from haxmlnet.linear.level import LinearLevel, train_level
from haxmlnet.linear.vectors import block_of
from haxmlnet.ranking import ABSENT


def corpus(n_documents: int, n_features: int, n_nodes: int, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    rng = np.random.default_rng(seed)
    features = sp.random_array((n_documents, n_features), density=0.2, rng=rng, dtype=np.float32, format="csr")
    scores = features @ rng.normal(size=(n_features, n_nodes)) + 0.3 * rng.normal(size=(n_documents, n_nodes))
    return features, sp.csr_array((scores > 0.5).astype(np.float32))


def trained(features: sp.csr_array, targets: sp.csr_array, parents=None, parent_of=None, **settings):
    values = {"C": 1.0, "prune": 0.0, "seed": 0, "n_threads": 1, **settings}
    return train_level(features, targets, parents, parent_of, **values)


def all_margins(level: LinearLevel, features: sp.csr_array) -> np.ndarray:
    nodes = np.tile(np.arange(level.n_nodes, dtype=np.int32), (features.shape[0], 1))
    return level.margins(block_of(features, range(features.shape[0])), nodes)


def test_margins_are_those_of_liblinear():
    features, targets = corpus(200, 40, 3, 0)
    margins = all_margins(trained(features, targets, C=0.7, tolerance=1e-4, max_passes=2000), features)
    for node in range(3):
        labels = targets[:, [node]].toarray().ravel()
        svm = LinearSVC(C=0.7, dual=True, tol=1e-6, max_iter=100_000, random_state=0).fit(features, labels)
        np.testing.assert_allclose(margins[:, node], svm.decision_function(features), atol=5e-3)


def test_a_node_learns_from_the_documents_of_its_parent_alone():
    features, targets = corpus(60, 20, 2, 1)
    in_parent = np.zeros((60, 2), np.float32)
    in_parent[:30, 0] = in_parent[30:, 1] = 1
    inside = sp.csr_array(targets.multiply(in_parent))
    level = trained(features, inside, sp.csr_array(in_parent), np.array([0, 1], np.int32))
    alone = trained(features[:30], inside[:30, [0]])
    np.testing.assert_allclose(level.weights[[0]].toarray(), alone.weights.toarray(), atol=0.2)
    only_features_of_parent = np.unique(features[:30].indices)
    assert set(level.weights[[0]].indices) <= set(only_features_of_parent)


def test_the_same_seed_gives_the_same_weights_whatever_the_threads(monkeypatch):
    monkeypatch.setattr("haxmlnet.linear.level.CALL_DOCUMENTS", 100)
    features, targets = corpus(80, 30, 9, 2)
    one, four = trained(features, targets), trained(features, targets, n_threads=4)
    assert (one.weights != four.weights).nnz == 0
    np.testing.assert_array_equal(one.biases, four.biases)


def test_small_weights_are_dropped_and_the_others_kept_as_they_are():
    features, targets = corpus(80, 30, 4, 3)
    all_weights, large = trained(features, targets).weights.toarray(), trained(features, targets, prune=0.3).weights
    expected = np.where(np.abs(all_weights) >= 0.3, all_weights, 0)
    np.testing.assert_array_equal(large.toarray(), expected)
    assert 0 < large.nnz < np.count_nonzero(all_weights)


def test_families_are_solved_alike_whether_their_documents_are_copied_or_not(monkeypatch):
    features, targets = corpus(120, 40, 12, 6)
    parent_of = np.random.default_rng(0).permutation(np.repeat(np.arange(3), 4)).astype(np.int32)
    targets = sp.csr_array(targets.multiply((np.arange(120) < 100)[:, None]))  # no family has the others
    parents = sp.csr_array((targets @ np.eye(3)[parent_of] > 0).astype(np.float32))
    copied = trained(features, targets, parents, parent_of)
    monkeypatch.setattr("haxmlnet.linear.solver.MOST_COPIED", 0)
    taken = trained(features, targets, parents, parent_of)
    np.testing.assert_array_equal(copied.weights.toarray(), taken.weights.toarray())
    np.testing.assert_array_equal(copied.biases, taken.biases)
    assert (np.abs(copied.weights.toarray()).sum(axis=1) > 0).all()


@pytest.mark.parametrize(("positive", "bias"), [(0.0, -1.0), (1.0, 1.0)])
def test_a_node_without_examples_of_both_kinds_has_only_a_bias(positive, bias):
    features, _ = corpus(10, 5, 1, 4)
    level = trained(features, sp.csr_array(np.full((10, 1), positive, np.float32)))
    assert level.weights.nnz == 0
    assert level.biases.tolist() == [bias]


def test_margins_are_products_and_biases_and_0_where_a_node_is_absent():
    features, targets = corpus(30, 25, 6, 5)
    level = trained(features, targets)
    margins = level.margins(block_of(features, range(10, 30)), np.array([[5, 0, ABSENT]] * 20, np.int32))
    expected = (features @ level.weights.T).toarray() + level.biases
    np.testing.assert_allclose(margins[:, :2], expected[10:, [5, 0]], rtol=1e-5, atol=1e-6)
    assert (margins[:, 2] == 0).all()
