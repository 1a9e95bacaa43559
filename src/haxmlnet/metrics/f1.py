"""F1 of the labels that score at least a threshold."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from haxmlnet.metrics.top_k import judge
from haxmlnet.ranking import ABSENT, Ranking


def f1_at_threshold(ranking: Ranking, truth: sp.csr_array | sp.csr_matrix, threshold: float) -> dict[str, float]:
    """Compute micro-F1 and macro-F1, in percent, of the ranked labels that score at least the threshold.

    F1 = 2 hits / (predicted + true). Micro-F1 counts over all labels together. Macro-F1 is the mean over the
    labels that are true or predicted at least once, also those training never saw; labels that never occur are
    left out, not counted as 0 or 1. Without any label both are 0.
    """
    judged = judge(ranking.above(threshold).ids, truth)
    n_labels = judged.truth.shape[1]
    n_hits = np.bincount(judged.ids[judged.hits], minlength=n_labels)
    n_predicted = np.bincount(judged.ids[judged.ids != ABSENT], minlength=n_labels)
    n_true = np.bincount(judged.truth.indices, minlength=n_labels)
    total = n_predicted + n_true
    occurs = total > 0
    if not occurs.any():
        return {"micro-F1": 0.0, "macro-F1": 0.0}
    macro = (2 * n_hits[occurs] / total[occurs]).mean()
    return {"micro-F1": float(200 * n_hits.sum() / total.sum()), "macro-F1": float(100 * macro)}
