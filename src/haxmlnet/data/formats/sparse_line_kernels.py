"""Lines of `label,label index:value index:value` to arrays, some megabytes at a time.

Only the readers of sparse files import this module, and only when they read: numba is slow to import.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

ROW, NO_ROW, BAD_LABEL, BAD_PAIR, BAD_VALUE, LABEL_BEYOND, FEATURE_BEYOND, FEATURE_TWICE = range(8)
"""What a line turned out to be: a row, a line that is none, or a row with a fault."""
LARGEST_INDEX = 2**31 - 1
_POWERS = 10.0 ** np.arange(309)
_SPACE, _TAB, _RETURN, _NEWLINE, _COMMA, _COLON, _HASH = 32, 9, 13, 10, 44, 58, 35
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _SMALL_E, _LARGE_E = 43, 45, 46, 48, 57, 101, 69
_DIGITS_KEPT = 19  # what 64 bits hold


class Layout(NamedTuple):
    """What the lines of a file hold."""

    n_features: int = LARGEST_INDEX
    n_labels: int = 0
    """0: the lines have no labels."""
    first_index: int = 0
    blank_rows: bool = True
    """Is a blank line a document without labels and features, or nothing at all?"""
    comments: bool = False


class ParsedLines(NamedTuple):
    """The rows of a block, without those that have a fault."""

    kinds: NDArray[np.uint8]
    """What each line is."""
    places: NDArray[np.int64]
    """Where in the block the fault of a line is."""
    starts: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    label_starts: NDArray[np.int64]
    labels: NDArray[np.int32]


def parse_lines(block: bytes, layout: Layout) -> ParsedLines:
    """Parse whole lines; each row has its features in ascending order, and its labels as they come."""
    return ParsedLines(*_parse(np.frombuffer(block, np.uint8), *layout))


@numba.njit(cache=True, nogil=True)
def _parse(
    text: Any, n_features: int, n_labels: int, first_index: int, blank_rows: bool, comments: bool
) -> tuple[Any, ...]:
    n_lines, n_colons, n_commas = 0, 0, 0
    for byte in text:
        n_lines += byte == _NEWLINE
        n_colons += byte == _COLON
        n_commas += byte == _COMMA
    kinds, places = np.zeros(n_lines, np.uint8), np.zeros(n_lines, np.int64)
    starts, label_starts = np.zeros(n_lines + 1, np.int64), np.zeros(n_lines + 1, np.int64)
    indices, values = np.empty(n_colons, np.int32), np.empty(n_colons, np.float32)
    labels = np.empty(n_commas + n_lines if n_labels else 0, np.int32)
    row, line, start = 0, 0, 0
    while line < n_lines:
        stop = start
        while text[stop] != _NEWLINE:
            stop += 1
        end = _visible_end(text, start, stop, comments)
        at = _next_word(text, start, end)
        n_row_labels, n_row_features = 0, 0
        kind = ROW if at < end or blank_rows else NO_ROW
        if kind == ROW and n_labels:
            kind, at, n_row_labels = _parse_labels(text, at, end, n_labels, labels[label_starts[row] :])
        if kind == ROW:
            kind, at, n_row_features = _parse_pairs(
                text, at, end, first_index, n_features, indices[starts[row] :], values[starts[row] :]
            )
        kinds[line], places[line] = kind, at
        if kind == ROW:
            starts[row + 1] = starts[row] + n_row_features
            label_starts[row + 1] = label_starts[row] + n_row_labels
            row += 1
        line, start = line + 1, stop + 1
    return (
        kinds, places, starts[: row + 1], indices[: starts[row]], values[: starts[row]], label_starts[: row + 1],
        labels[: label_starts[row]],
    )  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _visible_end(text: Any, start: int, stop: int, comments: bool) -> int:
    if comments:
        for at in range(start, stop):
            if text[at] == _HASH:
                stop = at
                break
    while stop > start and _is_space(text[stop - 1]):
        stop -= 1
    return stop


@numba.njit(cache=True, nogil=True)
def _next_word(text: Any, at: int, end: int) -> int:
    while at < end and _is_space(text[at]):
        at += 1
    return at


@numba.njit(cache=True, nogil=True)
def _is_space(byte: int) -> bool:
    return byte in (_SPACE, _TAB, _RETURN)


@numba.njit(cache=True, nogil=True)
def _parse_index(text: Any, at: int, end: int) -> tuple[int, int]:
    """Return the integer that begins here, at most just beyond the largest, and where it ends."""
    number = 0
    while at < end and _ZERO <= text[at] <= _NINE:
        number = min(number * 10 + (text[at] - _ZERO), LARGEST_INDEX + 1)
        at += 1
    return number, at


@numba.njit(cache=True, nogil=True)
def _parse_labels(text: Any, at: int, end: int, n_labels: int, labels: Any) -> tuple[int, int, int]:
    """Read `1,2,3`, or nothing where the line begins with a feature."""
    n = 0
    expects_one = False
    while at < end:
        label, stop = _parse_index(text, at, end)
        if stop < end and text[stop] == _COLON and not expects_one:
            break
        if stop == at or (stop < end and text[stop] != _COMMA and not _is_space(text[stop])):
            return BAD_LABEL, at, n
        if label >= n_labels:
            return LABEL_BEYOND, at, n
        labels[n], n = label, n + 1
        expects_one = stop < end and text[stop] == _COMMA
        at = _next_word(text, stop + 1, end)
        if not expects_one:
            return ROW, at, n
    return (BAD_LABEL if expects_one else ROW), at, n


@numba.njit(cache=True, nogil=True)
def _parse_pairs(
    text: Any, at: int, end: int, first_index: int, n_features: int, indices: Any, values: Any
) -> tuple[int, int, int]:
    n = 0
    row_start, before, is_sorted = at, -1, True
    while at < end:
        index, stop = _parse_index(text, at, end)
        if stop == at or stop + 1 >= end or text[stop] != _COLON:
            return BAD_PAIR, at, n
        if index < first_index or index - first_index >= n_features:
            return FEATURE_BEYOND, at, n
        value, stop = _parse_value(text, stop + 1, end)
        if not np.isfinite(np.float32(value)) or (stop < end and not _is_space(text[stop])):
            return BAD_VALUE, at, n
        index -= first_index
        if index == before:
            return FEATURE_TWICE, at, n
        is_sorted, before = is_sorted and index > before, index
        indices[n], values[n] = index, value
        n, at = n + 1, _next_word(text, stop, end)
    if not is_sorted:
        _sort_row(indices, values, n)
        for i in range(1, n):
            if indices[i] == indices[i - 1]:
                return FEATURE_TWICE, row_start, n
    return ROW, at, n


@numba.njit(cache=True, nogil=True)
def _sort_row(indices: Any, values: Any, n: int) -> None:
    """Sort by Shell's method, in place: numba takes four seconds more to compile with np.argsort."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, n):
            index, value, place = indices[i], values[i], i
            while place >= gap and indices[place - gap] > index:
                indices[place], values[place] = indices[place - gap], values[place - gap]
                place -= gap
            indices[place], values[place] = index, value
        gap //= 3


