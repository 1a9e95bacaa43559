"""The loops of lazy Adam, compiled by numba; they hold no lock, so that threads work on columns side by side.

A division that might raise would keep a loop from being vectorized: hence numpy's way with errors.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def number_rows(ids, slots, rows, places, is_first):  # type: ignore[no-untyped-def]
    """Number the different rows among ids in the order in which they come; return how many there are.

    Writes the rows by number, and for each id its number and whether it is the first of its row. `slots` has a place
    for each row of the table; it is -1 everywhere, before and after.
    """
    n_rows = 0
    for i in range(len(ids)):
        row = ids[i]
        is_first[i] = slots[row] < 0
        if is_first[i]:
            slots[row], rows[n_rows] = n_rows, row
            n_rows += 1
        places[i] = slots[row]
    for row in rows[:n_rows]:
        slots[row] = -1
    return n_rows


@numba.njit(cache=True, nogil=True)
def add_rows(values, places, is_first, sums, first, last):  # type: ignore[no-untyped-def]
    """Add the columns from `first` to `last` of each row of values to the sum at its place."""
    for i in range(len(values)):
        value, total = values[i, first:last], sums[places[i], first:last]
        if is_first[i]:
            for column in range(len(value)):
                total[column] = value[column]
        else:
            for column in range(len(value)):
                total[column] += value[column]


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def squared_length(sums, first, last):  # type: ignore[no-untyped-def]
    """Add up the squares of some columns."""
    total = 0.0
    for row in range(len(sums)):
        value, of_row = sums[row, first:last], np.float32(0)
        for column in range(len(value)):
            of_row += value[column] * value[column]
        total += float(of_row)
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def update_rows(  # type: ignore[no-untyped-def]
    rows, sums, shrink, table, means, squares, first, last, decay, square_decay, rate, least
):
    """Take a step of Adam in some columns of some rows, whose gradients are sums times `shrink`."""
    new, square_new = np.float32(1) - decay, np.float32(1) - square_decay
    for i in range(len(rows)):
        row, gradient = rows[i], sums[i, first:last]
        weights, mean, square = table[row, first:last], means[row, first:last], squares[row, first:last]
        for column in range(len(gradient)):
            value = gradient[column] * shrink
            moved = decay * mean[column] + new * value
            grown = square_decay * square[column] + square_new * value * value
            mean[column], square[column] = moved, grown
            weights[column] -= rate * moved / (np.sqrt(grown) + least)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def update_rows_in_bfloat16(  # type: ignore[no-untyped-def]
    rows, sums, shrink, table, means, squares, first, last, decay, square_decay, rate, least, step
):
    """Do the same where moments are bfloat16, the upper 16 bits of float32.

    Squares change by less than such a number can tell, so they are rounded up or down by chance, which keeps
    their mean right. The chance depends on row, column and step alone.
    """
    new, square_new = np.float32(1) - decay, np.float32(1) - square_decay
    for i in range(len(rows)):
        row, gradient = rows[i], sums[i, first:last]
        weights, mean, square = table[row, first:last], means[row, first:last], squares[row, first:last]
        start = np.uint32(row * np.int64(2654435761) + step * np.int64(2246822519))
        for column in range(len(gradient)):
            value = gradient[column] * shrink
            moved = decay * _long(mean[column]) + new * value
            grown = square_decay * _long(square[column]) + square_new * value * value
            weights[column] -= rate * moved / (np.sqrt(grown) + least)
            mean[column] = _short(moved, np.uint32(0x8000))
            square[column] = _short(grown, mix(np.uint32(start + np.uint32(first + column) * np.uint32(2654435769))))


@numba.njit(cache=True, nogil=True)
def _long(bits):  # type: ignore[no-untyped-def]
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@numba.njit(cache=True, nogil=True)
def _short(value, added):  # type: ignore[no-untyped-def]
    return np.uint16(np.uint32(np.float32(value).view(np.uint32) + added) >> np.uint32(16))


@numba.njit(cache=True, nogil=True)
def mix(number):  # type: ignore[no-untyped-def]
    """Return 16 bits that look like chance."""
    number = np.uint32((number ^ (number >> np.uint32(15))) * np.uint32(2246822507))
    number = np.uint32((number ^ (number >> np.uint32(13))) * np.uint32(3266489909))
    return number >> np.uint32(16)
