"""The loops of balanced 2-means, compiled by numba.

A half's centre is the normalised sum of its labels' features, and a label goes by the difference of its
similarities to both centres. That is one product with the difference of the centres, here called the weights.
The similarities of all labels to their own centres add up to the lengths of the two sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange

# Below this length a sum is what rounding left of labels without features, and has no direction.
MIN_NORM = 1e-6


@njit(cache=True, fastmath={"reassoc", "contract"})
def _project(indptr: Any, columns: Any, values: Any, row: Any, weights: Any) -> Any:
    product = np.float32(0)
    for entry in range(indptr[row], indptr[row + 1]):
        product += values[entry] * weights[columns[entry]]
    return product


@njit(cache=True)
def _add_row(indptr: Any, columns: Any, values: Any, row: Any, sign: Any, sums: Any) -> None:
    for entry in range(indptr[row], indptr[row + 1]):
        sums[columns[entry]] += sign * values[entry]


@njit(cache=True)
def _move(indptr: Any, columns: Any, values: Any, row: Any, before: Any, after: Any, sums: Any) -> None:
    """Keep the sum of the left half true when a row joins or leaves it."""
    if after and not before:
        _add_row(indptr, columns, values, row, np.float32(1), sums)
    elif before and not after:
        _add_row(indptr, columns, values, row, np.float32(-1), sums)


@njit(cache=True)
def set_seed_weights(indptr: Any, columns: Any, values: Any, seeds: Any, weights: Any) -> None:
    """Set the weights (all zero) to the difference of two rows, the first centres."""
    _add_row(indptr, columns, values, seeds[0], np.float32(1), weights)
    _add_row(indptr, columns, values, seeds[1], np.float32(-1), weights)


@njit(cache=True)
def set_weights(left_sum: Any, total: Any, weights: Any) -> Any:
    """Set the weights to the difference of the centres, and return the sum of the similarities to them."""
    left_square, right_square = 0.0, 0.0
    for i in range(len(total)):
        left_square += left_sum[i] ** 2
        right_square += (total[i] - left_sum[i]) ** 2
    left_norm, right_norm = np.sqrt(left_square), np.sqrt(right_square)
    left_scale = 1 / left_norm if left_norm > MIN_NORM else 0.0
    right_scale = 1 / right_norm if right_norm > MIN_NORM else 0.0
    for i in range(len(total)):
        weights[i] = left_scale * left_sum[i] - right_scale * (total[i] - left_sum[i])
    return left_norm + right_norm


@njit(cache=True)
def mark_greatest(numbers: Any, n_marked: Any) -> Any:
    """Mark the n_marked greatest numbers; of equal ones, the first."""
    n_others = len(numbers) - n_marked
    threshold = np.partition(numbers, n_others)[n_others]
    marked = numbers > threshold
    n_missing = n_marked - marked.sum()
    for i in range(len(numbers)):
        if n_missing == 0:
            break
        if numbers[i] == threshold:
            marked[i] = True
            n_missing -= 1
    return marked


@njit(cache=True, parallel=True)
def project_all(indptr: Any, columns: Any, values: Any, members: Any, weights: Any) -> Any:
    """Multiply the rows of all members by the weights; the threads share the rows."""
    products = np.empty(len(members), dtype=np.float32)
    for i in prange(len(members)):
        products[i] = _project(indptr, columns, values, members[i], weights)
    return products


@njit(cache=True, parallel=True)
def move_chunks(indptr: Any, columns: Any, values: Any, members: Any, before: Any, after: Any, sums: Any) -> None:
    """Keep the sum of the left half true, in one part for each of the chunks that the threads share."""
    n_chunks = len(sums)
    for chunk in prange(n_chunks):
        start, stop = len(members) * chunk // n_chunks, len(members) * (chunk + 1) // n_chunks
        for i in range(start, stop):
            _move(indptr, columns, values, members[i], before[i], after[i], sums[chunk])


@njit(cache=True)
def _copy_set(indptr: Any, columns: Any, values: Any, members: Any, slots: Any) -> Any:
    """Copy the rows of a set with its columns numbered anew, so that all work on it fits into the cache.

    `slots` has the full width and is -1 throughout, before and after.
    """
    set_indptr = np.zeros(len(members) + 1, dtype=np.int64)
    for i in range(len(members)):
        set_indptr[i + 1] = set_indptr[i] + indptr[members[i] + 1] - indptr[members[i]]
    set_columns = np.empty(set_indptr[-1], dtype=np.uint32)
    set_values = np.empty(set_indptr[-1], dtype=np.float32)
    used = np.empty(min(set_indptr[-1], len(slots)), dtype=np.uint32)
    width, position = 0, 0
    for member in members:
        for entry in range(indptr[member], indptr[member + 1]):
            column = columns[entry]
            if slots[column] < 0:
                slots[column] = width
                used[width] = column
                width += 1
            set_columns[position] = slots[column]
            set_values[position] = values[entry]
            position += 1
    for i in range(width):
        slots[used[i]] = -1
    return set_indptr, set_columns, set_values, width


@njit(cache=True)
def _split_set(
    indptr: Any,
    columns: Any,
    values: Any,
    width: Any,
    n_left: Any,
    seeds: Any,
    max_iterations: Any,
    min_gain: Any,
) -> Any:
    """Mark the left half of the rows of one copied set."""
    size = len(indptr) - 1
    total, weights = np.zeros(width), np.zeros(width, dtype=np.float32)
    left, differences = np.ones(size, dtype=np.bool_), np.empty(size, dtype=np.float32)
    for row in range(size):
        _add_row(indptr, columns, values, row, np.float32(1), total)
    left_sum = total.copy()
    set_seed_weights(indptr, columns, values, seeds, weights)
    similarity = -np.inf
    for _ in range(max_iterations):
        previous, before = similarity, left
        for row in range(size):
            differences[row] = _project(indptr, columns, values, row, weights)
        left = mark_greatest(differences, n_left)
        for row in range(size):
            _move(indptr, columns, values, row, before[row], left[row], left_sum)
        similarity = set_weights(left_sum, total, weights) / size
        if similarity - previous < min_gain:
            break
    return left


@njit(cache=True, parallel=True)
def split_sets(
    indptr: Any,
    columns: Any,
    values: Any,
    order: Any,
    bounds: Any,
    seeds: Any,
    slots: Any,
    max_iterations: Any,
    min_gain: Any,
) -> None:
    """Order the members of every set by half, in place; worker w takes the sets w, w + n_workers, ...

    Set i lies between bounds 2i and 2i + 2, and its second half starts at bound 2i + 1.
    """
    n_workers = len(slots)
    for worker in prange(n_workers):
        for i in range(worker, len(seeds), n_workers):
            start, middle, stop = bounds[2 * i], bounds[2 * i + 1], bounds[2 * i + 2]
            members = order[start:stop]
            if len(members) > 1:
                rows, places, entries, width = _copy_set(indptr, columns, values, members, slots[worker])
                left = _split_set(rows, places, entries, width, middle - start, seeds[i], max_iterations, min_gain)
                members[:] = np.concatenate((members[left], members[~left]))
