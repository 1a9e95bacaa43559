"""Balanced 2-means: bisect the labels again and again, so that all sets of one depth are of one size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import get_num_threads
from numpy.typing import NDArray

from haxmlnet.tree import kernels

MAX_ITERATIONS = 50
MIN_GAIN = 1e-4
WIDE_SET_SIZE = 32768
# Not the number of threads: the order of summation, and so the tree, must not depend on the machine.
N_CHUNKS = 8


@dataclass(frozen=True)
class _Rows:
    """The arrays of a CSR matrix in the only types that the kernels are compiled for."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.uint32]
    values: NDArray[np.float32]
    width: int

    @property
    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float32]]:
        return self.indptr, self.columns, self.values


def balanced_partition(
    features: sp.csr_array | sp.csr_matrix,
    depth: int,
    rng: np.random.Generator,
    wide_set_size: int = WIDE_SET_SIZE,
) -> NDArray[np.int32]:
    """Give each label the index (0 to 2^depth - 1) of its set after `depth` rounds of balanced bisection.

    Rows of `features` have unit length, or are empty. The sizes of the sets differ by at most one, and the
    set of a label at a smaller depth d is `index >> (depth - d)`. Sets with more than `wide_set_size` labels
    are split one after the other by all threads, smaller ones side by side, one thread each.
    """
    rows = _rows(features)
    n_labels = len(rows.indptr) - 1
    order = np.arange(n_labels, dtype=np.int32)
    bounds = np.array([0, n_labels], dtype=np.int64)
    for _ in range(depth):
        sizes = np.diff(bounds)
        seeds, bounds = _draw_seeds(sizes, rng), _halved(bounds)
        if sizes.max() > wide_set_size:
            for i in range(len(sizes)):
                start, middle, stop = bounds[2 * i : 2 * i + 3]
                if stop - start > 1:
                    order[start:stop] = _split_wide(rows, order[start:stop], middle - start, seeds[i])
        else:
            _split_side_by_side(rows, order, bounds, seeds)
    index = np.empty(n_labels, dtype=np.int32)
    index[order] = np.repeat(np.arange(len(bounds) - 1, dtype=np.int32), np.diff(bounds))
    return index


def _rows(features: sp.csr_array | sp.csr_matrix) -> _Rows:
    return _Rows(
        indptr=np.ascontiguousarray(features.indptr, dtype=np.int64),
        # Unsigned, because numba tests every signed index for counting from the end.
        columns=np.ascontiguousarray(features.indices, dtype=np.int32).view(np.uint32),
        values=np.ascontiguousarray(features.data, dtype=np.float32),
        width=features.shape[1],
    )


def _draw_seeds(sizes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw two different positions in each set; where there is only one, both are 0."""
    draws = rng.random((len(sizes), 2))
    first = (draws[:, 0] * sizes).astype(np.int64)
    step = 1 + (draws[:, 1] * (sizes - 1)).astype(np.int64)
    return np.column_stack([first, (first + step) % np.maximum(sizes, 1)])


def _halved(bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Put the middle of each set between its bounds; sizes that differ by one give halves that do, too."""
    halved = np.empty(2 * len(bounds) - 1, dtype=np.int64)
    halved[::2] = bounds
    halved[1::2] = bounds[:-1] + (np.diff(bounds) + 1) // 2
    return halved


def _split_wide(rows: _Rows, members: NDArray[np.int32], n_left: int, seeds: NDArray[np.int64]) -> NDArray[np.int32]:
    """Order the members of one large set by half; all threads share its labels."""
    sums = np.zeros((N_CHUNKS, rows.width))
    left = np.ones(len(members), dtype=np.bool_)
    kernels.move_chunks(*rows.arrays, members, np.zeros_like(left), left, sums)
    total = sums.sum(axis=0)
    weights = np.zeros(rows.width, dtype=np.float32)
    kernels.set_seed_weights(*rows.arrays, members[seeds], weights)
    similarity = -np.inf
    for _ in range(MAX_ITERATIONS):
        previous, before = similarity, left
        left = kernels.mark_greatest(kernels.project_all(*rows.arrays, members, weights), n_left)
        kernels.move_chunks(*rows.arrays, members, before, left, sums)
        similarity = kernels.set_weights(sums.sum(axis=0), total, weights) / len(members)
        if similarity - previous < MIN_GAIN:
            break
    return np.concatenate([members[left], members[~left]])


def _split_side_by_side(
    rows: _Rows, order: NDArray[np.int32], bounds: NDArray[np.int64], seeds: NDArray[np.int64]
) -> None:
    """Order the members of every set by half, in place; each thread takes whole sets."""
    n_workers = min(get_num_threads(), len(seeds))
    slots = np.full((n_workers, rows.width), -1, dtype=np.int32)
    kernels.split_sets(*rows.arrays, order, bounds, seeds, slots, MAX_ITERATIONS, MIN_GAIN)
