"""`WordTable`: a hash table from words to ids, over arrays of bytes that compiled loops read without the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from haxmlnet.text.words import Words

FREE = -1  # a slot without a word
_FIRST_SLOTS = 256
_HALF = np.uint64(32)
_ONE = np.uint64(1)


class WordTable:
    """Words with the ids 0, 1, ... in the order in which they were added."""

    def __init__(self, words: Words | None = None) -> None:
        self.n_words = 0
        self._slots = np.full(_FIRST_SLOTS, FREE, np.int32)
        self._text = np.empty(0, np.uint8)
        self._ends = np.empty(0, np.int64)
        self._hashes = np.empty(0, np.uint64)
        if words is not None:
            self.add(words)

    @property
    def words(self) -> Words:
        """The words added, in the order of their ids."""
        return Words(self._text, self._ends[: self.n_words], self._hashes[: self.n_words])

    def add(self, words: Words) -> NDArray[np.int32]:
        """Return the id of each word; words the table lacks get the next ones."""
        ids = np.empty(len(words.ends), np.int32)
        if len(ids):
            n_bytes = int(self._ends[self.n_words - 1]) if self.n_words else 0
            self._text = _reserve(self._text, n_bytes, int(words.ends[-1]))
            self._ends = _reserve(self._ends, self.n_words, len(ids))
            self._hashes = _reserve(self._hashes, self.n_words, len(ids))
            self.n_words, self._slots = _add_words(
                self._slots, self._text, self._ends, self._hashes, self.n_words, *words, ids
            )
        return ids

    def find(self, words: Words, unknown: int) -> NDArray[np.int32]:
        """Return the id of each word, or `unknown` for those the table lacks."""
        ids = np.empty(len(words.ends), np.int32)
        _find_words(self._slots, self._text, self._ends, self._hashes, *words, unknown, ids)
        return ids

    def spell(self, ids: NDArray[np.int64]) -> list[str]:
        """Return words by their ids."""
        starts = np.where(ids > 0, self._ends[ids - 1], 0)
        text = self._text.tobytes()
        return [text[start:end].decode() for start, end in zip(starts.tolist(), self._ends[ids].tolist(), strict=True)]


def _reserve(array: NDArray[Any], n_used: int, n_more: int) -> NDArray[Any]:
    """Make room for more at the end; the length at least doubles, so that copying stays linear."""
    if n_used + n_more <= len(array):
        return array
    longer = np.empty(max(n_used + n_more, 2 * n_used), array.dtype)
    longer[:n_used] = array[:n_used]
    return longer


@njit(cache=True, nogil=True)
def _add_words(
    slots: Any,
    known_text: Any,
    known_ends: Any,
    known_hashes: Any,
    n_known: Any,
    text: Any,
    ends: Any,
    hashes: Any,
    ids: Any,
) -> Any:
    """Write the id of each word, a new one for those not met before; return the number of known words, and the slots.

    There must be room behind the known words.
    """
    start = 0
    for word in range(len(ids)):
        end = ends[word]
        slot = _find_slot(slots, known_text, known_ends, known_hashes, text, start, end, hashes[word])
        if slots[slot] == FREE:
            slots[slot] = n_known
            known_hashes[n_known] = hashes[word]
            used = known_ends[n_known - 1] if n_known else 0
            known_text[used : used + end - start] = text[start:end]
            known_ends[n_known] = used + end - start
            ids[word] = n_known
            n_known += 1
            if 2 * n_known > len(slots):
                slots = _double_slots(slots, known_hashes, n_known)
        else:
            ids[word] = slots[slot]
        start = end
    return n_known, slots


@njit(cache=True, nogil=True)
def _find_words(
    slots: Any,
    known_text: Any,
    known_ends: Any,
    known_hashes: Any,
    text: Any,
    ends: Any,
    hashes: Any,
    unknown: Any,
    ids: Any,
) -> None:
    start = 0
    for word in range(len(ids)):
        slot = _find_slot(slots, known_text, known_ends, known_hashes, text, start, ends[word], hashes[word])
        ids[word] = slots[slot] if slots[slot] != FREE else unknown
        start = ends[word]


@njit(cache=True, nogil=True)
def _find_slot(
    slots: Any, known_text: Any, known_ends: Any, known_hashes: Any, text: Any, start: Any, end: Any, word_hash: Any
) -> Any:
    """Find the slot of a word, or the free one where it would go: linear probing, by hash and then by bytes."""
    mask = np.uint64(len(slots) - 1)
    slot = (word_hash ^ word_hash >> _HALF) & mask
    while True:
        word = slots[slot]
        if word == FREE:
            return slot
        if known_hashes[word] == word_hash:
            known_start = known_ends[word - 1] if word else 0
            if known_ends[word] - known_start == end - start:
                position = start
                while position < end and text[position] == known_text[known_start + position - start]:
                    position += 1
                if position == end:
                    return slot
        slot = (slot + _ONE) & mask


@njit(cache=True, nogil=True)
def _double_slots(slots: Any, hashes: Any, n_words: Any) -> Any:
    """Make a table of twice as many slots for the words, which are all different."""
    larger = np.full(2 * len(slots), FREE, np.int32)
    mask = np.uint64(len(larger) - 1)
    for word in range(n_words):
        slot = (hashes[word] ^ hashes[word] >> _HALF) & mask
        while larger[slot] != FREE:
            slot = (slot + _ONE) & mask
        larger[slot] = word
    return larger
