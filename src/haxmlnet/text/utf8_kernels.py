"""The loops that split UTF-8 into words, compiled by numba; they release the GIL.

Words lie one after the other in an array of bytes: word i is `text[ends[i - 1]:ends[i]]`, the first begins at 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from haxmlnet.text.characters import (
    CODE_POINT_MASK,
    KIND_SHIFT,
    LETTER,
    MAY_COMPOSE,
    SEPARATOR,
    SEVERAL,
    WORD_OF_ITS_OWN,
)

# The constants of the FNV-1a hash
_FNV_BASIS = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


@njit(cache=True, nogil=True)
def _read_character(data: Any, position: Any) -> Any:
    """Decode a character of valid UTF-8 that is not ASCII; return its code point and its number of bytes."""
    first = np.int64(data[position])
    second = np.int64(data[position + 1]) & 0x3F
    if first < 0xE0:
        return (first & 0x1F) << 6 | second, 2
    third = np.int64(data[position + 2]) & 0x3F
    if first < 0xF0:
        return (first & 0x0F) << 12 | second << 6 | third, 3
    fourth = np.int64(data[position + 3]) & 0x3F
    return (first & 0x07) << 18 | second << 12 | third << 6 | fourth, 4


@njit(cache=True, nogil=True)
def _write_character(text: Any, used: Any, code_point: Any) -> Any:
    """Encode a character behind the bytes used; return how many are used then."""
    if code_point < 0x80:
        text[used] = code_point
        return used + 1
    if code_point < 0x800:
        text[used] = 0xC0 | code_point >> 6
    else:
        if code_point < 0x10000:
            text[used] = 0xE0 | code_point >> 12
        else:
            text[used] = 0xF0 | code_point >> 18
            used += 1
            text[used] = 0x80 | code_point >> 12 & 0x3F
        used += 1
        text[used] = 0x80 | code_point >> 6 & 0x3F
    text[used + 1] = 0x80 | code_point & 0x3F
    return used + 2


@njit(cache=True, nogil=True)
def find_unnormalized(data: Any, bounds: Any, rows: Any, first_ranks: Any, last_ranks: Any) -> Any:
    """Find the documents, among some rows, with characters that NFKC composes or reorders.

    In all the others, each character can be normalized by itself.
    """
    found = np.zeros(len(rows), np.bool_)
    for i, document in enumerate(rows):
        position, rank = bounds[document], 0
        while position < bounds[document + 1]:
            if data[position] < 0x80:
                position, rank = position + 1, 0
                continue
            code_point, size = _read_character(data, position)
            first = first_ranks[code_point]
            if first == MAY_COMPOSE or 0 < first < rank:
                found[i] = True
                break
            position, rank = position + size, last_ranks[code_point]
    return found


@njit(cache=True, nogil=True)
def count_non_ascii(data: Any) -> Any:
    """Count the bytes of characters that are not ASCII."""
    count = 0
    for byte in data:
        count += byte >> 7
    return count


@njit(cache=True, nogil=True)
def _hash(text: Any, start: Any, end: Any, state: Any) -> Any:
    for position in range(start, end):
        state = (state ^ np.uint64(text[position])) * _FNV_PRIME
    return state


@njit(cache=True, nogil=True)
def hash_words(text: Any, ends: Any, hashes: Any) -> None:
    """Hash words that do not come from `split_words`, in the same way."""
    start = 0
    for word in range(len(ends)):
        hashes[word] = _hash(text, start, ends[word], _FNV_BASIS)
        start = ends[word]


@njit(cache=True, nogil=True)
def _end_word(ends: Any, hashes: Any, n_words: Any, used: Any, state: Any) -> Any:
    """Close the word written last, if one was begun; return the number of words."""
    begun = used > (ends[n_words - 1] if n_words else 0)
    ends[n_words] = used
    hashes[n_words] = state
    return n_words + begun


@njit(cache=True, nogil=True)
def _add_character(entry: Any, text: Any, ends: Any, hashes: Any, n_words: Any, used: Any, state: Any) -> Any:
    """Write what an entry of the character table says; return how many words and bytes there are then."""
    kind = entry >> KIND_SHIFT
    if kind != LETTER:
        n_words, state = _end_word(ends, hashes, n_words, used, state), _FNV_BASIS
    if kind != SEPARATOR:
        start = used
        used = _write_character(text, used, entry & CODE_POINT_MASK)
        state = _hash(text, start, used, state)
    if kind == WORD_OF_ITS_OWN:
        n_words, state = _end_word(ends, hashes, n_words, used, state), _FNV_BASIS
    return n_words, used, state


@njit(cache=True, nogil=True)
def split_words(
    data: Any, bounds: Any, lower: Any, entries: Any, sequences: Any, text: Any, ends: Any, hashes: Any, lengths: Any
) -> Any:
    """Write the words of all documents; return how many there are, and set `lengths` to those of each document."""
    n_words, used, state = 0, 0, _FNV_BASIS
    for document in range(len(lengths)):
        first_word, position, stop = n_words, bounds[document], bounds[document + 1]
        while position < stop:
            letter = lower[data[position]]
            if letter:
                text[used] = letter
                state = (state ^ np.uint64(letter)) * _FNV_PRIME
                used += 1
                position += 1
                continue
            if data[position] < 0x80:
                n_words, state = _end_word(ends, hashes, n_words, used, state), _FNV_BASIS
                position += 1
                continue
            code_point, size = _read_character(data, position)
            position += size
            entry = entries[code_point]
            if entry >> KIND_SHIFT != SEVERAL:
                n_words, used, state = _add_character(entry, text, ends, hashes, n_words, used, state)
                continue
            place = (entry & CODE_POINT_MASK) + 1
            for part in range(place, place + sequences[place - 1]):
                n_words, used, state = _add_character(sequences[part], text, ends, hashes, n_words, used, state)
        n_words, state = _end_word(ends, hashes, n_words, used, state), _FNV_BASIS
        lengths[document] = n_words - first_word
    return n_words
