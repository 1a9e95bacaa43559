"""The loops that give words their ids and count them, compiled by numba; they hold no lock.

Words lie one after the other in an array of bytes, as `split_kernels` writes them. A slot of the hash table holds
the id of a word; where it is taken by another word, the next one is tried. Equal hashes never make words equal:
their bytes are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

FREE = -1  # a slot without a word
_HALF = np.uint64(32)
_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def _slot_of(
    slots: Any, known_text: Any, known_ends: Any, known_hashes: Any, text: Any, start: Any, end: Any, mixed: Any
) -> Any:
    """Find the slot of a word, or the free one where it would stand."""
    mask = np.uint64(len(slots) - 1)
    slot = (mixed ^ mixed >> _HALF) & mask
    while True:
        word = slots[slot]
        if word == FREE:
            return slot
        if known_hashes[word] == mixed:
            known_start = known_ends[word - 1] if word else 0
            if known_ends[word] - known_start == end - start:
                position = start
                while position < end and text[position] == known_text[known_start + position - start]:
                    position += 1
                if position == end:
                    return slot
        slot = (slot + _ONE) & mask


@njit(cache=True, nogil=True)
def _more_slots(slots: Any, hashes: Any, n_words: Any) -> Any:
    """Make twice as many slots, and put the words, all of them different, into them again."""
    larger = np.full(2 * len(slots), FREE, np.int32)
    mask = np.uint64(len(larger) - 1)
    for word in range(n_words):
        slot = (hashes[word] ^ hashes[word] >> _HALF) & mask
        while larger[slot] != FREE:
            slot = (slot + _ONE) & mask
        larger[slot] = word
    return larger


@njit(cache=True, nogil=True)
def add_words(
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
    """Give each word its id, a new one to those not met before; return the number of words known, and the slots.

    There must be room behind the words known.
    """
    start = 0
    for word in range(len(ids)):
        end = ends[word]
        slot = _slot_of(slots, known_text, known_ends, known_hashes, text, start, end, hashes[word])
        if slots[slot] == FREE:
            slots[slot] = n_known
            known_hashes[n_known] = hashes[word]
            used = known_ends[n_known - 1] if n_known else 0
            known_text[used : used + end - start] = text[start:end]
            known_ends[n_known] = used + end - start
            ids[word] = n_known
            n_known += 1
            if 2 * n_known > len(slots):
                slots = _more_slots(slots, known_hashes, n_known)
        else:
            ids[word] = slots[slot]
        start = end
    return n_known, slots


@njit(cache=True, nogil=True)
def find_words(
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
    """Give each word its id, or `unknown` to those the table lacks."""
    start = 0
    for word in range(len(ids)):
        slot = _slot_of(slots, known_text, known_ends, known_hashes, text, start, ends[word], hashes[word])
        ids[word] = slots[slot] if slots[slot] != FREE else unknown
        start = ends[word]


@njit(cache=True, nogil=True)
def count_documents(ids: Any, starts: Any, ends: Any, last_document: Any, counts: Any) -> None:
    """Count the documents of each word; `last_document` begins as -1, and ids beyond the counts are left out."""
    for document in range(len(starts)):
        for position in range(starts[document], ends[document]):
            word = ids[position]
            if word < len(counts) and last_document[word] != document:
                last_document[word] = document
                counts[word] += 1
