from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from haxmlnet.errors import DataError, SettingError
from haxmlnet.metrics import (
    judge,
    ndcg_at_k,
    precision_at_k,
    propensities,
    propensity_gains,
    psndcg_at_k,
    psp_at_k,
    r_precision_at_k,
    recall_at_k,
)

KS = (1, 2, 3, 5, 8)


def pairs(ids, truth):
    """Each document's ranked labels (absent ones stay, as None) and its set of true labels."""
    rows = [[None if i < 0 else i for i in row] for row in ids.tolist()]
    return [(row, set(np.flatnonzero(true).tolist())) for row, true in zip(rows, truth.toarray(), strict=True)]


def mean(values):
    return 100 * sum(values) / len(values)


def brute_precision(ids, truth, k):
    return mean([len(true & set(row[:k])) / k for row, true in pairs(ids, truth)])


def brute_recall(ids, truth, k):
    return mean([len(true & set(row[:k])) / len(true) if true else 0 for row, true in pairs(ids, truth)])


def brute_r_precision(ids, truth, k):
    return mean([len(true & set(r[:k])) / min(k, len(true)) if true else 0 for r, true in pairs(ids, truth)])


def brute_dcg(gains, k):
    return sum(gain / math.log(position + 2) for position, gain in enumerate(gains[:k]))


def brute_ndcg(ids, truth, k):
    values = []
    for row, true in pairs(ids, truth):
        best = brute_dcg([1] * len(true), k)
        values.append(brute_dcg([label in true for label in row], k) / best if true else 0)
    return mean(values)


def brute_psp(ids, truth, p, k):
    reached = best = 0.0
    for row, true in pairs(ids, truth):
        reached += sum(1 / p[label] for label in row[:k] if label in true)
        best += sum(sorted((1 / p[label] for label in true), reverse=True)[:k])
    return 100 * reached / best


def brute_psndcg(ids, truth, p, k, convention):
    reached = best = 0.0
    for row, true in pairs(ids, truth):
        divisor = brute_dcg([1] * max(len(true), 1), k) if convention == "pyxclib" else 1
        reached += brute_dcg([1 / p[label] if label in true else 0 for label in row], k) / divisor
        best += brute_dcg(sorted((1 / p[label] for label in true), reverse=True), k) / divisor
    return 100 * reached / best


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", KS)
def test_plain_metrics_agree_with_brute_force(random_case, seed, k):
    ids, truth = random_case(seed)
    judged = judge(ids, truth)
    assert precision_at_k(judged, k) == pytest.approx(brute_precision(ids, truth, k))
    assert recall_at_k(judged, k) == pytest.approx(brute_recall(ids, truth, k))
    assert r_precision_at_k(judged, k) == pytest.approx(brute_r_precision(ids, truth, k))
    assert ndcg_at_k(judged, k) == pytest.approx(brute_ndcg(ids, truth, k))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", KS)
def test_propensity_scored_metrics_agree_with_brute_force(random_case, seed, k):
    ids, truth = random_case(seed)
    p = np.random.default_rng(seed).uniform(0.1, 1, truth.shape[1])
    gains = propensity_gains(judge(ids, truth), p, max(KS))
    assert psp_at_k(gains, k) == pytest.approx(brute_psp(ids, truth, p, k))
    for convention in ("repository", "pyxclib"):
        expected = brute_psndcg(ids, truth, p, k, convention)
        assert psndcg_at_k(gains, k, convention) == pytest.approx(expected)


@pytest.mark.parametrize("k", KS)
def test_ndcg_agrees_with_scikit_learn(random_case, k):
    _, truth = random_case(3)
    scores = np.random.default_rng(3).random(truth.shape)
    ids = np.argsort(-scores, axis=1).astype(np.int32)
    expected = 100 * ndcg_score(truth.toarray(), scores, k=k)
    assert ndcg_at_k(judge(ids, truth), k) == pytest.approx(expected)


def test_values_of_a_worked_example():
    ids = np.array([[0, 1, 2], [3, 2, -1]], np.int32)
    truth = sp.csr_array(np.array([[1, 0, 1, 0], [0, 0, 1, 0]]))
    judged = judge(ids, truth)
    assert judged.hits.tolist() == [[True, False, True], [False, True, False]]
    assert [precision_at_k(judged, k) for k in (1, 2)] == [50, 50]
    assert precision_at_k(judged, 3) == pytest.approx(50)
    assert [recall_at_k(judged, k) for k in (1, 2, 3)] == [25, 75, 100]
    assert [r_precision_at_k(judged, k) for k in (1, 2, 3)] == [50, 75, 100]
    second = 1 / math.log2(3)
    assert ndcg_at_k(judged, 3) == pytest.approx(50 * (1.5 / (1 + second) + second))
    gains = propensity_gains(judged, np.array([1, 1, 0.25, 1]), 3)
    assert gains.best.tolist() == [[4, 1, 0], [4, 0, 0]]
    assert psp_at_k(gains, 1) == pytest.approx(100 * 1 / 8)
    assert psp_at_k(gains, 2) == pytest.approx(100 * (1 + 4) / (5 + 4))
    repository = 100 * (1 + 4 / 2 + 4 * second) / (4 + second + 4)
    assert psndcg_at_k(gains, 3) == pytest.approx(repository)
    pyxclib = 100 * (3 / (1 + second) + 4 * second) / ((4 + second) / (1 + second) + 4)
    assert psndcg_at_k(gains, 3, "pyxclib") == pytest.approx(pyxclib)


