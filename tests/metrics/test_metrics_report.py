from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from haxmlnet.errors import DataError, SettingError
from haxmlnet.metrics import (
    Propensity,
    bucket_table,
    evaluate,
    frequency_buckets,
    judge,
    ndcg_at_k,
    precision_at_k,
    propensities,
    propensity_gains,
    psndcg_at_k,
    psp_at_k,
)
from haxmlnet.ranking import Ranking

KEYS = "P@1 P@3 P@5 nDCG@1 nDCG@3 nDCG@5 PSP@1 PSP@3 PSP@5 PSnDCG@1 PSnDCG@3 PSnDCG@5 R@5 RP@5 n_documents"
COUNTS = np.array([40, 30, 20, 10, 9, 5, 4, 3, 2, 2, 1, 0])


def test_report_names_every_metric_in_order(random_case):
    report = evaluate(*random_case(0), COUNTS, 100)
    assert list(report.values) == KEYS.split()
    assert report.values["n_documents"] == 40


def test_report_holds_the_values_of_the_metrics(random_case):
    ids, truth = random_case(1)
    values = evaluate(ids, truth, COUNTS, 100, ks=(2, 4), propensity=Propensity(0.6, 2.6)).values
    judged = judge(ids, truth)
    gains = propensity_gains(judged, propensities(COUNTS, 100, 0.6, 2.6), 4)
    assert values["P@2"] == precision_at_k(judged, 2)
    assert values["nDCG@4"] == ndcg_at_k(judged, 4)
    assert values["PSP@4"] == psp_at_k(gains, 4)
    assert values["PSnDCG@4"] == psndcg_at_k(gains, 4, "repository")
    assert {"R@4", "RP@4"} < set(values)


def test_a_ranking_and_its_ids_give_the_same_report(random_case):
    ids, truth = random_case(2)
    ranking = Ranking(ids, np.zeros(ids.shape, np.float32), n_ids=12)
    assert evaluate(ranking, truth, COUNTS, 100) == evaluate(ids, truth, COUNTS, 100)


def test_unseen_true_labels_lower_recall_and_leave_precision(random_case):
    ids, truth = random_case(3)
    seen = evaluate(ids, truth, COUNTS, 100)
    wider = sp.csr_array(sp.hstack([truth, np.ones((truth.shape[0], 2), np.int8)]))
    unseen = evaluate(ids, wider, np.append(COUNTS, [0, 0]), 100)
    assert unseen.values["P@5"] == seen.values["P@5"]
    for name in ("R@5", "PSP@5", "PSnDCG@5", "nDCG@5"):
        assert unseen.values[name] < seen.values[name]
    assert (unseen.buckets[-1].name, unseen.buckets[-1].n_labels) == ("unseen", 3)


def test_rows_are_text_with_two_decimals(random_case):
    report = evaluate(*random_case(0), COUNTS, 100)
    rows = dict(report.rows())
    assert rows["P@3"] == f"{report.values['P@3']:.2f}"
    assert rows["n_documents"] == "40"
    head = report.bucket_rows()[0]
    assert (head["labels"], head["number"], head["frequency"]) == ("head", "2", "30-40")
    assert list(head)[-6:] == ["P@1", "P@3", "P@5", "R@1", "R@3", "R@5"]


def test_report_can_be_written_as_json(random_case):
    report = evaluate(*random_case(0), COUNTS, 100)
    assert json.loads(json.dumps(asdict(report)))["values"] == report.values


@pytest.mark.parametrize("ks", [(), (0, 1)])
def test_ks_below_one_are_refused(random_case, ks):
    with pytest.raises(SettingError, match="ks must be"):
        evaluate(*random_case(0), COUNTS, 100, ks=ks)


def test_counts_of_another_number_of_labels_are_refused(random_case):
    with pytest.raises(DataError, match=r"each of the 12 columns of truth, got shape \(11,\)"):
        evaluate(*random_case(0), COUNTS[1:], 100)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([3, 2, 1], [0, 1, 2]),
        ([1, 2, 3, 0], [2, 1, 0, 3]),
        ([5, 5, 5], [0, 0, 0]),
        ([100, 1, 1], [0, 2, 2]),
        ([0, 0], [3, 3]),
    ],
)
def test_buckets_hold_a_third_of_the_assignments_each(counts, expected):
    # 3 of 6 assignments lie above the second label (half: torso), 5 of 6 above the third (tail).
    assert frequency_buckets(np.array(counts)).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=20))
def test_buckets_agree_with_their_definition(counts):
    total = sum(counts)
    for count, bucket in zip(counts, frequency_buckets(np.array(counts)), strict=True):
        above = sum(other for other in counts if other > count)
        expected = 3 if count == 0 else 0 if 3 * above < total else 1 if 3 * above < 2 * total else 2
        assert bucket == expected


@pytest.mark.parametrize("seed", range(4))
def test_bucket_table_agrees_with_brute_force(random_case, seed):
    ids, truth = random_case(seed)
    dense, bucket = truth.toarray().astype(int), frequency_buckets(COUNTS)
    table = bucket_table(judge(ids, truth), COUNTS, (1, 4))
    assert [row.name for row in table] == ["head", "torso", "tail", "unseen"]
    for index, row in enumerate(table):
        members = set(np.flatnonzero(bucket == index).tolist())
        n_true = sum(dense[d, label] for d in range(len(ids)) for label in members)
        assert (row.n_labels, row.n_true) == (len(members), n_true)
        assert (row.min_frequency, row.max_frequency) == (min(COUNTS[[*members]]), max(COUNTS[[*members]]))
        for k in (1, 4):
            hits = sum(dense[d, i] for d in range(len(ids)) for i in ids[d, :k].tolist() if i in members)
            assert row.values[f"P@{k}"] == pytest.approx(100 * hits / (k * len(ids)))
            assert row.values[f"R@{k}"] == pytest.approx(100 * hits / n_true)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_precision_of_the_buckets_adds_up(random_case, k):
    report = evaluate(*random_case(5), COUNTS, 100)
    assert sum(row.values[f"P@{k}"] for row in report.buckets) == pytest.approx(report.values[f"P@{k}"])


def test_bucket_without_true_labels_has_recall_zero():
    truth = sp.csr_array(np.array([[1, 0]]))
    table = bucket_table(judge(np.array([[1, 0]], np.int32), truth), np.array([1, 9]), (1,))
    assert [(row.name, row.n_true, row.values["R@1"]) for row in table] == [("head", 0, 0), ("tail", 1, 0)]
