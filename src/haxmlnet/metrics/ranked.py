"""Metrics of the best k labels of each document, in percent.

Every document counts in every mean. One without true labels can win nothing and counts 0, also for nDCG@k,
R@k and RP@k, as in the public code of the field; the propensity-scored metrics are ratios of sums, where it
adds nothing above or below. P@k divides by k even where a ranking is shorter than k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from haxmlnet.errors import DataError, SettingError
from haxmlnet.ranking import ABSENT


@dataclass(frozen=True)
class Judged:
    """A ranking next to the truth: which of its labels are true, and how many a document has."""

    ids: NDArray[np.int32]  # (n, K)
    hits: NDArray[np.bool_]  # (n, K)
    truth: sp.csr_array  # (n, L), sorted, each true label stored once
    n_true: NDArray[np.int64]  # (n,)


@dataclass(frozen=True)
class Gains:
    """What hits are worth, 1 / propensity, next to what the best possible ranking would gain."""

    reached: NDArray[np.float64]  # (n, K), 0 where no hit
    best: NDArray[np.float64]  # (n, k), falling, 0 beyond the true labels
    n_true: NDArray[np.int64]  # (n,)


def judge(ids: NDArray[np.int32], truth: sp.csr_array | sp.csr_matrix) -> Judged:
    """Look up which ranked labels are true.

    `ids` is (n, K), best first, -1 where absent; `truth` is (n, L), and any stored value but 0 means true.
    """
    truth = _canonical(truth)
    ids = np.asarray(ids)
    _check(ids, truth)
    n_labels = truth.shape[1]
    # Rows and sorted columns make one sorted array of keys, so that a lookup is one binary search.
    rows = np.arange(len(ids), dtype=np.int64)[:, None]
    n_true = np.diff(truth.indptr).astype(np.int64)
    true_keys = np.repeat(rows[:, 0] * n_labels, n_true) + truth.indices
    keys = rows * n_labels + ids  # (n, K)
    found = np.append(true_keys, -1)[np.searchsorted(true_keys, keys)]
    return Judged(ids, (found == keys) & (ids != ABSENT), truth, n_true)


def precision_at_k(judged: Judged, k: int) -> float:
    """P@k: the share of true labels among the best k."""
    return _percent(judged.hits[:, :k].sum(), k * len(judged.hits))


def recall_at_k(judged: Judged, k: int) -> float:
    """R@k: the share of a document's true labels that are among its best k; the mean over documents."""
    n_hits = judged.hits[:, :k].sum(axis=1)
    return _percent(_divide(n_hits, judged.n_true).sum(), len(n_hits))


def r_precision_at_k(judged: Judged, k: int) -> float:
    """RP@k: hits among the best k over min(k, number of true labels), the most there can be; the mean."""
    n_hits = judged.hits[:, :k].sum(axis=1)
    return _percent(_divide(n_hits, np.minimum(judged.n_true, k)).sum(), len(n_hits))


def ndcg_at_k(judged: Judged, k: int) -> float:
    """nDCG@k: hits discounted by log(rank + 1), over the best DCG, of min(k, true labels) hits; the mean."""
    return _percent(_divide(_dcg(judged.hits, k), _ideal_dcg(judged.n_true, k)).sum(), len(judged.hits))


def propensity_gains(judged: Judged, propensities: NDArray[np.float64], k: int) -> Gains:
    """Weigh hits by 1 / propensity of their labels, and find the most that the best k labels could gain.

    True labels that training never saw are in that best sum: they can only be missed.
    """
    worth = 1 / propensities
    reached = judged.hits * np.append(worth, 0)[judged.ids]  # the appended 0 is for absent ids, -1
    truth = judged.truth
    gains = worth[truth.indices]
    rows = np.repeat(np.arange(len(judged.ids)), judged.n_true)
    order = np.lexsort((-gains, rows))
    position = np.arange(len(rows)) - truth.indptr[rows]
    kept = position < k
    best = np.zeros((len(judged.ids), k))
    best[rows[kept], position[kept]] = gains[order][kept]
    return Gains(reached, best, judged.n_true)


def psp_at_k(gains: Gains, k: int) -> float:
    """PSP@k: the gain of the best k labels summed over all documents, over the best possible sum."""
    assert k <= gains.best.shape[1]
    return _percent(gains.reached[:, :k].sum(), gains.best[:, :k].sum())


def psndcg_at_k(gains: Gains, k: int, convention: Literal["repository", "pyxclib"] = "repository") -> float:
    """PSnDCG@k: the discounted gain summed over all documents, over the best possible sum.

    Public code has two conventions, equal at k = 1 and wherever all documents have k or more true labels.
    "repository" is `nDCG_wt_k` of the Extreme Classification Repository's Matlab scripts: both sums are of
    plain DCG, so a document with more true labels weighs more. "pyxclib" is `psndcg` of that package: in both
    sums a document's DCG is first divided by its unweighted iDCG, that of min(k, number of true labels) hits.
    """
    assert k <= gains.best.shape[1]
    reached, best = _dcg(gains.reached, k), _dcg(gains.best, k)
    if convention == "pyxclib":
        ideal = _ideal_dcg(gains.n_true, k)
        reached, best = _divide(reached, ideal), _divide(best, ideal)
    elif convention != "repository":
        raise SettingError(f"PSnDCG: convention must be 'repository' or 'pyxclib', got {convention!r}.")
    return _percent(reached.sum(), best.sum())


def _dcg(values: NDArray[np.bool_] | NDArray[np.float64], k: int) -> NDArray[np.float64]:
    top = values[:, :k]
    return top @ _discounts(top.shape[1])  # (n,)


def _ideal_dcg(n_true: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    return np.append(0, np.cumsum(_discounts(k)))[np.minimum(n_true, k)]  # (n,)


def _discounts(k: int) -> NDArray[np.float64]:
    return 1 / np.log2(np.arange(2, k + 2))


def _divide(part: ArrayLike, whole: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def _percent(part: float, whole: float) -> float:
    return float(100 * part / whole) if whole else 0.0


def _canonical(truth: sp.csr_array | sp.csr_matrix) -> sp.csr_array:
    """Copy the truth with each true label stored once, in order."""
    truth = sp.csr_array(truth, copy=True)
    truth.sum_duplicates()
    truth.eliminate_zeros()
    return truth


def _check(ids: NDArray[np.int32], truth: sp.csr_array) -> None:
    n, n_labels = truth.shape
    if ids.ndim != 2 or len(ids) != n:
        raise DataError(f"evaluation: ids must be (documents, K) for the {n} documents of truth, got {ids.shape}.")
    if n == 0:
        raise DataError("evaluation: there are no documents. Give at least one.")
    if ids.max(initial=ABSENT) >= n_labels or ids.min(initial=ABSENT) < ABSENT:
        raise DataError(
            f"evaluation: ids must be -1 to {n_labels - 1}, the columns of truth, "
            f"got {ids.min()} to {ids.max()}. Give truth a column for every label the model knows."
        )
    ordered = np.sort(ids, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != ABSENT)
    if repeated.any():
        row = int(repeated.any(axis=1).argmax())
        raise DataError(f"evaluation: document {row} is given a label twice, ids {ids[row].tolist()}.")
