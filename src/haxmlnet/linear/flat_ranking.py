"""Ranking of all labels by linear classifiers without a tree."""

from __future__ import annotations

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.linear.document_blocks import join_rankings, map_blocks
from haxmlnet.ranking import Ranking, best_positions


def rank_by_margin(
    features: sp.csr_array, weights: sp.csc_array, biases: NDArray[np.float32], k: int, n_threads: int
) -> Ranking:
    """Rank the k labels with the largest margins w . x + b of each document; `weights` are (labels, features)."""

    def rank_block(rows: range) -> Ranking:
        ids, margins = np.empty((len(rows), k), np.int32), np.empty((len(rows), k), np.float32)
        _rank_documents(
            features.indptr[rows.start : rows.stop + 1], features.indices, features.data,
            weights.indptr, weights.indices, weights.data, biases, ids, margins,
        )  # fmt: skip
        return Ranking(ids, margins, None, len(biases))

    return join_rankings(list(map_blocks(rank_block, features.shape[0], n_threads, 2 * k)))


@numba.njit(cache=True, nogil=True)
def _rank_documents(starts, columns, values, bounds, labels, weights, biases, ids, margins):  # type: ignore[no-untyped-def]
    """Write the labels (B, K) with the largest margins of each document, best first, and these margins.

    The weights of feature f are `weights[bounds[f] : bounds[f + 1]]`, those of the labels `labels[...]` of the same
    positions.
    """
    n_labels = len(biases)
    all_labels, sums = np.arange(n_labels).astype(np.int32), np.empty(n_labels, np.float32)
    keys, best = np.empty(n_labels, np.int64), np.empty(ids.shape[1], np.int64)
    for row in range(len(ids)):
        sums[:] = biases
        for entry in range(starts[row], starts[row + 1]):
            feature, value = columns[entry], values[entry]
            for position in range(bounds[feature], bounds[feature + 1]):
                sums[labels[position]] += value * weights[position]
        best_positions(all_labels, sums, keys, best)
        for place in range(len(best)):
            ids[row, place], margins[row, place] = best[place], sums[best[place]]
