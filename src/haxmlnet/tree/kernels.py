"""The loops of balanced 2-means that go over the rows of a matrix, compiled by numba.

A half's centre is the normalised sum of its labels' features, and a label goes by the difference of its
similarities to both centres. That is one product with the difference of the centres, here called the weights.
The similarities of all labels to their own centres add up to the lengths of the two sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

# Below this length a sum is what rounding left of labels without features, and has no direction.
MIN_NORM = 1e-6


class Rows(NamedTuple):
    """The arrays of a CSR matrix in the only types that the kernels are compiled for."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.uint32]
    """Unsigned, because numba tests every signed index for counting from the end."""
    values: NDArray[np.float32]


@njit(cache=True, nogil=True)
def project(rows: Any, row: Any, weights: Any) -> Any:
    """Multiply a row by the weights; four sums at a time are twice as fast as gathering into vectors."""
    columns = rows.columns[rows.indptr[row] : rows.indptr[row + 1]]
    values = rows.values[rows.indptr[row] : rows.indptr[row + 1]]
    a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    n_in_fours = len(columns) // 4 * 4
    for i in range(0, n_in_fours, 4):
        a += values[i] * weights[columns[i]]
        b += values[i + 1] * weights[columns[i + 1]]
        c += values[i + 2] * weights[columns[i + 2]]
        d += values[i + 3] * weights[columns[i + 3]]
    for i in range(n_in_fours, len(columns)):
        a += values[i] * weights[columns[i]]
    return (a + b) + (c + d)


@njit(cache=True, nogil=True)
def add_row(rows: Any, row: Any, sign: Any, sums: Any) -> None:
    """Add a row to the sums, or take it away."""
    columns = rows.columns[rows.indptr[row] : rows.indptr[row + 1]]
    values = rows.values[rows.indptr[row] : rows.indptr[row + 1]]
    for i in range(len(columns)):
        sums[columns[i]] += sign * values[i]


@njit(cache=True, nogil=True)
def move_row(rows: Any, row: Any, before: Any, after: Any, sums: Any) -> None:
    """Keep the sum of the left half true when a row joins or leaves it."""
    if after and not before:
        add_row(rows, row, np.float32(1), sums)
    elif before and not after:
        add_row(rows, row, np.float32(-1), sums)


@njit(cache=True, nogil=True)
def seed_weights(rows: Any, seeds: Any, width: Any) -> Any:
    """Give the difference of two rows, the first centres, as weights."""
    weights = np.zeros(width, dtype=np.float32)
    add_row(rows, seeds[0], np.float32(1), weights)
    add_row(rows, seeds[1], np.float32(-1), weights)
    return weights


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def set_weights(left_sum: Any, total: Any, left_square: Any, right_square: Any, weights: Any) -> Any:
    """Set the weights to the difference of the centres; give the lengths of the two sums.

    The squares are those of features that are not among the sums.
    """
    for i in range(len(total)):
        left, right = left_sum[i], total[i] - left_sum[i]
        left_square += left * left
        right_square += right * right
    left_norm, right_norm = np.sqrt(left_square), np.sqrt(right_square)
    left_scale, right_scale = inverse_norm(left_norm), inverse_norm(right_norm)
    for i in range(len(total)):
        weights[i] = left_scale * left_sum[i] - right_scale * (total[i] - left_sum[i])
    return left_norm, right_norm


@njit(cache=True, nogil=True)
def inverse_norm(norm: Any) -> Any:
    """Give what a sum is scaled by to be a centre."""
    return 1 / norm if norm > MIN_NORM else 0.0


@njit(cache=True, nogil=True)
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
def project_all(rows: Any, members: Any, weights: Any) -> Any:
    """Multiply the rows of all members by the weights; the threads share the rows."""
    products = np.empty(len(members), dtype=np.float32)
    for i in prange(len(members)):
        products[i] = project(rows, members[i], weights)
    return products


@njit(cache=True, parallel=True)
def move_chunks(rows: Any, members: Any, before: Any, after: Any, sums: Any) -> None:
    """Keep the sum of the left half true, in one part for each of the chunks that the threads share."""
    n_chunks = len(sums)
    for chunk in prange(n_chunks):
        start, stop = len(members) * chunk // n_chunks, len(members) * (chunk + 1) // n_chunks
        for i in range(start, stop):
            move_row(rows, members[i], before[i], after[i], sums[chunk])
