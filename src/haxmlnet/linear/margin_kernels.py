"""Dot products of documents and nodes, compiled by numba without the GIL, so that threads run side by side.

All documents are multiplied with the children of one parent before the next, so that these weights stay in the cache.
Sums run over the features of a document in order: they do not depend on the other documents.
"""

from __future__ import annotations

import numba
import numpy as np

from haxmlnet.ranking import ABSENT

# To write and clear an entry of the lookup table takes as long as this many steps of a binary search.
_STEPS_PER_ENTRY = 2
# With a signed index, numba checks whether it counts from the end: a quarter of the time of a multiplication.
unsigned = np.uint64


@numba.njit(cache=True, nogil=True)
def dot_children(block, siblings, parents, dots):  # type: ignore[no-untyped-def]
    """Multiply documents with all children of their parents (B, K), into (B, K, max_siblings)."""
    order, ends = _sort_by_parent(parents, len(siblings.node_starts) - 1)
    # To take an array out of a tuple, or a slice of it, counts a reference, which takes longer than a multiplication:
    # inner loops get whole arrays and numbers.
    starts, columns, values, table = block.starts, block.columns, block.values, block.table
    features, weight_ends = siblings.features, siblings.weight_ends
    places, weights = siblings.places, siblings.values
    flat, (width, max_siblings), begin = dots.reshape(-1), dots.shape[1:], 0
    for parent in range(len(ends)):
        if begin == ends[parent]:
            continue
        pair, begin = begin, ends[parent]
        first, stop, base = _bounds_of(siblings, parent)
        in_table = _table_pays(starts, stop - first, order, pair, begin, width)
        if in_table:
            _fill_table(table, features, first, stop, 1)
        for n in range(pair, begin):
            i = order[n] // width
            _dot_siblings(
                starts[i], starts[i + 1], columns, values, table, in_table, features, first, stop, weight_ends, base,
                places, weights, flat, order[n] * max_siblings, max_siblings,
            )  # fmt: skip
        if in_table:
            _fill_table(table, features, first, stop, 0)


