from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score

from haxmlnet.metrics import f1_at_threshold
from haxmlnet.ranking import Ranking


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.8])
def test_f1_agrees_with_scikit_learn(random_case, seed, threshold):
    ids, truth = random_case(seed)
    scores = -np.sort(-np.random.default_rng(seed).random(ids.shape), axis=1).astype(np.float32)
    predicted = np.zeros(truth.shape, int)
    for row, (labels, values) in enumerate(zip(ids, scores, strict=True)):
        predicted[row, labels[(labels >= 0) & (values >= threshold)]] = 1
    dense = truth.toarray()
    occurs = np.flatnonzero((dense | predicted).any(axis=0))
    ranking = Ranking(ids, np.where(ids < 0, 0, scores).astype(np.float32), n_ids=truth.shape[1])
    values = f1_at_threshold(ranking, truth, threshold)
    for average in ("micro", "macro"):
        expected = f1_score(dense, predicted, labels=occurs, average=average, zero_division=0)
        assert values[f"{average}-F1"] == pytest.approx(100 * expected)


def test_macro_leaves_out_labels_that_never_occur_and_counts_unseen_ones():
    # Label 0 is right, label 1 never occurs, label 2 is true but unknown to the model.
    ranking = Ranking(np.array([[0, 1]], np.int32), np.array([[0.9, 0.1]], np.float32), n_ids=2)
    values = f1_at_threshold(ranking, sp.csr_array(np.array([[1, 0, 1]])), 0.5)
    assert values == pytest.approx({"micro-F1": 200 / 3, "macro-F1": 50})


def test_nothing_true_and_nothing_predicted_is_zero():
    ranking = Ranking(np.array([[0]], np.int32), np.array([[0.2]], np.float32), n_ids=1)
    assert f1_at_threshold(ranking, sp.csr_array((1, 1)), 0.5) == {"micro-F1": 0, "macro-F1": 0}