@numba.njit(cache=True, nogil=True)
def _parse_value(text: Any, at: int, end: int) -> tuple[float, int]:
    """Return the decimal number that begins here and where it ends; NaN where there is none."""
    sign = 1.0
    if at < end and (text[at] == _MINUS or text[at] == _PLUS):
        sign = -1.0 if text[at] == _MINUS else 1.0
        at += 1
    mantissa, exponent, n_kept, n_digits, after_point = np.uint64(0), 0, 0, 0, 0
    while at < end and (_ZERO <= text[at] <= _NINE or (text[at] == _POINT and not after_point)):
        if text[at] == _POINT:
            after_point = 1
        else:
            n_digits += 1
            if n_kept < _DIGITS_KEPT:
                mantissa = mantissa * np.uint64(10) + np.uint64(text[at] - _ZERO)
                n_kept += int(mantissa > 0)
                exponent -= after_point
            else:
                exponent += 1 - after_point
        at += 1
    if not n_digits:
        return np.nan, at
    if at < end and (text[at] == _SMALL_E or text[at] == _LARGE_E):
        minus = at + 1 < end and text[at + 1] == _MINUS
        first = at + 1 + (at + 1 < end and (minus or text[at + 1] == _PLUS))
        power, at = _parse_index(text, first, end)
        if at == first:
            return np.nan, at
        exponent += -power if minus else power
    return sign * _scaled(float(mantissa), exponent), at


@numba.njit(cache=True, nogil=True)
def _scaled(mantissa: float, exponent: int) -> float:
    if mantissa == 0.0 or exponent < -400:
        return 0.0
    if exponent > 308:
        return np.inf
    if exponent >= 0:
        return mantissa * _POWERS[exponent]
    # In two steps, as ten to the 308 is the largest power there is.
    once = min(-exponent, 308)
    return mantissa / _POWERS[once] / _POWERS[-exponent - once]
