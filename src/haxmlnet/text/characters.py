"""`CharacterTable`: what the tokenizer does with each character of Unicode, in arrays that kernels can read.

Python's own tables depend on its version; these were measured from the Rust library, by
`tests/text/measure_characters.py`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

N_CODE_POINTS = 0x110000
TABLE_FILE = "characters.npz"

# An entry says what a character becomes: its kind above, and the code point to write below.
KIND_SHIFT = 21
CODE_POINT_MASK = (1 << KIND_SHIFT) - 1
SEPARATOR, LETTER, WORD_OF_ITS_OWN, SEVERAL = range(4)

MAY_COMPOSE = 255  # stands where a rank would: there are about sixty


class CharacterRuns(NamedTuple):
    """The table as it is stored: runs of characters that are treated alike, and those that need more words."""

    starts: NDArray[np.int32]  # the first code point of each run
    kinds: NDArray[np.uint8]
    shifts: NDArray[np.int32]  # from a character to the one that is written for it
    first_ranks: NDArray[np.uint8]
    last_ranks: NDArray[np.uint8]
    several: NDArray[np.int32]  # the characters that become several
    several_sizes: NDArray[np.uint8]
    several_entries: NDArray[np.uint32]


class CharacterTable(NamedTuple):
    """What each code point becomes when a text is normalized, lower-cased and split."""

    lower: NDArray[np.uint8]  # (256,) the letter an ASCII character becomes; 0 for separators and from 128 on
    entries: NDArray[np.uint32]  # (N_CODE_POINTS,) of kind SEVERAL: where in `sequences` the entries stand
    sequences: NDArray[np.uint32]  # the number of entries, then the entries, again and again
    first_ranks: NDArray[np.uint8]  # (N_CODE_POINTS,) order among marks of its first character, 0 for no mark
    last_ranks: NDArray[np.uint8]


@cache
def character_table() -> CharacterTable:
    """Read the table of this package, once."""
    with (files(__package__) / TABLE_FILE).open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return unfold(CharacterRuns(**arrays))


def unfold(runs: CharacterRuns) -> CharacterTable:
    """Write out the runs, character by character."""
    lengths = np.diff(runs.starts, append=N_CODE_POINTS)
    code_points = np.arange(N_CODE_POINTS, dtype=np.int32) + np.repeat(runs.shifts, lengths)
    kinds = np.repeat(runs.kinds.astype(np.uint32) << np.uint32(KIND_SHIFT), lengths)
    entries = kinds + code_points.astype(np.uint32)
    ends = np.cumsum(runs.several_sizes, dtype=np.int64)
    starts = ends - runs.several_sizes
    sequences = np.insert(runs.several_entries, starts, runs.several_sizes)
    entries[runs.several] = (SEVERAL << KIND_SHIFT) | (starts + np.arange(len(starts)))
    lower = np.zeros(256, np.uint8)
    is_letter = entries[:128] >> KIND_SHIFT == LETTER
    lower[:128][is_letter] = entries[:128][is_letter] & CODE_POINT_MASK
    return CharacterTable(
        lower,
        entries,
        sequences,
        np.repeat(runs.first_ranks, lengths),
        np.repeat(runs.last_ranks, lengths),
    )
