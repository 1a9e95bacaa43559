"""What a label is about: the sum of the TF-IDF vectors of its documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.tree import kernels

BLOCK_ENTRIES = 20_000_000


def label_features(
    X: sp.csr_array | sp.csr_matrix,
    Y: sp.csr_array | sp.csr_matrix,
    max_features: int | None = None,
    block_entries: int = BLOCK_ENTRIES,
) -> sp.csr_array:
    """Sum the TF-IDF vectors X (documents x words) of each label's documents, scaled to length one.

    Y is 0/1, (documents x labels). With `max_features`, a label keeps only so many of its strongest words. A
    label without documents gets an empty row. Beyond the result (labels x words), memory holds about
    `block_entries` entries at a time.
    """
    X = sp.csr_array(X).astype(np.float32, copy=False)
    members = sp.csr_array(sp.csr_array(Y).T).astype(np.float32, copy=False)  # (labels, documents)
    blocks = []
    for start, stop in _label_blocks(members, np.diff(X.indptr), block_entries):
        block = members[start:stop] @ X
        block.eliminate_zeros()
        if max_features is not None:
            block = _strongest(block, max_features)
        block.sort_indices()
        blocks.append(_normalised(block))
    if not blocks:
        return sp.csr_array((members.shape[0], X.shape[1]), dtype=np.float32)
    return sp.vstack(blocks, format="csr")


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


def _strongest(block: sp.csr_array, max_features: int) -> sp.csr_array:
    kept = kernels.mark_greatest_in_rows(block.indptr.astype(np.int64), block.data, max_features)
    indptr = np.zeros_like(block.indptr)
    np.cumsum(np.minimum(np.diff(block.indptr), max_features), out=indptr[1:])
    return sp.csr_array((block.data[kept], block.indices[kept], indptr), shape=block.shape)


def _normalised(block: sp.csr_array) -> sp.csr_array:
    norms = np.sqrt(np.asarray(block.power(2).sum(axis=1)).ravel())
    block.data /= np.repeat(norms, np.diff(block.indptr)).astype(np.float32)
    return block
