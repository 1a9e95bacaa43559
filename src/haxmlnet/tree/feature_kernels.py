"""The loops of the label features, compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from haxmlnet.tree.kernels import mark_greatest


@njit(cache=True, nogil=True)
def _sum_rows(indptr: Any, columns: Any, values: Any, rows: Any, sums: Any, seen: Any, touched: Any) -> Any:
    """Add some rows to `sums`, and list the columns that they touch, in ascending order; give their number."""
    n_touched = 0
    for row in rows:
        for entry in range(indptr[row], indptr[row + 1]):
            column = columns[entry]
            sums[column] += values[entry]
            if not seen[column]:
                seen[column] = True
                touched[n_touched] = column
                n_touched += 1
    touched[:n_touched] = np.sort(touched[:n_touched])
    return n_touched


@njit(cache=True, nogil=True)
def _take_strongest(sums: Any, seen: Any, touched: Any, n_most: Any, columns: Any, values: Any) -> Any:
    """Move the greatest sums of the columns touched, scaled to length one; give their number, and clear the rest."""
    found = np.empty(len(touched), dtype=np.float32)
    for i in range(len(touched)):
        found[i] = sums[touched[i]]
        sums[touched[i]] = 0
        seen[touched[i]] = False
    kept = found != 0
    if len(found) > n_most:
        kept &= mark_greatest(found, n_most)
    square = 0.0
    n_kept = 0
    for i in range(len(touched)):
        if kept[i]:
            columns[n_kept], values[n_kept] = touched[i], found[i]
            square += found[i] * found[i]
            n_kept += 1
    values[:n_kept] *= np.float32(1 / np.sqrt(square)) if n_kept else np.float32(0)
    return n_kept


@njit(cache=True, nogil=True)
def sum_member_rows(
    indptr: Any, columns: Any, values: Any, set_indptr: Any, members: Any, n_most: Any, width: Any
) -> Any:
    """Sum the rows that are members of each set, keep the greatest `n_most` numbers, scale them to length one.

    Gives values, columns and row ends of a CSR matrix.
    """
    n_entries = 0
    for i in range(len(set_indptr) - 1):
        size = 0
        for member in members[set_indptr[i] : set_indptr[i + 1]]:
            size += indptr[member + 1] - indptr[member]
        n_entries += min(size, n_most)
    sum_columns, sum_values = np.empty(n_entries, dtype=np.int32), np.empty(n_entries, dtype=np.float32)
    sum_indptr = np.zeros(len(set_indptr), dtype=np.int64)
    sums, seen = np.zeros(width, dtype=np.float32), np.zeros(width, dtype=np.bool_)
    touched = np.empty(width, dtype=np.int32)
    for i in range(len(set_indptr) - 1):
        rows = members[set_indptr[i] : set_indptr[i + 1]]
        n_touched = _sum_rows(indptr, columns, values, rows, sums, seen, touched)
        start = sum_indptr[i]
        n_kept = _take_strongest(sums, seen, touched[:n_touched], n_most, sum_columns[start:], sum_values[start:])
        sum_indptr[i + 1] = start + n_kept
    n_kept = sum_indptr[-1]
    return sum_values[:n_kept], sum_columns[:n_kept], sum_indptr
