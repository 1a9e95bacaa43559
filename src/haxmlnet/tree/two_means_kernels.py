"""The loops of balanced 2-means over the rows of a sparse matrix, compiled by numba.

The centre of a half is the normalized sum of its labels' features. A label is assigned by the difference of its
cosine similarities to the two centres: one dot product with the difference of the centres, here the direction.
The similarities of all labels to their own centres add up to the norms of the two sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import njit, prange
from numpy.typing import NDArray

# A sum shorter than this is rounding error, left by labels without features: it has no direction.
MIN_NORM = 1e-6


class Rows(NamedTuple):
    """The arrays of a CSR matrix, in the only dtypes the kernels are compiled for."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.uint32]
    """Unsigned, because numba tests every signed index for counting from the end."""
    values: NDArray[np.float32]

    @classmethod
    def from_csr(cls, matrix: sp.csr_array | sp.csr_matrix) -> Rows:
        """Take the arrays of a matrix, copied only where their dtypes differ."""
        return cls(
            np.ascontiguousarray(matrix.indptr, dtype=np.int64),
            np.ascontiguousarray(matrix.indices, dtype=np.int32).view(np.uint32),
            np.ascontiguousarray(matrix.data, dtype=np.float32),
        )


@njit(cache=True, nogil=True)
def project(rows: Any, row: Any, direction: Any) -> Any:
    """Dot product of a row and the direction; four partial sums are twice as fast as a gather into vectors."""
    columns = rows.columns[rows.indptr[row] : rows.indptr[row + 1]]
    values = rows.values[rows.indptr[row] : rows.indptr[row + 1]]
    a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    n_in_fours = len(columns) // 4 * 4
    for i in range(0, n_in_fours, 4):
        a += values[i] * direction[columns[i]]
        b += values[i + 1] * direction[columns[i + 1]]
        c += values[i + 2] * direction[columns[i + 2]]
        d += values[i + 3] * direction[columns[i + 3]]
    for i in range(n_in_fours, len(columns)):
        a += values[i] * direction[columns[i]]
    return (a + b) + (c + d)


@njit(cache=True, nogil=True)
def add_row(rows: Any, row: Any, sign: Any, sums: Any) -> None:
    """Add a row to the sums, or subtract it."""
    columns = rows.columns[rows.indptr[row] : rows.indptr[row + 1]]
    values = rows.values[rows.indptr[row] : rows.indptr[row + 1]]
    for i in range(len(columns)):
        sums[columns[i]] += sign * values[i]


@njit(cache=True, nogil=True)
def move_row(rows: Any, row: Any, before: Any, after: Any, left_sum: Any) -> None:
    """Update the sum of the left half when a row joins or leaves it."""
    if after and not before:
        add_row(rows, row, np.float32(1), left_sum)
    elif before and not after:
        add_row(rows, row, np.float32(-1), left_sum)


@njit(cache=True, nogil=True)
def start_direction(rows: Any, seeds: Any, width: Any) -> Any:
    """Compute the difference of two rows, the first centres."""
    direction = np.zeros(width, dtype=np.float32)
    add_row(rows, seeds[0], np.float32(1), direction)
    add_row(rows, seeds[1], np.float32(-1), direction)
    return direction


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def update_direction(left_sum: Any, total: Any, left_square: Any, right_square: Any, direction: Any) -> Any:
    """Set the direction to the difference of the centres; return the norms of the two sums.

    The squares are those of features that are not among the sums.
    """
    for i in range(len(total)):
        left, right = left_sum[i], total[i] - left_sum[i]
        left_square += left * left
        right_square += right * right
    left_norm, right_norm = np.sqrt(left_square), np.sqrt(right_square)
    left_scale, right_scale = inverse_norm(left_norm), inverse_norm(right_norm)
    for i in range(len(total)):
        direction[i] = left_scale * left_sum[i] - right_scale * (total[i] - left_sum[i])
    return left_norm, right_norm


@njit(cache=True, nogil=True)
def inverse_norm(norm: Any) -> Any:
    """Compute what a sum is multiplied by to become a centre."""
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
def project_all(rows: Any, members: Any, direction: Any) -> Any:
    """Dot products of all members and the direction; the threads share the members."""
    products = np.empty(len(members), dtype=np.float32)
    for i in prange(len(members)):
        products[i] = project(rows, members[i], direction)
    return products


@njit(cache=True, parallel=True)
def move_members(rows: Any, members: Any, before: Any, after: Any, left_sums: Any) -> None:
    """Update the sum of the left half, one partial sum for each of the chunks that the threads share."""
    n_chunks = len(left_sums)
    for chunk in prange(n_chunks):
        start, stop = len(members) * chunk // n_chunks, len(members) * (chunk + 1) // n_chunks
        for i in range(start, stop):
            move_row(rows, members[i], before[i], after[i], left_sums[chunk])