@numba.njit(cache=True, nogil=True)
def dot_nodes(block, siblings, max_siblings, place_of, nodes, parents, dots):  # type: ignore[no-untyped-def]
    """Multiply documents with some nodes (B, W) of parents (B, W); where a parent is absent nothing is written."""
    order, ends = _sort_by_parent(parents, len(siblings.node_starts) - 1)
    starts, columns, values, table = block.starts, block.columns, block.values, block.table
    features, weight_ends = siblings.features, siblings.weight_ends
    places, weights = siblings.places, siblings.values
    of_siblings, width, begin = np.empty(max_siblings, np.float32), parents.shape[1], 0
    for parent in range(len(ends)):
        if begin == ends[parent]:
            continue
        pair, begin, last = begin, ends[parent], -1
        first, stop, base = _bounds_of(siblings, parent)
        in_table = _table_pays(starts, stop - first, order, pair, begin, width)
        if in_table:
            _fill_table(table, features, first, stop, 1)
        for n in range(pair, begin):
            i, place = order[n] // width, order[n] % width
            sibling = place_of[nodes[i, place]]
            if i != last and (n + 1 == begin or order[n + 1] // width != i):
                dots[i, place] = _dot_one(
                    starts[i], starts[i + 1], columns, values, table, in_table, features, first, stop, weight_ends,
                    base, places, weights, sibling,
                )  # fmt: skip
                continue
            if i != last:
                _dot_siblings(
                    starts[i], starts[i + 1], columns, values, table, in_table, features, first, stop, weight_ends,
                    base, places, weights, of_siblings, 0, max_siblings,
                )  # fmt: skip
                last = i
            dots[i, place] = of_siblings[sibling]
        if in_table:
            _fill_table(table, features, first, stop, 0)


@numba.njit(cache=True, nogil=True)
def _bounds_of(siblings, parent):  # type: ignore[no-untyped-def]
    """Return where the features of the children of a parent begin and end, and where their weights begin."""
    return siblings.feature_starts[parent], siblings.feature_starts[parent + 1], siblings.weight_starts[parent]


@numba.njit(cache=True, nogil=True)
def take_cached(cached_parents, cached, place_of, nodes, parents, dots):  # type: ignore[no-untyped-def]
    """Copy the dot products of nodes (B, W) whose parents are among the cached ones (B, K); mark these parents absent.

    `cached` are the dot products with all children of the cached parents, (B, K, max_siblings).
    """
    for i in range(len(nodes)):
        for place in range(nodes.shape[1]):
            if parents[i, place] == ABSENT:
                continue
            for origin in range(cached_parents.shape[1]):
                if cached_parents[i, origin] == parents[i, place]:
                    dots[i, place] = cached[i, origin, place_of[nodes[i, place]]]
                    parents[i, place] = ABSENT
                    break


@numba.njit(cache=True, nogil=True)
def _sort_by_parent(parents, n_parents):  # type: ignore[no-untyped-def]
    """Sort the pairs of a document and a parent by parent, then by document, and say where those of a parent end.

    Pairs with an absent parent are left out.
    """
    ends, width = np.zeros(n_parents + 1, np.int64), parents.shape[1]
    for i in range(len(parents)):
        for place in range(width):
            ends[parents[i, place] + 1] += 1  # the parent -1 counts at 0
    ends[0] = 0
    for parent in range(n_parents):
        ends[parent + 1] += ends[parent]
    order = np.empty(ends[n_parents], np.int64)
    for i in range(len(parents)):
        for place in range(width):
            parent = parents[i, place]
            if parent != ABSENT:
                order[ends[parent]] = i * width + place
                ends[parent] += 1
    return order, ends[:n_parents]


@numba.njit(cache=True, nogil=True)
def _table_pays(starts, n_features, order, first, stop, width):  # type: ignore[no-untyped-def]
    """Return whether a lookup table finds the features of these documents sooner than a binary search."""
    n_lookups, last = 0, -1
    for n in range(first, stop):
        i = order[n] // width
        if i != last:
            n_lookups += starts[i + 1] - starts[i]
            last = i
    return n_lookups * (np.log2(n_features + 1) + 1) > _STEPS_PER_ENTRY * n_features


@numba.njit(cache=True, nogil=True)
def _fill_table(table, features, first, stop, factor):  # type: ignore[no-untyped-def]
    """Write the place, from 1, of each feature from first to stop, or 0 to clear them: `factor` is 1 or 0."""
    for position in range(first, stop):
        table[unsigned(features[position])] = factor * (position - first + 1)


@numba.njit(cache=True, nogil=True)
def _dot_siblings(  # type: ignore[no-untyped-def]
    entry, last, columns, values, table, in_table, features, first, stop, weight_ends, base, places, weights,
    dots, start, max_siblings,
):  # fmt: skip
    """Multiply a document with all children of a parent, into `max_siblings` dot products from `start` on."""
    for place in range(start, start + max_siblings):
        dots[place] = 0
    for at in range(unsigned(entry), unsigned(last)):
        column, value = columns[at], values[at]
        found = table[unsigned(column)] if in_table else _find(features, first, stop, column)
        if found > 0:
            begin = base + weight_ends[unsigned(first + found - 2)] if found > 1 else base
            end = base + weight_ends[unsigned(first + found - 1)]
            for position in range(unsigned(begin), unsigned(end)):
                dots[unsigned(start + places[position])] += value * weights[position]


@numba.njit(cache=True, nogil=True)
def _dot_one(  # type: ignore[no-untyped-def]
    entry, last, columns, values, table, in_table, features, first, stop, weight_ends, base, places, weights, sibling
):
    """Multiply a document with one child of a parent, in the same order."""
    dot = np.float32(0)
    for at in range(unsigned(entry), unsigned(last)):
        column = columns[at]
        found = table[unsigned(column)] if in_table else _find(features, first, stop, column)
        if found > 0:
            begin = base + weight_ends[unsigned(first + found - 2)] if found > 1 else base
            end = base + weight_ends[unsigned(first + found - 1)]
            for position in range(unsigned(begin), unsigned(end)):
                if places[position] >= sibling:
                    if places[position] == sibling:
                        dot += values[at] * weights[position]
                    break
    return dot


@numba.njit(cache=True, nogil=True)
def _find(features, first, stop, feature):  # type: ignore[no-untyped-def]
    """Return the place of a feature among sorted ones from first to stop, from 1; 0 where it is not among them."""
    at, n_left = first, stop - first
    while n_left > 1:
        half = n_left >> 1
        at = at + half if features[at + half] <= feature else at
        n_left -= half
    return at - first + 1 if n_left and features[at] == feature else 0
