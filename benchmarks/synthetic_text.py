"""Made-up words that can be pronounced, and the JSON lines written with them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# No syllable ends with a consonant and none begins with a vowel, so that no two rows of syllables give one word.
ONSETS = [*"bdfghklmnprstvwz", "br", "ch", "cl", "dr", "fl", "gr", "pl", "pr", "sh", "sl", "st", "th", "tr"]
NUCLEI = [*"aeiou", "ea", "ai", "ou", "oo", "ie"]
ACCENTS = str.maketrans("aeou", "àéöü")
WORDS_PER_ACCENT = 40
_STEP = 7_919  # prime, so that neighbours in frequency do not sound alike


class Block(NamedTuple):
    """Words of some documents; document i is `ids[starts[i]:starts[i + 1]]`."""

    ids: NDArray[np.int32]
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class WordTable:
    """All words as UTF-8, one after the other; word i is `letters[starts[i]:starts[i + 1]]`."""

    letters: NDArray[np.uint8]
    starts: NDArray[np.int64]

    @classmethod
    def of_size(cls, n_words: int) -> WordTable:
        """Make so many different words, the first ones shortest, some of the later ones with an accent."""
        words = made_up_words(n_words)
        encoded = [word.encode() for word in words]
        starts = np.concatenate([[0], np.cumsum([len(word) for word in encoded])]).astype(np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), starts)


def made_up_words(n_words: int) -> list[str]:
    """Make words of one syllable, then of two, then of three."""
    syllables = [onset + nucleus for onset, nucleus in product(ONSETS, NUCLEI)]
    base = len(syllables)
    words: list[str] = []
    n_syllables = 1
    while len(words) < n_words:
        n_here = base**n_syllables
        for i in range(min(n_here, n_words - len(words))):
            rest, word = i * _STEP % n_here, ""
            for _ in range(n_syllables):
                rest, digit = divmod(rest, base)
                word += syllables[digit]
            has_accent = n_syllables > 1 and i % WORDS_PER_ACCENT == 0
            words.append(word.translate(ACCENTS) if has_accent else word)
        n_syllables += 1
    return words


def json_lines(
    words: WordTable, block: Block, labels: sp.csr_array, first: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Write documents with sentences, names and quotes now and then; their ids count from `first`."""
    chance = rng.integers(0, 2**16, len(block.ids), dtype=np.uint16)
    n_letters = int(np.diff(words.starts)[block.ids].sum())
    room = n_letters + 8 * len(block.ids) + 20 * len(labels.indices) + 80 * len(block.starts)
    out = np.empty(room, np.uint8)
    length = _write_lines(
        out, words.letters, words.starts, block.ids, block.starts, labels.indptr, labels.indices, first, chance
    )
    return out[:length]


_BEFORE_ID = np.frombuffer(b'{"id": "', np.uint8)
_BEFORE_TEXT = np.frombuffer(b'", "text": "', np.uint8)
_BEFORE_LABELS = np.frombuffer(b'", "labels": ["L', np.uint8)
_BETWEEN_LABELS = np.frombuffer(b'", "L', np.uint8)
_AFTER_LABELS = np.frombuffer(b'"]}\n', np.uint8)
_QUOTE = np.frombuffer(b'\\"', np.uint8)
_PARAGRAPH = np.frombuffer(b"\\n", np.uint8)
_SPACE, _COMMA, _STOP, _SMALL_A, _SMALL_Z, _TO_CAPITAL = ord(" "), ord(","), ord("."), ord("a"), ord("z"), 32


@numba.njit(cache=True, nogil=True)
def _write_lines(out, letters, word_starts, ids, starts, label_starts, labels, first, chance):  # type: ignore[no-untyped-def]
    at = 0
    for document in range(len(starts) - 1):
        at = _copy(out, at, _BEFORE_ID)
        at = _write_number(out, at, first + document)
        at = _copy(out, at, _BEFORE_TEXT)
        at = _write_text(out, at, letters, word_starts, ids, starts[document], starts[document + 1], chance)
        for i in range(label_starts[document], label_starts[document + 1]):
            at = _copy(out, at, _BEFORE_LABELS if i == label_starts[document] else _BETWEEN_LABELS)
            at = _write_number(out, at, labels[i])
        at = _copy(out, at, _AFTER_LABELS)
    return at


@numba.njit(cache=True, nogil=True)
def _write_text(out, at, letters, word_starts, ids, start, stop, chance):  # type: ignore[no-untyped-def]
    begins = True
    for i in range(start, stop):
        luck = chance[i]
        ends = luck % 16 == 0 or i == stop - 1
        is_quoted = luck % 256 == 1
        if is_quoted:
            at = _copy(out, at, _QUOTE)
        at_word = at
        at = _copy(out, at, letters[word_starts[ids[i]] : word_starts[ids[i] + 1]])
        if (begins or luck % 32 == 2) and _SMALL_A <= out[at_word] <= _SMALL_Z:
            out[at_word] -= _TO_CAPITAL
        if is_quoted:
            at = _copy(out, at, _QUOTE)
        if ends or luck % 16 == 3:
            out[at] = _STOP if ends else _COMMA
            at += 1
        if ends and luck % 128 == 0:
            at = _copy(out, at, _PARAGRAPH)
        elif i < stop - 1:
            out[at] = _SPACE
            at += 1
        begins = ends
    return at


@numba.njit(cache=True, nogil=True)
def _copy(out, at, source):  # type: ignore[no-untyped-def]
    for i in range(len(source)):
        out[at + i] = source[i]
    return at + len(source)


@numba.njit(cache=True, nogil=True)
def _write_number(out, at, number):  # type: ignore[no-untyped-def]
    n_digits, rest = 1, number // 10
    while rest:
        n_digits, rest = n_digits + 1, rest // 10
    for place in range(n_digits):
        out[at + n_digits - 1 - place] = 48 + number % 10
        number //= 10
    return at + n_digits
