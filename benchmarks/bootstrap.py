"""Paired bootstrap over documents: how sure is a difference between two methods?

All methods are judged on the same resampled documents, so that what makes a document hard for all cancels out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

N_RESAMPLES = 10_000
BLOCK = 2**22
"""Numbers drawn at once."""


@dataclass(frozen=True)
class Difference:
    """How much better a method is than the best peer, in points, with its 95 % interval."""

    peer: str
    points: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether 0 is outside the interval."""
        return self.low > 0 or self.high < 0


Differences = dict[str, dict[str, Difference]]
"""Of each method, in each metric."""


def differences_to_best(
    numerators: Mapping[str, NDArray[np.float64]],
    denominators: NDArray[np.float64],
    peers: Sequence[str],
    metrics: Sequence[str],
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> Differences:
    """Compare every method, in every metric, with the peer that is best in it.

    `numerators` holds (documents, metrics) for each method, `denominators` is the same for all: a metric is
    100 times the sum of the one over the sum of the other.
    """
    names = list(numerators)
    stacked = np.stack([numerators[name] for name in names], axis=1)  # (n, methods, metrics)
    whole = 100 / denominators.sum(0)
    values = stacked.sum(0) * whole  # (methods, metrics)
    best = [max(peers, key=lambda peer: values[names.index(peer), m]) for m in range(len(metrics))]
    against = [names.index(peer) for peer in best]
    resampled = _resampled(stacked, denominators, rng, n_resamples)  # (resamples, methods, metrics)
    columns = np.arange(len(metrics))
    gaps = resampled - resampled[:, against, columns][:, None, :]
    low, high = np.percentile(gaps, [2.5, 97.5], axis=0)
    points = values - values[against, columns]
    return {
        name: {
            metric: Difference(best[m], float(points[i, m]), float(low[i, m]), float(high[i, m]))
            for m, metric in enumerate(metrics)
        }
        for i, name in enumerate(names)
    }


def _resampled(
    numerators: NDArray[np.float64], denominators: NDArray[np.float64], rng: np.random.Generator, n_resamples: int
) -> NDArray[np.float64]:
    n, n_methods, n_metrics = numerators.shape
    flat = np.concatenate([numerators.reshape(n, -1), denominators], axis=1)
    sums = np.empty((n_resamples, flat.shape[1]))
    size = max(BLOCK // n, 1)
    for start in range(0, n_resamples, size):
        n_rows = min(size, n_resamples - start)
        drawn = rng.integers(0, n, (n_rows, n)) + n * np.arange(n_rows)[:, None]
        times_drawn = np.bincount(drawn.ravel(), minlength=n_rows * n).reshape(n_rows, n)
        sums[start : start + n_rows] = times_drawn.astype(np.float64) @ flat
    parts = sums[:, : n_methods * n_metrics].reshape(n_resamples, n_methods, n_metrics)
    return 100 * parts / sums[:, None, n_methods * n_metrics :]
