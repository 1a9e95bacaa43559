from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from haxmlnet.linear import working_sets
from haxmlnet.linear.solver import SolverConfig
from haxmlnet.linear.working_sets import FeatureBlock, find_violators, train_one_vs_rest


def corpus(n_documents: int, n_features: int, n_labels: int, seed: int) -> tuple[sp.csr_array, sp.csr_array]:
    """Labels of few documents each, as in the field."""
    rng = np.random.default_rng(seed)
    features = sp.random_array((n_documents, n_features), density=0.1, rng=rng, dtype=np.float32, format="csr")
    scores = features @ rng.normal(size=(n_features, n_labels)) + 0.3 * rng.normal(size=(n_documents, n_labels))
    return features, sp.csr_array((scores > np.quantile(scores, 0.97, axis=0)).astype(np.float32))


CLOSE = SolverConfig(tolerance=1e-4, max_passes=2000)


@pytest.fixture
def few_added(monkeypatch):
    monkeypatch.setattr(working_sets, "MIN_ADDED", 20)


def test_margins_are_those_of_liblinear_on_all_documents(few_added):
    features, targets = corpus(1500, 60, 4, 0)
    weights, biases = train_one_vs_rest(features, targets, replace(CLOSE, C=0.7))
    for label in range(4):
        truth = targets[:, [label]].toarray().ravel()
        svm = LinearSVC(C=0.7, dual=True, tol=1e-6, max_iter=100_000, random_state=0).fit(features, truth)
        margins = features @ weights[[label]].toarray().ravel() + biases[label]
        np.testing.assert_allclose(margins, svm.decision_function(features), atol=2e-3)


def test_most_documents_are_never_trained_on(few_added, monkeypatch):
    n_used = []
    finish = working_sets._Lane.finish

    def counted(lane):
        n_used.append(len(lane.rows))
        return finish(lane)

    monkeypatch.setattr(working_sets._Lane, "finish", counted)
    features, targets = corpus(4000, 300, 5, 1)
    train_one_vs_rest(features, sp.csr_array(targets[:, :1]), replace(CLOSE, tolerance=0.05))
    assert len(n_used) == 1
    assert targets[:, [0]].nnz < n_used[0] < 2000


def test_threads_and_parts_do_not_change_the_classifiers(few_added, monkeypatch):
    features, targets = corpus(300, 40, 9, 2)
    weights, biases = train_one_vs_rest(features, targets, CLOSE)
    monkeypatch.setattr(working_sets, "CALL_LABELS", 2)
    monkeypatch.setattr(working_sets, "LANES", 3)
    monkeypatch.setattr(working_sets, "BLOCK_DOCUMENTS", 7)
    in_parts, other_biases = train_one_vs_rest(features, targets, CLOSE, n_threads=3)
    np.testing.assert_allclose(in_parts.toarray(), weights.toarray(), atol=1e-5)
    np.testing.assert_allclose(other_biases, biases, atol=1e-5)


def test_labels_of_all_or_no_documents_have_no_weights():
    features, targets = corpus(50, 20, 1, 3)
    columns = [np.zeros(50), targets.toarray().ravel(), np.ones(50)]
    counts = []
    weights, biases = train_one_vs_rest(features, sp.csr_array(np.stack(columns, 1)), CLOSE, advance=counts.append)
    assert np.diff(weights.indptr)[[0, 2]].tolist() == [0, 0]
    assert biases[[0, 2]].tolist() == [-1, 1]
    assert weights[[1]].nnz > 0
    assert sum(counts) == 3


def test_small_weights_are_dropped_and_the_others_kept_as_they_are():
    features, targets = corpus(200, 30, 3, 4)
    full = train_one_vs_rest(features, targets, CLOSE)[0].toarray()
    pruned = train_one_vs_rest(features, targets, replace(CLOSE, prune=0.3))[0].toarray()
    np.testing.assert_array_equal(pruned, np.where(np.abs(full) >= 0.3, full, 0))
    assert 0 < np.count_nonzero(pruned) < np.count_nonzero(full)


def test_a_block_gives_the_margins_of_its_documents():
    features, _ = corpus(30, 20, 1, 5)
    rng = np.random.default_rng(0)
    weights, biases = rng.normal(size=(20, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    weights[::2] = 0
    margins = FeatureBlock.from_rows(features, range(10, 23)).margins(weights, weights.any(axis=1), biases)
    np.testing.assert_allclose(margins, (features[10:23] @ weights + biases).T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("most", [1, 5, 40, 1000])
def test_the_worst_documents_are_added_first(most):
    margins = np.random.default_rng(1).normal(size=500).astype(np.float32)
    working_set = np.flatnonzero(margins > 1.5)[::2].astype(np.int32)
    others = np.setdiff1d(np.flatnonzero(margins > 0.5), working_set)
    rows = find_violators(margins.copy(), working_set, 0.5, most)
    assert 0 < len(rows) <= max(most, 10)
    assert set(rows) <= set(others)
    assert len(rows) == len(set(rows))
    left = np.setdiff1d(others, rows)
    assert len(left) == 0 or margins[left].max() <= margins[rows].min()
    assert len(left) == 0 or most < len(others)


def test_nothing_is_added_where_all_are_on_their_side():
    assert len(find_violators(np.full(9, -2, np.float32), np.array([3], np.int32), -1.0, 4)) == 0
