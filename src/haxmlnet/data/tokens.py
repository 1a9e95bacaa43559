"""`TokenArray`: the word ids of many documents in two flat arrays, and the batches made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray

PAD_ID = 0
UNKNOWN_ID = 1


@dataclass(frozen=True)
class TokenArray:
    """Word ids of documents, one after the other; document i is `ids[starts[i]:starts[i + 1]]`."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]  # (n + 1,)

    @classmethod
    def from_lists(cls, documents: list[NDArray[np.int32]]) -> TokenArray:
        """Lay documents one after the other."""
        starts = np.zeros(len(documents) + 1, np.int64)
        np.cumsum([len(document) for document in documents], out=starts[1:])
        ids = np.concatenate(documents) if documents else np.zeros(0)
        return cls(ids.astype(np.int32, copy=False), starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words of each document."""
        return np.diff(self.starts)

    def truncated(self, max_length: int) -> TokenArray:
        """Keep the first words of each document; an empty document becomes one unknown word."""
        lengths = np.minimum(self.lengths, max_length)
        starts = np.zeros(len(self) + 1, np.int64)
        np.cumsum(np.maximum(lengths, 1), out=starts[1:])
        ids = np.full(starts[-1], UNKNOWN_ID, np.int32)
        _copy_documents(self.ids, self.starts, lengths, ids, starts)
        return TokenArray(ids, starts)

    def take(self, rows: NDArray[np.int64]) -> TokenArray:
        """Keep some documents, in the order given."""
        return TokenArray.from_lists([self.ids[self.starts[row] : self.starts[row + 1]] for row in rows])

    def padded(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Give a batch as (B, T) ids padded on the right, and its (B,) lengths."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        width = max(int(lengths.max(initial=1)), 1)
        batch = np.full((len(rows), width), PAD_ID, np.int64)
        _fill_padded(self.ids, self.starts[rows], lengths, batch)
        return batch, lengths


def similar_length_batches(
    lengths: NDArray[np.int64], batch_size: int, rng: np.random.Generator, pool: int = 50
) -> list[NDArray[np.int64]]:
    """Split documents at random into batches whose documents have similar lengths.

    Only pools of so many batches are sorted, so that batches differ from epoch to epoch.
    """
    order = rng.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), pool * batch_size):
        rows = order[start : start + pool * batch_size]
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        batches += [rows[i : i + batch_size] for i in range(0, len(rows), batch_size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def length_sorted_batches(
    lengths: NDArray[np.int64], max_documents: int, max_tokens: int = 32_768
) -> Iterator[NDArray[np.int64]]:
    """Split documents into batches from long to short, bounded by documents and by padded words."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = min(max_documents, max(max_tokens // max(int(lengths[order[start]]), 1), 1))
        yield order[start : start + size]
        start += size


@numba.njit(cache=True)
def _copy_documents(source, source_starts, lengths, target, target_starts):  # type: ignore[no-untyped-def]
    for row in range(len(lengths)):
        for i in range(lengths[row]):
            target[target_starts[row] + i] = source[source_starts[row] + i]


@numba.njit(cache=True)
def _fill_padded(ids, starts, lengths, batch):  # type: ignore[no-untyped-def]
    for row in range(len(lengths)):
        for i in range(lengths[row]):
            batch[row, i] = ids[starts[row] + i]
