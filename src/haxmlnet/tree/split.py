"""Balanced 2-means: bisect the labels again and again, so that all sets of one depth are of one size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import get_num_threads
from numpy.typing import NDArray

from haxmlnet.tree import kernels
from haxmlnet.tree.kernels import Rows
from haxmlnet.tree.subtree_kernels import halved, split_subtrees

WIDE_SET_SIZE = 32768
# Not the number of threads: the order of summation, and so the tree, must not depend on the machine.
N_CHUNKS = 8
# With fewer sets than this, a level is split at a time, so that soon there is work for all threads.
MIN_SUBTREES = 32
N_STARTS = 4


class Limits(NamedTuple):
    """How long 2-means goes on, and on how many of the labels."""

    max_iterations: int = 50
    # Near the root even a good split gains little: at 1e-4 it would stop before it has found anything.
    min_gain: float = 1e-6
    trial_iterations: int = 5
    """Iterations of each start before the best one is chosen."""
    sampled_size: int = 400
    """Sets of so many labels are split by a sample first."""
    sample_step: int = 8


LIMITS = Limits()


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
    rows, width = _rows(features), features.shape[1]
    n_labels = len(rows.indptr) - 1
    order = np.arange(n_labels, dtype=np.int32)
    bounds, seeds = _plan(n_labels, depth, rng)
    level = 0
    while level < depth:
        n_sets, n_levels = 2**level, 1
        if np.diff(bounds[level]).max() > wide_set_size:
            _split_one_by_one(rows, width, order, bounds[level + 1], seeds[n_sets - 1 : 2 * n_sets - 1])
        else:
            n_levels = depth - level if n_sets >= MIN_SUBTREES else 1
            _split_side_by_side(rows, width, order, bounds[level], n_levels, seeds)
        level += n_levels
    index = np.empty(n_labels, dtype=np.int32)
    index[order] = np.repeat(np.arange(2**depth, dtype=np.int32), np.diff(bounds[-1]))
    return index


def _rows(features: sp.csr_array | sp.csr_matrix) -> Rows:
    return Rows(
        np.ascontiguousarray(features.indptr, dtype=np.int64),
        np.ascontiguousarray(features.indices, dtype=np.int32).view(np.uint32),
        np.ascontiguousarray(features.data, dtype=np.float32),
    )


def _plan(n_labels: int, depth: int, rng: np.random.Generator) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Say where the sets of each level lie, and draw the seeds of all nodes, level after level."""
    bounds = [np.array([0, n_labels], dtype=np.int64)]
    seeds = np.zeros((0, N_STARTS, 2), dtype=np.int64)
    for level in range(depth):
        seeds = np.concatenate([seeds, _draw_seeds(np.diff(bounds[level]), rng)])
        bounds.append(halved(bounds[level]))
    return bounds, seeds


def _draw_seeds(sizes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw pairs of different positions in each set, (sets, starts, 2); where there is only one, both are 0."""
    draws, sizes = rng.random((2, len(sizes), N_STARTS)), sizes[:, None]
    first = (draws[0] * sizes).astype(np.int64)
    step = 1 + (draws[1] * (sizes - 1)).astype(np.int64)
    return np.stack([first, (first + step) % np.maximum(sizes, 1)], axis=-1)


def _split_one_by_one(
    rows: Rows, width: int, order: NDArray[np.int32], halves: NDArray[np.int64], seeds: NDArray[np.int64]
) -> None:
    """Order the members of every set by half, in place; all threads share each set."""
    for i in range(len(halves) // 2):
        start, middle, stop = halves[2 * i : 2 * i + 3]
        members = order[start:stop].copy()
        if len(members) > 1:
            left = _left_half(rows, width, members, middle - start, seeds[i])
            order[start:middle], order[middle:stop] = members[left], members[~left]


def _left_half(
    rows: Rows, width: int, members: NDArray[np.int32], n_left: int, seeds: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Mark the left half of one large set, which is first split as a sample of it is."""
    sample = members[:: LIMITS.sample_step]
    n_left_sample = (len(sample) + 1) // 2
    starts = [kernels.seed_weights(rows, members[pair], width) for pair in seeds]
    trials = [_refine(rows, sample, n_left_sample, weights, LIMITS.trial_iterations) for weights in starts]
    weights = starts[int(np.argmax([similarity for _, similarity in trials]))]
    _refine(rows, sample, n_left_sample, weights, LIMITS.max_iterations)
    return _refine(rows, members, n_left, weights, LIMITS.max_iterations)[0]


def _refine(
    rows: Rows, members: NDArray[np.int32], n_left: int, weights: NDArray[np.float32], max_iterations: int
) -> tuple[NDArray[np.bool_], float]:
    """Iterate on the members; give the left half and the mean similarity, leave the last weights."""
    sums = np.zeros((N_CHUNKS, len(weights)))
    left = np.ones(len(members), dtype=np.bool_)
    kernels.move_chunks(rows, members, np.zeros_like(left), left, sums)
    total, similarity = sums.sum(axis=0), -np.inf
    for _ in range(max_iterations):
        previous, before = similarity, left
        left = kernels.mark_greatest(kernels.project_all(rows, members, weights), n_left)
        kernels.move_chunks(rows, members, before, left, sums)
        similarity = sum(kernels.set_weights(sums.sum(axis=0), total, 0.0, 0.0, weights)) / len(members)
        if similarity - previous < LIMITS.min_gain:
            break
    return left, similarity


def _split_side_by_side(
    rows: Rows,
    width: int,
    order: NDArray[np.int32],
    bounds: NDArray[np.int64],
    n_levels: int,
    seeds: NDArray[np.int64],
) -> None:
    """Order the members of every set by their sets some levels below, in place; each thread takes whole subtrees."""
    n_workers = min(get_num_threads(), len(bounds) - 1)
    counts, slots = np.zeros((n_workers, width), np.int32), np.empty((n_workers, width), np.uint32)
    split_subtrees(rows, order, bounds, n_levels, seeds, LIMITS, counts, slots)
