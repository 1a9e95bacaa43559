"""Label features: the normalized sum of the TF-IDF vectors of a label's documents (PIFA)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import get_num_threads, njit

from haxmlnet.data.arrays import csr_view
from haxmlnet.text.blocks import iterate_ranges, map_ahead
from haxmlnet.tree.two_means_kernels import mark_greatest

BLOCK_ENTRIES = 5_000_000


def label_features(
    X: sp.csr_array | sp.csr_matrix,
    Y: sp.csr_array | sp.csr_matrix,
    max_features: int | None = None,
    block_entries: int = BLOCK_ENTRIES,
) -> sp.csr_array:
    """Sum the TF-IDF vectors X (documents x words) of each label's documents, scaled to unit length.

    Y is 0/1, (documents x labels). With `max_features`, a label keeps only its strongest words. A label without
    documents gets an empty row. Beyond the result (labels x words), memory holds about `block_entries` entries
    for each thread.
    """
    no_labels = csr_view(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(1, np.int32), X.shape[1])
    stacked: Any = sp.vstack([no_labels, *label_feature_blocks(X, Y, max_features, block_entries)], format="csr")
    return stacked


def label_feature_blocks(
    X: sp.csr_array | sp.csr_matrix,
    Y: sp.csr_array | sp.csr_matrix,
    max_features: int | None = None,
    block_entries: int = BLOCK_ENTRIES,
) -> Iterator[sp.csr_array]:
    """Yield the rows of `label_features` in blocks, to be written to a file."""
    X = sp.csr_array(X).astype(np.float32, copy=False)
    members = sp.csr_array(sp.csr_array(Y).T)  # (labels, documents)
    width = X.shape[1]
    n_most = width if max_features is None else min(max_features, width)
    indptr, member_indptr = X.indptr.astype(np.int64), members.indptr.astype(np.int64)

    def sum_block(labels: tuple[int, int]) -> sp.csr_array:
        own_indptr = member_indptr[labels[0] : labels[1] + 1]
        values, columns, bounds = _sum_member_rows(
            indptr, X.indices, X.data, own_indptr, members.indices, n_most, width
        )
        return csr_view(values, columns, bounds, width)

    # The cost of a label is the size of all its documents.
    sizes = np.diff(indptr)[members.indices]
    costs = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])[members.indptr]
    return map_ahead(sum_block, iterate_ranges(costs, block_entries), get_num_threads())


@njit(cache=True, nogil=True)
def _sum_member_rows(
    indptr: Any, columns: Any, values: Any, set_indptr: Any, members: Any, n_most: Any, width: Any
) -> Any:
    """Sum the rows that are members of each set, keep the `n_most` greatest sums, and scale them to unit length.

    Returns values, columns and row ends of a CSR matrix.
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
        # The sum, and the columns it touches in ascending order
        n_touched = 0
        for row in members[set_indptr[i] : set_indptr[i + 1]]:
            for entry in range(indptr[row], indptr[row + 1]):
                column = columns[entry]
                sums[column] += values[entry]
                if not seen[column]:
                    seen[column] = True
                    touched[n_touched] = column
                    n_touched += 1
        touched[:n_touched] = np.sort(touched[:n_touched])
        start = sum_indptr[i]
        n_kept = _take_greatest(sums, seen, touched[:n_touched], n_most, sum_columns[start:], sum_values[start:])
        sum_indptr[i + 1] = start + n_kept
    n_kept = sum_indptr[-1]
    return sum_values[:n_kept], sum_columns[:n_kept], sum_indptr


@njit(cache=True, nogil=True)
def _take_greatest(sums: Any, seen: Any, touched: Any, n_most: Any, columns: Any, values: Any) -> Any:
    """Move out the greatest sums of the columns touched, scaled to unit length; return how many, and clear the rest."""
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
