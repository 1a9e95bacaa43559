"""`Block`: some documents as the kernels take them, and the threads that work on many blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.ranking import Ranking

# The larger a block, the more documents share a node's weights while they are in the cache.
MAX_DOCUMENTS = 4096
# Numbers in the largest array of a block: 32 MB.
MAX_BLOCK_SIZE = 2**23

T = TypeVar("T")


class Block(NamedTuple):
    """B documents in CSR form: document i has the features `columns[starts[i] : starts[i + 1]]`."""

    starts: NDArray[np.int64]  # (B + 1,)
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    table: NDArray[np.int32]  # (features,)
    """A lookup table for the kernels: all zeros before and after each call."""


def block_of(features: sp.csr_array, rows: range) -> Block:
    """Take some rows of a matrix of documents; the columns of each row must ascend."""
    starts = features.indptr[rows.start : rows.stop + 1].astype(np.int64)  # one dtype, so that kernels compile once
    return Block(starts, features.indices, features.data, np.zeros(features.shape[1], np.int32))


def map_blocks(work: Callable[[range], T], n_documents: int, n_threads: int, document_size: int) -> Iterator[T]:
    """Do some work on blocks of documents in threads, and yield the results in order; no documents are one block.

    `document_size` is how many numbers the work holds for each document.
    """
    most = max(min(MAX_DOCUMENTS, MAX_BLOCK_SIZE // document_size), 1)
    n_rounds = max(-(-n_documents // (most * n_threads)), 1)
    starts = range(0, max(n_documents, 1), max(-(-n_documents // (n_rounds * n_threads)), 1))
    blocks = [range(start, min(start + starts.step, n_documents)) for start in starts]
    if n_threads == 1 or len(blocks) < 2:
        yield from map(work, blocks)
        return
    with ThreadPoolExecutor(n_threads) as threads:
        yield from threads.map(work, blocks)


def join_rankings(rankings: list[Ranking]) -> Ranking:
    """Put rankings of the same width one after the other."""
    if len(rankings) == 1:
        return rankings[0]
    ids = np.concatenate([ranking.ids for ranking in rankings])
    return Ranking(ids, np.concatenate([ranking.scores for ranking in rankings]), None, rankings[0].n_ids)
