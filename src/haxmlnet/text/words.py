"""`split_texts`: texts to words as arrays of bytes; `WordTable`: such words to ids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import normalizers

from haxmlnet.errors import DataError
from haxmlnet.text import split_kernels, table_kernels
from haxmlnet.text.characters import character_table

# A character that is not ASCII becomes at most so many bytes and words for each byte of it: see the tests.
MAX_BYTES_PER_BYTE = 11
MAX_WORDS_PER_BYTE = 3
_FIRST_SLOTS = 256


class Words(NamedTuple):
    """Words one after the other: word i is `text[ends[i - 1]:ends[i]]` in UTF-8, the first begins at 0."""

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]
    hashes: NDArray[np.uint64]

    @classmethod
    def from_list(cls, words: Sequence[str]) -> Words:
        """Take words as they are, neither split nor lower-cased."""
        encoded = list(map(str.encode, words))
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        text = np.frombuffer(b"".join(encoded), np.uint8)
        hashes = np.empty(len(ends), np.uint64)
        split_kernels.hash_words(text, ends, hashes)
        return cls(text, ends, hashes)


def split_texts(texts: Sequence[str]) -> tuple[Words, NDArray[np.int64]]:
    """Normalise, lower-case and split texts: the words of all, and the number of words of each."""
    table = character_table()
    data, bounds = _normalised(texts)
    n_beyond_ascii = int(split_kernels.count_beyond_ascii(data))
    n_ascii = len(data) - n_beyond_ascii
    text = np.empty(n_ascii + MAX_BYTES_PER_BYTE * n_beyond_ascii, np.uint8)
    # Two ASCII words of one document have a character between them.
    most_words = (n_ascii + len(texts)) // 2 + MAX_WORDS_PER_BYTE * n_beyond_ascii + 1
    ends, hashes = np.empty(most_words, np.int64), np.empty(most_words, np.uint64)
    lengths = np.empty(len(texts), np.int64)
    n_words = split_kernels.split_words(
        data, bounds, table.lower, table.entries, table.sequences, text, ends, hashes, lengths
    )
    return Words(text, ends[:n_words], hashes[:n_words]), lengths


def _normalised(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Join the texts as UTF-8, those in NFKC that the kernel cannot normalise character by character."""
    try:
        encoded = list(map(str.encode, texts))
    except UnicodeEncodeError as error:
        raise DataError(
            f"a text holds half a surrogate pair at character {error.start}. Decode the text properly."
        ) from None
    data, bounds = _joined(encoded)
    rows = np.array([row for row, text in enumerate(texts) if not text.isascii()], np.int64)
    table = character_table()
    unnormalised = rows[
        split_kernels.find_unnormalised(data, bounds, rows, table.first_ranks, table.last_ranks)
    ].tolist()
    for row in unnormalised:
        encoded[row] = _nfkc(texts[row]).encode()
    return _joined(encoded) if unnormalised else (data, bounds)


def _joined(encoded: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    bounds = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=bounds[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), bounds


def _nfkc(text: str) -> str:
    # Nothing joins a space or moves across it, and the library takes its time for every character.
    normalise = _normaliser().normalize_str
    return " ".join([part if part.isascii() else normalise(part) for part in text.split(" ")])


@cache
def _normaliser() -> normalizers.Normalizer:
    return normalizers.NFKC()


class WordTable:
    """A hash table of words with the ids 0, 1, ... in the order in which they were added."""

    def __init__(self, words: Words | None = None) -> None:
        self.n_words = 0
        self._slots = np.full(_FIRST_SLOTS, table_kernels.FREE, np.int32)
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
        """Give each word its id; words the table lacks get the next ones."""
        ids = np.empty(len(words.ends), np.int32)
        if len(ids):
            self._make_room(len(ids), int(words.ends[-1]))
            self.n_words, self._slots = table_kernels.add_words(
                self._slots, self._text, self._ends, self._hashes, self.n_words, *words, ids
            )
        return ids

    def find(self, words: Words, unknown: int) -> NDArray[np.int32]:
        """Give each word its id, or `unknown` to those the table lacks."""
        ids = np.empty(len(words.ends), np.int32)
        table_kernels.find_words(self._slots, self._text, self._ends, self._hashes, *words, unknown, ids)
        return ids

    def spell(self, ids: NDArray[np.int64]) -> list[str]:
        """Give words by their ids."""
        starts = np.where(ids > 0, self._ends[ids - 1], 0)
        text = self._text.tobytes()
        return [text[start:end].decode() for start, end in zip(starts.tolist(), self._ends[ids].tolist(), strict=True)]

    def _make_room(self, n_words: int, n_bytes: int) -> None:
        used = int(self._ends[self.n_words - 1]) if self.n_words else 0
        self._text = _extended(self._text, used, n_bytes)
        self._ends = _extended(self._ends, self.n_words, n_words)
        self._hashes = _extended(self._hashes, self.n_words, n_words)


def _extended(array: NDArray[Any], n_used: int, n_more: int) -> NDArray[Any]:
    """Give an array with room for more; doubling it keeps the copying in proportion."""
    if n_used + n_more <= len(array):
        return array
    longer = np.empty(max(n_used + n_more, 2 * n_used), array.dtype)
    longer[:n_used] = array[:n_used]
    return longer
