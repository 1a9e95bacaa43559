"""What a label is about: the sum of the TF-IDF vectors of its documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import get_num_threads
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.text.collector import map_ahead
from haxmlnet.tree.feature_kernels import sum_member_rows

BLOCK_ENTRIES = 5_000_000


def label_features(
    X: sp.csr_array | sp.csr_matrix,
    Y: sp.csr_array | sp.csr_matrix,
    max_features: int | None = None,
    block_entries: int = BLOCK_ENTRIES,
) -> sp.csr_array:
    """Sum the TF-IDF vectors X (documents x words) of each label's documents, scaled to length one.

    Y is 0/1, (documents x labels). With `max_features`, a label keeps only so many of its strongest words. A
    label without documents gets an empty row. Beyond the result (labels x words), memory holds about
    `block_entries` entries for each thread.
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
    """Give the rows of `label_features` in blocks, for whoever writes them to a file."""
    X = sp.csr_array(X).astype(np.float32, copy=False)
    members = sp.csr_array(sp.csr_array(Y).T)  # (labels, documents)
    width = X.shape[1]
    n_most = width if max_features is None else min(max_features, width)
    indptr, member_indptr = X.indptr.astype(np.int64), members.indptr.astype(np.int64)

    def block(labels: tuple[int, int]) -> sp.csr_array:
        own_members = member_indptr[labels[0] : labels[1] + 1]
        values, columns, bounds = sum_member_rows(
            indptr, X.indices, X.data, own_members, members.indices, n_most, width
        )
        return csr_view(values, columns, bounds, width)

    return map_ahead(block, _label_blocks(members, np.diff(indptr), block_entries), get_num_threads())


def _label_blocks(members: sp.csr_array, document_sizes: NDArray[Any], block_entries: int) -> Iterator[tuple[int, int]]:
    """Cut the labels into ranges whose documents together have about `block_entries` entries."""
    entries = np.concatenate([[0], np.cumsum(document_sizes[members.indices], dtype=np.int64)])
    ends = entries[members.indptr]
    start, n_labels = 0, members.shape[0]
    while start < n_labels:
        stop = int(np.searchsorted(ends, ends[start] + block_entries, side="right")) - 1
        stop = min(max(stop, start + 1), n_labels)
        yield start, stop
        start = stop
