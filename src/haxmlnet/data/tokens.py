"""`TokenArray`: the word ids of many documents in one flat array, and the batches made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numba
import numpy as np
from numpy.typing import NDArray

from haxmlnet.data.shapes import round_length

PAD_ID = 0
UNKNOWN_ID = 1
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class TokenArray:
    """Word ids of documents; document i is `ids[starts[i]:ends[i]]`, where ids from `n_words` on are unknown words.

    `ids` may be memory-mapped: choosing documents, their first words or the size of the vocabulary copies none of it.
    """

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]  # (n,)
    ends: NDArray[np.int64]  # (n,)
    n_words: int = NO_LIMIT

    @classmethod
    def from_lists(cls, documents: Sequence[NDArray[np.int32]], n_words: int = NO_LIMIT) -> TokenArray:
        """Lay documents one after the other."""
        lengths = np.array([len(document) for document in documents], np.int64)
        ids = np.concatenate(documents) if documents else np.zeros(0)
        return cls.from_lengths(ids.astype(np.int32, copy=False), lengths, n_words)

    @classmethod
    def from_lengths(cls, ids: NDArray[np.int32], lengths: NDArray[np.int64], n_words: int = NO_LIMIT) -> TokenArray:
        """Cut the ids of documents that lie one after the other."""
        bounds = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=bounds[1:])
        return cls(ids, bounds[:-1], bounds[1:], n_words)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words of each document."""
        return self.ends - self.starts

    def limit_words(self, n_words: int) -> TokenArray:
        """Read the ids from `n_words` on as unknown words."""
        return replace(self, n_words=n_words)

    def truncate(self, max_length: int) -> TokenArray:
        """Keep the first words of each document."""
        return replace(self, ends=np.minimum(self.ends, self.starts + max_length))

    def take(self, rows: NDArray[np.int64]) -> TokenArray:
        """Keep some documents, in the order given."""
        return replace(self, starts=self.starts[rows], ends=self.ends[rows])

    def pack(self) -> TokenArray:
        """Copy the documents one after the other, with `UNKNOWN_ID` in the place of ids from `n_words` on."""
        ids = np.empty(int(self.lengths.sum()), np.int32)
        _copy_documents(np.asarray(self.ids), self.starts, self.ends, self.n_words, ids)
        return TokenArray.from_lengths(ids, self.lengths, self.n_words)

    def pad(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return a batch as (B, T) ids padded on the right, and its (B,) lengths; no words become one unknown word.

        T is one of few lengths, but for a document alone, which should not wait for padding.
        """
        starts, ends = self.starts[rows], self.ends[rows]
        lengths = np.maximum(ends - starts, 1)
        longest = int(lengths.max(initial=1))
        batch = np.full((len(rows), round_length(longest) if len(rows) > 1 else longest), PAD_ID, np.int64)
        batch[:, 0] = UNKNOWN_ID
        _fill_padded(np.asarray(self.ids), starts, ends, self.n_words, batch)
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


@numba.njit(cache=True, nogil=True)
def _copy_documents(ids, starts, ends, n_words, copy):  # type: ignore[no-untyped-def]
    filled = 0
    for row in range(len(starts)):
        for position in range(starts[row], ends[row]):
            copy[filled] = ids[position] if ids[position] < n_words else UNKNOWN_ID
            filled += 1


@numba.njit(cache=True, nogil=True)
def _fill_padded(ids, starts, ends, n_words, batch):  # type: ignore[no-untyped-def]
    for row in range(len(starts)):
        for i in range(ends[row] - starts[row]):
            word = ids[starts[row] + i]
            batch[row, i] = word if word < n_words else UNKNOWN_ID
