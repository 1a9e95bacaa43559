"""Figures of known predictions, calibration of known scores, intervals of known differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.bootstrap import differences_to_best
from benchmarks.calibration import reliability
from benchmarks.judging import METRICS, Truth, document_values, judge_predictions

from haxmlnet.metrics import evaluate


def truth_of(rows: list[list[int]], counts: list[int], n_train: int = 100) -> Truth:
    matrix = np.zeros((len(rows), len(counts)))
    for row, labels in enumerate(rows):
        matrix[row, labels] = 1
    return Truth(sp.csr_array(matrix), np.array(counts), n_train)


@pytest.fixture
def random_case():
    rng = np.random.default_rng(3)
    counts = np.append(np.sort(rng.zipf(1.5, 30).clip(max=200))[::-1], 0)
    matrix = sp.csr_array((rng.random((60, 31)) < 0.1).astype(float))
    ids = np.stack([rng.permutation(30)[:5] for _ in range(60)]).astype(np.int32)
    ids[:7, 3:] = -1
    return ids, Truth(matrix, counts, 500)


def test_figures_of_three_documents_by_hand():
    truth = truth_of([[0, 1], [2], [0]], counts=[50, 40, 10, 0])
    ids = np.array([[0, 2, 1, -1, -1], [2, 0, 1, -1, -1], [1, 2, -1, -1, -1]], np.int32)
    values = judge_predictions(ids, np.ones(ids.shape, np.float32), truth).values
    assert values["P@1"] == pytest.approx(100 * 2 / 3)
    assert values["P@3"] == pytest.approx(100 * 3 / 9)
    assert values["P@5"] == pytest.approx(100 * 3 / 15)
    assert values["RP@5"] == pytest.approx(100 * (2 / 2 + 1 / 1 + 0) / 3)
    first = (1 + 1 / 2) / (1 + 1 / math.log2(3))  # hits on the first and third place of two true labels
    assert values["nDCG@3"] == pytest.approx(100 * (first + 1 + 0) / 3)
    assert values["head P@5"] == pytest.approx(100 * 1 / 15)  # label 0 holds half of all assignments
    assert values["torso P@5"] == pytest.approx(100 * 1 / 15)
    assert values["tail P@5"] == pytest.approx(100 * 1 / 15)


def test_sums_over_documents_give_the_metrics_of_the_library(random_case):
    ids, truth = random_case
    numerators, denominators = document_values(ids, truth)
    values = judge_predictions(ids, np.ones(ids.shape, np.float32), truth).values
    sums = 100 * numerators.sum(0) / denominators.sum(0)
    assert dict(zip(METRICS, sums, strict=True)) == pytest.approx({name: values[name] for name in METRICS})
    report = evaluate(ids, truth.matrix, truth.counts, truth.n_train).values
    assert {name: values[name] for name in METRICS if name in report} == pytest.approx(
        {name: report[name] for name in METRICS if name in report}
    )


def test_unseen_labels_are_missed_unless_psp_is_asked_for_without_them():
    truth = truth_of([[0, 2], [1]], counts=[5, 5, 0])
    ids = np.array([[0, 1], [1, 0]], np.int32)
    found = judge_predictions(ids, np.ones(ids.shape, np.float32), truth)
    assert found.values["PSP@1"] < 100
    assert found.psp_of_seen == pytest.approx({"PSP@1": 100, "PSP@3": 100, "PSP@5": 100})


def test_absent_labels_have_no_part_in_calibration():
    truth = truth_of([[0], [1]], counts=[5, 5])
    ids = np.array([[0, 1], [0, -1]], np.int32)
    scores = np.array([[0.75, 0.25], [0.5, 0]], np.float32)
    found = judge_predictions(ids, scores, truth)
    assert sum(found.reliability.counts) == 3
    assert found.values["ECE"] == pytest.approx((0.25 + 0.25 + 0.5) / 3)


def test_true_probabilities_have_almost_no_error_and_doubled_ones_have():
    rng = np.random.default_rng(0)
    scores = rng.random(60_000).astype(np.float32) / 2
    hits = rng.random(60_000) < scores
    assert reliability(scores, hits).expected_error < 0.01
    assert reliability(2 * scores, hits).expected_error == pytest.approx(0.25, abs=0.01)  # the mean score is 0.25 off


def test_bins_hold_equally_many_and_never_part_equal_scores():
    assert reliability(np.linspace(0, 1, 150, dtype=np.float32), np.ones(150, bool)).counts == [10] * 15
    scores = np.array([0.1] * 50 + [0.9] * 50, np.float32)
    hits = np.array([True] * 5 + [False] * 45 + [True] * 45 + [False] * 5)
    found = reliability(scores, hits)
    assert found.counts == [50, 50]
    assert found.true == pytest.approx([0.1, 0.9])
    order = np.random.default_rng(1).permutation(100)
    assert reliability(scores[order], hits[order]) == found
    assert found.expected_error == pytest.approx(0, abs=1e-6)


def test_no_predictions_at_all_have_no_error():
    assert reliability(np.zeros(0, np.float32), np.zeros(0, bool)).expected_error == 0


def compare(numerators, denominators=None, peers=("b",), n_resamples=2000):
    n = len(next(iter(numerators.values())))
    columns = {name: np.asarray(values, float).reshape(n, -1) for name, values in numerators.items()}
    whole = np.ones((n, 1)) if denominators is None else np.asarray(denominators, float).reshape(n, -1)
    metrics = [f"m{i}" for i in range(whole.shape[1])]
    return differences_to_best(columns, whole, list(peers), metrics, np.random.default_rng(0), n_resamples)


def test_a_constant_difference_has_no_width():
    difference = compare({"a": np.full(50, 0.75), "b": np.full(50, 0.5)})["a"]["m0"]
    assert (difference.points, difference.low, difference.high) == pytest.approx((25, 25, 25))
    assert difference.is_significant


def test_the_interval_is_that_of_the_paired_differences():
    rng = np.random.default_rng(5)
    base = rng.random(4000)  # hard and easy documents for both: this must cancel out
    gap = rng.choice([-1.0, 0.0, 1.0], 4000, p=[0.04, 0.9, 0.06])
    difference = compare({"a": base + gap, "b": base}, n_resamples=4000)["a"]["m0"]
    half = 100 * 1.96 * gap.std() / math.sqrt(4000)
    assert difference.points == pytest.approx(100 * gap.mean())
    assert difference.low == pytest.approx(difference.points - half, abs=0.06 * half)
    assert difference.high == pytest.approx(difference.points + half, abs=0.06 * half)


def test_a_ratio_of_sums_is_resampled_as_one():
    rng = np.random.default_rng(6)
    weights = rng.integers(1, 10, 3000)
    hits = rng.random(3000) < 0.5
    ours = np.where(rng.random(3000) < 0.03, True, hits)
    difference = compare({"a": ours * weights, "b": hits * weights}, weights)["a"]["m0"]
    assert difference.points == pytest.approx(100 * ((ours * weights).sum() - (hits * weights).sum()) / weights.sum())
    assert 0 < difference.low < difference.points < difference.high


def test_every_metric_is_compared_with_the_peer_that_is_best_in_it():
    numerators = {
        "a": np.full((20, 2), 0.5),
        "b": np.tile([0.9, 0.1], (20, 1)),
        "c": np.tile([0.2, 0.6], (20, 1)),
    }
    found = compare(numerators, np.ones((20, 2)), peers=("b", "c"))
    assert [found["a"][m].peer for m in ("m0", "m1")] == ["b", "c"]
    assert [found["a"][m].points for m in ("m0", "m1")] == pytest.approx([-40, -10])
    assert not found["b"]["m0"].is_significant
    assert found["b"]["m0"].points == 0


def test_equal_methods_do_not_differ():
    values = np.random.default_rng(2).random(100)
    difference = compare({"a": values, "b": values})["a"]["m0"]
    assert (difference.low, difference.high) == pytest.approx((0, 0))
    assert not difference.is_significant
