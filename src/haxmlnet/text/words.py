"""`split_texts`: texts to normalized words, as arrays of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import normalizers

from haxmlnet.errors import DataError
from haxmlnet.text.characters import character_table
from haxmlnet.text.utf8_kernels import count_non_ascii, find_unnormalized, hash_words, split_words

# A character that is not ASCII becomes at most so many bytes and words for each byte of it: see the tests.
MAX_BYTES_PER_BYTE = 11
MAX_WORDS_PER_BYTE = 3


class Words(NamedTuple):
    """Words one after the other: word i is `text[ends[i - 1]:ends[i]]` in UTF-8, the first begins at 0."""

    text: NDArray[np.uint8]
    ends: NDArray[np.int64]
    hashes: NDArray[np.uint64]

    @classmethod
    def from_list(cls, words: Sequence[str]) -> Words:
        """Take words as they are, neither split nor lower-cased."""
        text, bounds = _concatenate(list(map(str.encode, words)))
        hashes = np.empty(len(words), np.uint64)
        hash_words(text, bounds[1:], hashes)
        return cls(text, bounds[1:], hashes)


def split_texts(texts: Sequence[str]) -> tuple[Words, NDArray[np.int64]]:
    """Normalise (NFKC), lower-case and split texts; return the words of all, and the number of words of each."""
    table = character_table()
    data, bounds = _encode_normalized(texts)
    n_non_ascii = int(count_non_ascii(data))
    n_ascii = len(data) - n_non_ascii
    text = np.empty(n_ascii + MAX_BYTES_PER_BYTE * n_non_ascii, np.uint8)
    # Two ASCII words of one document have a character between them.
    most_words = (n_ascii + len(texts)) // 2 + MAX_WORDS_PER_BYTE * n_non_ascii + 1
    ends, hashes = np.empty(most_words, np.int64), np.empty(most_words, np.uint64)
    lengths = np.empty(len(texts), np.int64)
    n_words = split_words(data, bounds, table.lower, table.entries, table.sequences, text, ends, hashes, lengths)
    return Words(text, ends[:n_words], hashes[:n_words]), lengths


def _encode_normalized(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Encode the texts as UTF-8, and those in NFKC that the kernel cannot normalise character by character."""
    try:
        encoded = list(map(str.encode, texts))
    except UnicodeEncodeError as error:
        raise DataError(
            f"a text holds half a surrogate pair at character {error.start}. Decode the text properly."
        ) from None
    data, bounds = _concatenate(encoded)
    rows = np.array([row for row, text in enumerate(texts) if not text.isascii()], np.int64)
    table = character_table()
    unnormalized = rows[find_unnormalized(data, bounds, rows, table.first_ranks, table.last_ranks)].tolist()
    if not unnormalized:
        return data, bounds

    normalise = normalizers.NFKC().normalize_str
    for row in unnormalized:
        # Nothing joins a space or moves across it, and the library is slow for every character.
        parts = [part if part.isascii() else normalise(part) for part in texts[row].split(" ")]
        encoded[row] = " ".join(parts).encode()
    return _concatenate(encoded)


def _concatenate(encoded: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    bounds = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=bounds[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), bounds
