"""Balanced 2-means of small sets, down to the groups, compiled by numba; each thread takes whole subtrees.

The steps are those of `balanced_split.py`. A set is copied with its columns renumbered, so that all work on it
fits into the cache. Words that only one label of the set has are left out of the copy: all they do is to pull the
label towards the half it is in, by their squares, whose sum is the label's own part.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

from haxmlnet.tree.two_means_kernels import (
    Rows,
    add_row,
    inverse_norm,
    mark_greatest,
    move_row,
    project,
    start_direction,
    update_direction,
)


@njit(cache=True, nogil=True)
def _copy_rows(rows: Any, own: Any, chosen: Any, copy: Any, own_copy: Any, first: Any, counts: Any, slots: Any) -> Any:
    """Copy rows without the words that only one of them has, from row `first` of the copy on; return their width.

    `counts` has an entry for every column, all 0 before and after; `slots` may hold anything.
    """
    for row in chosen:
        for column in rows.columns[rows.indptr[row] : rows.indptr[row + 1]]:
            counts[column] += 1
    width, position = 0, copy.indptr[first]
    for i in range(len(chosen)):
        own_part = own[chosen[i]]
        for entry in range(rows.indptr[chosen[i]], rows.indptr[chosen[i] + 1]):
            column, value = rows.columns[entry], rows.values[entry]
            if counts[column] == 1:
                own_part += value * value
                continue
            if counts[column] > 0:
                slots[column], counts[column] = width, -1
                width += 1
            copy.columns[position], copy.values[position] = slots[column], value
            position += 1
        own_copy[first + i] = own_part
        copy.indptr[first + i + 1] = position
    for row in chosen:
        for column in rows.columns[rows.indptr[row] : rows.indptr[row + 1]]:
            counts[column] = 0
    return width


@njit(cache=True, nogil=True)
def _run_two_means(
    rows: Any, own: Any, chosen: Any, n_left: Any, direction: Any, pulls: Any, max_iterations: Any, min_gain: Any
) -> Any:
    """Run 2-means on the chosen rows; return the left half and the mean similarity, and leave direction and pulls."""
    size, own_total = len(chosen), 0.0
    total = np.zeros(len(direction))
    for row in chosen:
        add_row(rows, row, np.float32(1), total)
        own_total += own[row]
    left_sum, left = total.copy(), np.ones(size, dtype=np.bool_)
    differences, similarity = np.empty(size, dtype=np.float32), -np.inf
    for _ in range(max_iterations):
        previous, before = similarity, left
        for i in range(size):
            differences[i] = project(rows, chosen[i], direction) + pulls[chosen[i]]
        left, own_left = mark_greatest(differences, n_left), 0.0
        for i in range(size):
            if left[i]:
                own_left += own[chosen[i]]
            move_row(rows, chosen[i], before[i], left[i], left_sum)
        left_norm, right_norm = update_direction(left_sum, total, own_left, own_total - own_left, direction)
        for i in range(size):
            pulls[chosen[i]] = own[chosen[i]] * (inverse_norm(left_norm) if left[i] else -inverse_norm(right_norm))
        similarity = (left_norm + right_norm) / size
        if similarity - previous < min_gain:
            break
    return left, similarity


@njit(cache=True, nogil=True)
def _find_best_start(rows: Any, own: Any, sample: Any, n_left: Any, width: Any, seeds: Any, limits: Any) -> Any:
    """Try each pair of seeds for a few iterations on the sample; return the direction and pulls of the best."""
    best = -np.inf
    best_direction, best_pulls = np.zeros(width, dtype=np.float32), np.zeros(len(own), dtype=np.float32)
    for pair in seeds:
        direction, pulls = start_direction(rows, pair, width), np.zeros(len(own), dtype=np.float32)
        pulls[pair[0]] += own[pair[0]]
        pulls[pair[1]] -= own[pair[1]]
        _, similarity = _run_two_means(
            rows, own, sample, n_left, direction, pulls, limits.trial_iterations, limits.min_gain
        )
        if similarity > best:
            best, best_direction, best_pulls = similarity, direction, pulls
    return best_direction, best_pulls


@njit(cache=True, nogil=True)
def _mark_left_half(rows: Any, own: Any, width: Any, n_left: Any, seeds: Any, limits: Any) -> Any:
    """Mark the left half of the rows of one set; a large set is first split by a sample."""
    size = len(own)
    everything = np.arange(size)
    if size < limits.sampled_size:
        direction, pulls = _find_best_start(rows, own, everything, n_left, width, seeds, limits)
    else:
        sample = everything[:: limits.sample_step]
        n_left_sample = (len(sample) + 1) // 2
        direction, pulls = _find_best_start(rows, own, sample, n_left_sample, width, seeds, limits)
        _run_two_means(rows, own, sample, n_left_sample, direction, pulls, limits.max_iterations, limits.min_gain)
        pulls[:] = 0
    left, _ = _run_two_means(rows, own, everything, n_left, direction, pulls, limits.max_iterations, limits.min_gain)
    return left


@njit(cache=True, nogil=True)
def _allocate_copy(n_rows: Any, n_entries: Any) -> Any:
    """Allocate a copy of rows and of their own parts."""
    columns, values = np.empty(n_entries, dtype=np.uint32), np.empty(n_entries, dtype=np.float32)
    return Rows(np.zeros(n_rows + 1, dtype=np.int64), columns, values), np.empty(n_rows, dtype=np.float32)


@njit(cache=True, nogil=True)
def halve_sets(bounds: Any) -> Any:
    """Insert the middle of each set between its bounds; sizes that differ by one give halves that do, too."""
    halves = np.empty(2 * len(bounds) - 1, dtype=np.int64)
    halves[::2] = bounds
    halves[1::2] = bounds[:-1] + (bounds[1:] - bounds[:-1] + 1) // 2
    return halves


@njit(cache=True, nogil=True)
def _split_subtree(
    rows: Any, own: Any, members: Any, node: Any, n_levels: Any, seeds: Any, limits: Any, counts: Any, slots: Any
) -> None:
    """Sort the members of one set by their sets `n_levels` further down, in place."""
    n_entries = 0
    for member in members:
        n_entries += rows.indptr[member + 1] - rows.indptr[member]
    current, next_copy = _allocate_copy(len(members), n_entries), _allocate_copy(len(members), n_entries)
    widths = np.array([_copy_rows(rows, own, members, current[0], current[1], 0, counts, slots)])
    bounds = np.array([0, len(members)])
    for level in range(n_levels):
        halves, half_widths = halve_sets(bounds), np.zeros(2 * len(widths), dtype=np.int64)
        for i in range(len(widths)):
            start, middle, stop = halves[2 * i], halves[2 * i + 1], halves[2 * i + 2]
            set_rows = Rows(current[0].indptr[start : stop + 1], current[0].columns, current[0].values)
            set_own, set_members = current[1][start:stop], members[start:stop]
            left = np.ones(stop - start, dtype=np.bool_)
            if stop - start > 1:
                # Nodes are numbered as in a heap: below node n are 2n + 1 and 2n + 2.
                pairs = seeds[((node + 1) << level) - 1 + i]
                left = _mark_left_half(set_rows, set_own, widths[i], middle - start, pairs, limits)
            chosen = np.concatenate((np.flatnonzero(left), np.flatnonzero(~left)))
            members[start:stop] = set_members[chosen]
            if level + 1 < n_levels:
                for half, first, last in ((0, start, middle), (1, middle, stop)):
                    half_widths[2 * i + half] = _copy_rows(
                        set_rows, set_own, chosen[first - start : last - start], next_copy[0], next_copy[1], first,
                        counts, slots,
                    )  # fmt: skip
        current, next_copy = next_copy, current
        bounds, widths = halves, half_widths


@njit(cache=True, parallel=True)
def split_subtrees(
    rows: Any, order: Any, bounds: Any, n_levels: Any, seeds: Any, limits: Any, counts: Any, slots: Any
) -> None:
    """Sort the members of every set of one level by their sets `n_levels` further down, in place.

    Worker w takes the sets w, w + n_workers, ...
    """
    n_workers, n_sets = len(slots), len(bounds) - 1
    own = np.zeros(len(rows.indptr) - 1, dtype=np.float32)
    for worker in prange(n_workers):
        for i in range(worker, n_sets, n_workers):
            members = order[bounds[i] : bounds[i + 1]]
            _split_subtree(rows, own, members, n_sets - 1 + i, n_levels, seeds, limits, counts[worker], slots[worker])
