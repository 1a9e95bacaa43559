"""The balanced partition: the labels are split in halves by balanced 2-means, again and again, top down.

One split of a set of labels, as in the paper:

1. Two random labels are the first centres.
2. Each label gets the difference of its cosine similarities to the two centres.
3. Sorted by that difference, the first half goes left and the rest goes right: sizes differ by at most one.
4. The normalized sum of the features of each half is its new centre.
5. Steps 2 to 4 are repeated until the mean similarity of labels to their centres gains less than a threshold.

Two additions find better splits at the same cost: the best of four random pairs of labels is taken, and a large
set is first split by a sample of its labels. The paper's threshold is 1e-4; near the root, where even a good split
gains little, that would stop before anything is found, so it is 1e-6 here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import get_num_threads
from numpy.typing import NDArray

from haxmlnet.tree.subtree_split_kernels import halve_sets, split_subtrees
from haxmlnet.tree.two_means_kernels import (
    Rows,
    mark_greatest,
    move_members,
    project_all,
    start_direction,
    update_direction,
)

WIDE_SET_SIZE = 32768
# Not the number of threads: the order of summation, and so the tree, must not depend on the machine.
N_CHUNKS = 8
# With fewer sets than this, one level is split at a time, so that soon there is work for all threads.
MIN_SUBTREES = 32
N_STARTS = 4


class Limits(NamedTuple):
    """How long 2-means iterates, and on how many of the labels."""

    max_iterations: int = 50
    min_gain: float = 1e-6
    trial_iterations: int = 5
    """Iterations of each start before the best one is chosen."""
    sampled_size: int = 400
    """Sets of at least so many labels are first split by a sample."""
    sample_step: int = 8


LIMITS = Limits()


def balanced_partition(
    features: sp.csr_array | sp.csr_matrix,
    depth: int,
    rng: np.random.Generator,
    wide_set_size: int = WIDE_SET_SIZE,
) -> NDArray[np.int32]:
    """Assign each label the index (0 to 2^depth - 1) of its set after `depth` rounds of balanced bisection.

    Rows of `features` have unit length, or are empty. The sizes of the sets differ by at most one, and the
    set of a label at a smaller depth d is `index >> (depth - d)`. Sets of more than `wide_set_size` labels
    are split one by one, each by all threads; smaller ones side by side, each by one thread.
    """
    rows, width = Rows.from_csr(features), features.shape[1]
    n_labels = len(rows.indptr) - 1

    # Where the sets of each depth lie in `order`, and the random labels that all splits start from
    bounds = [np.array([0, n_labels], dtype=np.int64)]
    seeds = np.zeros((0, N_STARTS, 2), dtype=np.int64)
    for level in range(depth):
        seeds = np.concatenate([seeds, _draw_seeds(np.diff(bounds[level]), rng)])
        bounds.append(halve_sets(bounds[level]))

    order = np.arange(n_labels, dtype=np.int32)
    level = 0
    while level < depth:
        n_sets, n_levels = 2**level, 1
        if np.diff(bounds[level]).max() > wide_set_size:
            # All threads work on one set.
            _split_wide_sets(rows, width, order, bounds[level + 1], seeds[n_sets - 1 : 2 * n_sets - 1])
        else:
            # Each thread works on a subtree, with the same steps compiled.
            n_levels = depth - level if n_sets >= MIN_SUBTREES else 1
            n_workers = min(get_num_threads(), n_sets)
            counts, slots = np.zeros((n_workers, width), np.int32), np.empty((n_workers, width), np.uint32)
            split_subtrees(rows, order, bounds[level], n_levels, seeds, LIMITS, counts, slots)
        level += n_levels

    index = np.empty(n_labels, dtype=np.int32)
    index[order] = np.repeat(np.arange(2**depth, dtype=np.int32), np.diff(bounds[-1]))
    return index


def _draw_seeds(sizes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw pairs of different positions in each set, (sets, starts, 2); in a set of one label both are 0."""
    draws, sizes = rng.random((2, len(sizes), N_STARTS)), sizes[:, None]
    first = (draws[0] * sizes).astype(np.int64)
    step = 1 + (draws[1] * (sizes - 1)).astype(np.int64)
    return np.stack([first, (first + step) % np.maximum(sizes, 1)], axis=-1)


def _split_wide_sets(
    rows: Rows, width: int, order: NDArray[np.int32], halves: NDArray[np.int64], seeds: NDArray[np.int64]
) -> None:
    """Sort the members of each set by half, in place; all threads work on one set."""
    for i in range(len(halves) // 2):
        start, middle, stop = halves[2 * i : 2 * i + 3]
        members = order[start:stop].copy()
        if len(members) < 2:
            continue

        # The best of the starts, on a sample
        sample = members[:: LIMITS.sample_step]
        n_left = (len(sample) + 1) // 2
        directions = [start_direction(rows, members[pair], width) for pair in seeds[i]]
        trials = [_run_two_means(rows, sample, n_left, direction, LIMITS.trial_iterations) for direction in directions]
        direction = directions[int(np.argmax([similarity for _, similarity in trials]))]

        # Then the sample to the end, and from its centres all members
        _run_two_means(rows, sample, n_left, direction, LIMITS.max_iterations)
        left, _ = _run_two_means(rows, members, middle - start, direction, LIMITS.max_iterations)
        order[start:middle], order[middle:stop] = members[left], members[~left]


def _run_two_means(
    rows: Rows, members: NDArray[np.int32], n_left: int, direction: NDArray[np.float32], max_iterations: int
) -> tuple[NDArray[np.bool_], float]:
    """Run steps 2 to 5; return the left half and the mean similarity, and leave the difference of the last centres."""
    left_sums = np.zeros((N_CHUNKS, len(direction)))
    left = np.ones(len(members), dtype=np.bool_)
    move_members(rows, members, np.zeros_like(left), left, left_sums)
    total, similarity = left_sums.sum(axis=0), -np.inf
    for _ in range(max_iterations):
        previous, before = similarity, left
        left = mark_greatest(project_all(rows, members, direction), n_left)  # steps 2 and 3
        move_members(rows, members, before, left, left_sums)
        similarity = sum(update_direction(left_sums.sum(axis=0), total, 0.0, 0.0, direction)) / len(members)  # step 4
        if similarity - previous < LIMITS.min_gain:  # step 5
            break
    return left, similarity
