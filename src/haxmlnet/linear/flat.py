"""Ranking of all labels by classifiers without a tree."""

from __future__ import annotations

import numba
import numpy as np

from haxmlnet.ranking import best_positions


@numba.njit(cache=True, nogil=True)
def rank_all(starts, columns, values, bounds, labels, weights, biases, ids, margins):  # type: ignore[no-untyped-def]
    """Write the labels (B, K) with the largest margins of each document, best first, and these margins.

    Weights are given by feature: those of feature f are `weights[bounds[f] : bounds[f + 1]]`, each with its label.
    """
    n_labels = len(biases)
    numbers, sums = np.arange(n_labels).astype(np.int32), np.empty(n_labels, np.float32)
    keys, best = np.empty(n_labels, np.int64), np.empty(ids.shape[1], np.int64)
    for row in range(len(ids)):
        sums[:] = biases
        for entry in range(starts[row], starts[row + 1]):
            feature, value = columns[entry], values[entry]
            for position in range(bounds[feature], bounds[feature + 1]):
                sums[labels[position]] += value * weights[position]
        best_positions(numbers, sums, keys, best)
        for place in range(len(best)):
            ids[row, place], margins[row, place] = best[place], sums[best[place]]
