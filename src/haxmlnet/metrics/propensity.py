"""Propensity-scored metrics, in percent: PSP@k and PSnDCG@k, where a hit on a rare label is worth more.

They are ratios of sums over all documents: what the ranking gained, over the most that could be gained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from haxmlnet.errors import SettingError
from haxmlnet.metrics.top_k import Judged, dcg, divide, ideal_dcg, to_percent


class Propensity(NamedTuple):
    """The constants A and B of `propensities`: 0.6, 2.6 for Amazon sets, 0.5, 0.4 for Wikipedia sets."""

    a: float = 0.55
    b: float = 1.5


USUAL_PROPENSITY = Propensity()


def propensities(label_counts: ArrayLike, n_documents: int, a: float = 0.55, b: float = 1.5) -> NDArray[np.float64]:
    """Estimate the propensity of each label: how likely a document that should have the label was given it.

    p_j = 1 / (1 + C (N_j + B)^-A) with C = (ln N - 1)(B + 1)^A, the model of Jain, Prabhu and Varma (2016), for N
    training documents of which N_j have label j. The usual A, B are 0.6, 2.6 for Amazon sets, 0.5, 0.4 for
    Wikipedia sets, 0.55, 1.5 for others. With fewer than three training documents C would be negative; it is 0
    then, and every propensity 1.
    """
    if not (0 <= a < np.inf and 0 < b < np.inf):
        raise SettingError(f"propensity: a must be at least 0 and b above 0, got a={a} and b={b}. Try 0.55, 1.5.")
    counts = np.asarray(label_counts, np.float64)
    c = max(np.log(max(n_documents, 1)) - 1, 0) * (b + 1) ** a
    return 1 / (1 + c * (counts + b) ** -a)


@dataclass(frozen=True)
class Gains:
    """What the hits of a ranking are worth, 1 / p_j each, next to the gains of the best possible ranking."""

    reached: NDArray[np.float64]  # (n, K), 0 where no hit
    best: NDArray[np.float64]  # (n, k), falling, 0 beyond the true labels
    n_true: NDArray[np.int64]  # (n,)


def propensity_gains(judged: Judged, propensities: NDArray[np.float64], k: int) -> Gains:
    """Weight hits by 1 / propensity of their labels, and find the most that the best k labels could gain.

    True labels that training never saw are in that best sum: they can only be missed.
    """
    worth = 1 / propensities
    reached = judged.hits * np.append(worth, 0)[judged.ids]  # the appended 0 is for absent ids, -1

    # The k true labels of each document that are worth most
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
    """PSP@k: sum_{l<=k} y_l / p_l of all documents, over the best possible sum."""
    assert k <= gains.best.shape[1]
    return to_percent(gains.reached[:, :k].sum(), gains.best[:, :k].sum())


def psndcg_at_k(gains: Gains, k: int, convention: Literal["repository", "pyxclib"] = "repository") -> float:
    """PSnDCG@k: sum_{l<=k} y_l / (p_l log2(l + 1)) of all documents, over the best possible sum.

    Public code has two conventions, equal at k = 1 and wherever all documents have k or more true labels.
    "repository" is `nDCG_wt_k` of the Extreme Classification Repository's Matlab scripts: both sums are of
    plain DCG, so a document with more true labels weighs more. "pyxclib" is `psndcg` of that package: in both
    sums a document's DCG is first divided by its unweighted iDCG, that of min(k, number of true labels) hits.
    """
    assert k <= gains.best.shape[1]
    reached, best = dcg(gains.reached, k), dcg(gains.best, k)
    if convention == "pyxclib":
        ideal = ideal_dcg(gains.n_true, k)
        reached, best = divide(reached, ideal), divide(best, ideal)
    elif convention != "repository":
        raise SettingError(f"PSnDCG: convention must be 'repository' or 'pyxclib', got {convention!r}.")
    return to_percent(reached.sum(), best.sum())
