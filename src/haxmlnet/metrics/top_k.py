"""Metrics of the best k labels of each document, in percent: P@k, R@k, RP@k and nDCG@k.

y_l is 1 if the label at rank l is true and 0 otherwise, and |y| is the number of true labels of the document. The
mean is over all documents. One without true labels scores 0, as in the public code of the field. P@k divides by k
even where a ranking is shorter than k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from haxmlnet.errors import DataError
from haxmlnet.ranking import ABSENT


@dataclass(frozen=True)
class Judged:
    """A ranking next to the truth: which of its labels are true, and how many true labels a document has."""

    ids: NDArray[np.int32]  # (n, K)
    hits: NDArray[np.bool_]  # (n, K), y
    truth: sp.csr_array  # (n, L), sorted, each true label stored once
    n_true: NDArray[np.int64]  # (n,), |y|


def judge(ids: NDArray[np.int32], truth: sp.csr_array | sp.csr_matrix) -> Judged:
    """Look up which ranked labels are true.

    `ids` is (n, K), best first, -1 where absent; `truth` is (n, L), and any stored value but 0 means true.
    """
    truth = sp.csr_array(truth, copy=True)
    truth.sum_duplicates()
    truth.eliminate_zeros()
    ids = np.asarray(ids)
    _check_ids(ids, truth)

    # Rows and sorted columns make one sorted array of keys, so that a lookup is one binary search.
    n_labels = truth.shape[1]
    rows = np.arange(len(ids), dtype=np.int64)[:, None]
    n_true = np.diff(truth.indptr).astype(np.int64)
    true_keys = np.repeat(rows[:, 0] * n_labels, n_true) + truth.indices
    keys = rows * n_labels + ids  # (n, K)
    found = np.append(true_keys, -1)[np.searchsorted(true_keys, keys)]
    return Judged(ids, (found == keys) & (ids != ABSENT), truth, n_true)


def precision_at_k(judged: Judged, k: int) -> float:
    """P@k = 1/k sum_{l<=k} y_l: the share of true labels among the best k."""
    return to_percent(judged.hits[:, :k].sum(), k * len(judged.hits))


def recall_at_k(judged: Judged, k: int) -> float:
    """R@k = 1/|y| sum_{l<=k} y_l: the share of a document's true labels that are among its best k."""
    n_hits = judged.hits[:, :k].sum(axis=1)
    return to_percent(divide(n_hits, judged.n_true).sum(), len(n_hits))


def r_precision_at_k(judged: Judged, k: int) -> float:
    """RP@k = 1/min(k, |y|) sum_{l<=k} y_l: hits among the best k, over the most there can be."""
    n_hits = judged.hits[:, :k].sum(axis=1)
    return to_percent(divide(n_hits, np.minimum(judged.n_true, k)).sum(), len(n_hits))


def ndcg_at_k(judged: Judged, k: int) -> float:
    """nDCG@k = DCG@k / iDCG@k: hits discounted by rank, over those of a perfect ranking."""
    return to_percent(divide(dcg(judged.hits, k), ideal_dcg(judged.n_true, k)).sum(), len(judged.hits))


def dcg(gains: NDArray[np.bool_] | NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """DCG@k = sum_{l<=k} gain_l / log2(l + 1), of each document."""
    top = gains[:, :k]
    return top @ _discounts(top.shape[1])  # (n,)


def ideal_dcg(n_true: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """iDCG@k = sum_{l<=min(k, |y|)} 1 / log2(l + 1), of each document."""
    return np.append(0, np.cumsum(_discounts(k)))[np.minimum(n_true, k)]  # (n,)


def _discounts(k: int) -> NDArray[np.float64]:
    return 1 / np.log2(np.arange(2, k + 2))


def divide(part: ArrayLike, whole: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide two arrays; where the divisor is 0, so is the quotient."""
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def to_percent(part: float, whole: float) -> float:
    """Compute part / whole in percent; 0 of 0 is 0."""
    return float(100 * part / whole) if whole else 0.0


def _check_ids(ids: NDArray[np.int32], truth: sp.csr_array) -> None:
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
