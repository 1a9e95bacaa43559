"""Measure what the Rust library does with each character; run as a script, it writes the table of the package.

python tests/text/measure_characters.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import normalizers

import haxmlnet.text
from haxmlnet.text.characters import (
    KIND_SHIFT,
    LETTER,
    MAY_COMPOSE,
    N_CODE_POINTS,
    SEPARATOR,
    SEVERAL,
    TABLE_FILE,
    WORD_OF_ITS_OWN,
    CharacterRuns,
)
from haxmlnet.text.tokenizer import rust_tokenizer

Normalise = Callable[[str], str]
_PAGE = 256
_SURROGATES = range(0xD800, 0xE000)
# Marks of the first and of the last combining class: any other mark changes places with one of them.
_FIRST_MARK, _LAST_MARK = "\u0334", "\u0345"


def measure_characters() -> CharacterRuns:
    """Ask the library about every character of Unicode."""
    nfkc, lower = normalizers.NFKC().normalize_str, normalizers.Lowercase().normalize_str
    kinds, ranks, may_compose = _kinds(), _mark_ranks(nfkc), _composing_characters(normalizers.NFD().normalize_str)
    rows = np.zeros((N_CODE_POINTS, 4), np.int32)  # kind, shift, first rank, last rank
    rows[:, 0] = kinds
    rows[list(map(ord, ranks)), 2:] = np.array(list(ranks.values()))[:, None]
    rows[list(map(ord, may_compose)), 2] = MAY_COMPOSE
    several: dict[int, list[int]] = {}
    for character, written in _changed(lambda text: lower(nfkc(text))):
        code_point = ord(character)
        if len(written) == 1:
            rows[code_point, :2] = kinds[ord(written)], ord(written) - code_point
        else:
            rows[code_point, :2] = SEVERAL, 0
            several[code_point] = [int(kinds[ord(part)]) << KIND_SHIFT | ord(part) for part in written]
    for character, normal in _changed(nfkc):
        rows[ord(character), 2:] = _first_rank(normal, ranks, may_compose), ranks.get(normal[-1], 0)
    rows[rows[:, 0] == SEPARATOR, 1] = 0
    return _runs(rows, several)


def _changed(normalise: Normalise, before: str = "", after: str = "") -> Iterator[tuple[str, str]]:
    """Give each character that is changed between two others, with what then stands there."""
    for page in _pages():
        # A space keeps neighbours apart, so that a page as a whole stays as it is if each of its characters does.
        together = "".join([f" {before}{character}{after}" for character in page])
        if normalise(together) == together:
            continue
        for character in page:
            alone = f"{before}{character}{after}"
            if (changed := normalise(f" {alone}")[1:]) != alone:
                yield character, changed


def _pages() -> Iterator[list[str]]:
    for start in range(0, N_CODE_POINTS, _PAGE):
        if start not in _SURROGATES:
            yield [chr(code_point) for code_point in range(start, start + _PAGE)]


def _kinds() -> NDArray[np.uint8]:
    """Split each character written twice: no word, one word of two letters, or two words."""
    split = rust_tokenizer({}).pre_tokenizer.pre_tokenize_str
    kinds = np.full(N_CODE_POINTS, SEPARATOR, np.uint8)
    for page in _pages():
        words = split("".join([f"{character}{character}\n" for character in page]))
        counts = np.bincount([start // 3 for _, (start, _) in words], minlength=_PAGE)
        kinds[ord(page[0]) : ord(page[0]) + _PAGE] = np.array([SEPARATOR, LETTER, WORD_OF_ITS_OWN])[counts]
    return kinds


def _mark_ranks(nfkc: Normalise) -> dict[str, int]:
    """Find the order in which the library puts marks: one rank, from 1, for each combining class."""
    swapped = [
        *(mark for mark, text in _changed(nfkc, after=_FIRST_MARK) if text == _FIRST_MARK + mark),
        *(mark for mark, text in _changed(nfkc, before=_LAST_MARK) if text == mark + _LAST_MARK),
    ]
    marks = sorted({_FIRST_MARK, _LAST_MARK, *swapped})
    ordered: list[str] = []  # one mark of each class
    for mark in marks:
        place = _n_below(mark, ordered, nfkc)
        if place == len(ordered) or _goes_after(ordered[place], mark, nfkc):
            ordered.insert(place, mark)
    return {mark: _n_below(mark, ordered, nfkc) + 1 for mark in marks}


def _n_below(mark: str, others: list[str], nfkc: Normalise) -> int:
    return sum(_goes_after(mark, other, nfkc) for other in others)


def _goes_after(first: str, second: str, nfkc: Normalise) -> bool:
    return first != second and nfkc(f" {first}{second}") == f" {second}{first}"


def _composing_characters(nfd: Normalise) -> list[str]:
    """Find what can join the character before it: all that follows another one in a decomposition."""
    return sorted({part for _, text in _changed(nfd) for part in text[1:]})


def _first_rank(normal: str, ranks: dict[str, int], may_compose: list[str]) -> int:
    for part in normal:
        if part in may_compose:
            return MAY_COMPOSE
        if part not in ranks:
            break
    return ranks.get(normal[0], 0)


def _runs(rows: NDArray[np.int32], several: dict[int, list[int]]) -> CharacterRuns:
    starts = np.flatnonzero((np.diff(rows, axis=0, prepend=-1) != 0).any(axis=1))
    kinds, shifts, first_ranks, last_ranks = rows[starts].T
    return CharacterRuns(
        starts.astype(np.int32),
        kinds.astype(np.uint8),
        shifts.astype(np.int32),
        first_ranks.astype(np.uint8),
        last_ranks.astype(np.uint8),
        np.array(list(several), np.int32),
        np.array([len(entries) for entries in several.values()], np.uint8),
        np.array([entry for entries in several.values() for entry in entries], np.uint32),
    )


def write_table(path: Path) -> None:
    """Write the measured table."""
    arrays: dict[str, Any] = measure_characters()._asdict()
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    write_table(Path(haxmlnet.text.__file__).with_name(TABLE_FILE))