def test_absent_ids_never_hit_the_last_label_of_the_document_before():
    truth = sp.csr_array(np.array([[0, 1], [0, 1]]))
    assert not judge(np.full((2, 3), -1, np.int32), truth).hits.any()


def test_stored_zeros_and_unsorted_or_repeated_entries_are_understood():
    data, columns = np.array([1, 0, 1, 1]), np.array([2, 1, 0, 0])
    truth = sp.csr_array((data, columns, np.array([0, 4])), shape=(1, 3))
    judged = judge(np.array([[1, 2, 0]], np.int32), truth)
    assert judged.hits.tolist() == [[False, True, True]]
    assert judged.n_true.tolist() == [2]
    assert truth.nnz == 4


def test_precision_divides_by_k_where_the_ranking_is_shorter():
    judged = judge(np.array([[0, 1]], np.int32), sp.csr_array(np.ones((1, 2))))
    assert precision_at_k(judged, 5) == 40
    assert recall_at_k(judged, 5) == r_precision_at_k(judged, 5) == 100
    assert ndcg_at_k(judged, 5) == pytest.approx(100)


def test_documents_without_true_labels_count_as_zero():
    ids = np.array([[0], [0]], np.int32)
    judged = judge(ids, sp.csr_array(np.array([[1, 0], [0, 0]])))
    for metric in (precision_at_k, recall_at_k, r_precision_at_k, ndcg_at_k):
        assert metric(judged, 1) == 50
    gains = propensity_gains(judged, np.ones(2), 1)
    assert psp_at_k(gains, 1) == psndcg_at_k(gains, 1) == psndcg_at_k(gains, 1, "pyxclib") == 100


def test_truth_without_any_label_gives_zero():
    judged = judge(np.array([[0]], np.int32), sp.csr_array((1, 2)))
    gains = propensity_gains(judged, np.ones(2), 1)
    assert psp_at_k(gains, 1) == psndcg_at_k(gains, 1) == ndcg_at_k(judged, 1) == 0


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[0], [1]], r"for the 1 documents of truth, got \(2, 1\)"),
        ([[0, 3]], "got 0 to 3"),
        ([[-2, 0]], "got -2 to 0"),
        ([[1, 1]], r"document 0 is given a label twice, ids \[1, 1\]"),
    ],
)
def test_ids_that_do_not_fit_are_refused(ids, message):
    with pytest.raises(DataError, match=message):
        judge(np.array(ids, np.int32), sp.csr_array(np.ones((1, 3))))


def test_no_documents_are_refused():
    with pytest.raises(DataError, match="no documents"):
        judge(np.zeros((0, 2), np.int32), sp.csr_array((0, 3)))


def test_unknown_convention_is_refused():
    gains = propensity_gains(judge(np.array([[0]], np.int32), sp.csr_array(np.ones((1, 1)))), np.ones(1), 1)
    with pytest.raises(SettingError, match="'repository' or 'pyxclib', got 'other'"):
        psndcg_at_k(gains, 1, "other")


@st.composite
def cases(draw):
    n, n_labels = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    width = draw(st.integers(0, n_labels))
    labels = list(range(n_labels))
    ids = [draw(st.permutations(labels))[:width] for _ in range(n)]
    absent = [draw(st.integers(0, width)) for _ in range(n)]
    ids = [row[: width - m] + [-1] * m for row, m in zip(ids, absent, strict=True)]
    truth = [draw(st.lists(st.integers(0, 1), min_size=n_labels, max_size=n_labels)) for _ in range(n)]
    counts = draw(st.lists(st.integers(0, 50), min_size=n_labels, max_size=n_labels))
    p = propensities(counts, draw(st.integers(1, 1000)))
    return np.array(ids, np.int32).reshape(n, width), sp.csr_array(np.array(truth)), p


def all_metrics(ids, truth, p, k):
    judged = judge(ids, truth)
    gains = propensity_gains(judged, p, k)
    plain = [metric(judged, k) for metric in (precision_at_k, recall_at_k, r_precision_at_k, ndcg_at_k)]
    return [*plain, psp_at_k(gains, k), psndcg_at_k(gains, k), psndcg_at_k(gains, k, "pyxclib")]


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 6))
def test_every_metric_is_a_percentage(case, k):
    assert all(0 <= value <= 100 + 1e-9 for value in all_metrics(*case, k))


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_order_of_documents_does_not_matter(case, k, random):
    ids, truth, p = case
    order = random.sample(range(len(ids)), len(ids))
    assert all_metrics(ids[order], truth[order], p, k) == pytest.approx(all_metrics(ids, truth, p, k))


@settings(max_examples=60, deadline=None)
@given(cases())
def test_ndcg_at_1_is_precision_at_1(case):
    judged = judge(*case[:2])
    assert ndcg_at_k(judged, 1) == pytest.approx(precision_at_k(judged, 1))


@settings(max_examples=60, deadline=None)
@given(cases())
def test_conventions_agree_at_1(case):
    gains = propensity_gains(judge(*case[:2]), case[2], 1)
    assert psndcg_at_k(gains, 1) == pytest.approx(psndcg_at_k(gains, 1, "pyxclib"))


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(1, 6))
def test_perfect_ranking_reaches_100(case, k):
    _, truth, p = case
    truth = truth[np.flatnonzero(truth.sum(axis=1))]
    if truth.shape[0]:
        # True labels first, and among them the rarest first: the best order for every metric.
        ids = np.argsort(-(truth.toarray() / p), axis=1, kind="stable").astype(np.int32)
        _, _, *at_best = all_metrics(ids, truth, p, k)
        assert at_best == pytest.approx([100] * 5)
