"""Whether scores are probabilities: of the labels scored 0.8, are 8 in 10 true?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

N_BINS = 15


@dataclass(frozen=True)
class Reliability:
    """Predictions in bins of rising score: mean score, share that is true, number."""

    scores: list[float]
    true: list[float]
    counts: list[int]

    @property
    def expected_error(self) -> float:
        """ECE: how far mean score and share of true labels are apart, averaged over the predictions."""
        gaps = np.abs(np.array(self.scores) - np.array(self.true))
        return float(np.average(gaps, weights=self.counts)) if self.counts else 0.0


def reliability(scores: NDArray[np.float32], hits: NDArray[np.bool_], n_bins: int = N_BINS) -> Reliability:
    """Put predictions into bins that hold equally many; equal scores are never parted, so bins may merge."""
    order = np.argsort(scores, kind="stable")
    ordered, true = scores[order].astype(np.float64), hits[order]
    wanted = np.arange(1, n_bins) * len(ordered) // n_bins
    borders = np.searchsorted(ordered, ordered[wanted]) if len(ordered) else wanted[:0]
    starts = np.unique(np.concatenate([[0], borders])).astype(int)
    starts = starts[starts < len(ordered)]
    if not len(starts):
        return Reliability([], [], [])
    counts = np.diff(np.append(starts, len(ordered)))
    means = np.add.reduceat(ordered, starts) / counts
    shares = np.add.reduceat(true.astype(np.float64), starts) / counts
    return Reliability(means.tolist(), shares.tolist(), counts.tolist())
