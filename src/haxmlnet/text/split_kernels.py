"""The loops that cut UTF-8 into words, compiled by numba; they hold no lock, so that threads run side by side.

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

_HASH_START = np.uint64(0xCBF29CE484222325)
_HASH_FACTOR = np.uint64(0x100000001B3)


@njit(cache=True, nogil=True)
def _read_character(data: Any, position: Any) -> Any:
    """Decode a character of valid UTF-8 that is not ASCII: its code point and its number of bytes."""
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
    """Encode a character behind the bytes used, and return how many there are then."""
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
def find_unnormalised(data: Any, bounds: Any, rows: Any, first_ranks: Any, last_ranks: Any) -> Any:
    """Tell which documents of some rows have characters that NFKC joins or puts in another order.

    In all the others, each character can be normalised by itself.
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
def count_beyond_ascii(data: Any) -> Any:
    """Count the bytes of characters that are not ASCII."""
    count = 0
    for byte in data:
        count += byte >> 7
    return count


@njit(cache=True, nogil=True)
def _hash(text: Any, start: Any, end: Any, mixed: Any) -> Any:
    for position in range(start, end):
        mixed = (mixed ^ np.uint64(text[position])) * _HASH_FACTOR
    return mixed


@njit(cache=True, nogil=True)
def hash_words(text: Any, ends: Any, hashes: Any) -> None:
    """Hash words that did not come from `split_words`, in the same way."""
    start = 0
    for word in range(len(ends)):
        hashes[word] = _hash(text, start, ends[word], _HASH_START)
        start = ends[word]


@njit(cache=True, nogil=True)
def _end_word(ends: Any, hashes: Any, n_words: Any, used: Any, mixed: Any) -> Any:
    """Close the word written last, if one was begun, and return the number of words."""
    begun = used > (ends[n_words - 1] if n_words else 0)
    ends[n_words] = used
    hashes[n_words] = mixed
    return n_words + begun


@njit(cache=True, nogil=True)
def _add_character(entry: Any, text: Any, ends: Any, hashes: Any, n_words: Any, used: Any, mixed: Any) -> Any:
    """Write what an entry of the table of characters says, and return how many words and bytes there are then."""
    kind = entry >> KIND_SHIFT
    if kind != LETTER:
        n_words, mixed = _end_word(ends, hashes, n_words, used, mixed), _HASH_START
    if kind != SEPARATOR:
        start = used
        used = _write_character(text, used, entry & CODE_POINT_MASK)
        mixed = _hash(text, start, used, mixed)
    if kind == WORD_OF_ITS_OWN:
        n_words, mixed = _end_word(ends, hashes, n_words, used, mixed), _HASH_START
    return n_words, used, mixed


@njit(cache=True, nogil=True)
def split_words(
    data: Any, bounds: Any, lower: Any, entries: Any, sequences: Any, text: Any, ends: Any, hashes: Any, lengths: Any
) -> Any:
    """Write the words of documents and return how many there are; `lengths` are the numbers of words of each."""
    n_words, used, mixed = 0, 0, _HASH_START
    for document in range(len(lengths)):
        first_word, position, stop = n_words, bounds[document], bounds[document + 1]
        while position < stop:
            letter = lower[data[position]]
            if letter:
                text[used] = letter
                mixed = (mixed ^ np.uint64(letter)) * _HASH_FACTOR
                used += 1
                position += 1
                continue
            if data[position] < 0x80:
                n_words, mixed = _end_word(ends, hashes, n_words, used, mixed), _HASH_START
                position += 1
                continue
            code_point, size = _read_character(data, position)
            position += size
            entry = entries[code_point]
            if entry >> KIND_SHIFT != SEVERAL:
                n_words, used, mixed = _add_character(entry, text, ends, hashes, n_words, used, mixed)
                continue
            place = (entry & CODE_POINT_MASK) + 1
            for part in range(place, place + sequences[place - 1]):
                n_words, used, mixed = _add_character(sequences[part], text, ends, hashes, n_words, used, mixed)
        n_words, mixed = _end_word(ends, hashes, n_words, used, mixed), _HASH_START
        lengths[document] = n_words - first_word
    return n_words
