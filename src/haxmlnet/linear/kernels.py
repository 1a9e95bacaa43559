"""The loops that score nodes for documents, compiled by numba; they hold no lock, so that threads run side by side.

Documents are multiplied with one family of siblings after the other, so that the weights of a family stay in a cache.
Sums run over the features of a document in order: they do not depend on the other documents.
"""

from __future__ import annotations

import numba
import numpy as np

from haxmlnet.ranking import ABSENT, best_positions

# Writing and clearing a feature's entry in the table takes as long as so many steps of a search.
_STEPS_PER_ENTRY = 2
# Where an array is read at a number with a sign, numba first looks whether it counts from the end: a quarter of the
# time of a product.
unsigned = np.uint64


@numba.njit(cache=True, nogil=True)
def multiply_children(block, siblings, parents, products):  # type: ignore[no-untyped-def]
    """Multiply documents with all children of their parents (B, K), into (B, K, widest family)."""
    order, ends = _by_parent(parents, len(siblings.node_starts) - 1)
    # Each time an array is taken out of a tuple or cut, it is counted as used, which takes longer than a product: so
    # inner loops get arrays as they are, and numbers.
    starts, columns, values, table = block.starts, block.columns, block.values, block.table
    features, weight_ends = siblings.features, siblings.weight_ends
    places, weights = siblings.places, siblings.values
    flat, (width, widest), begin = products.reshape(-1), products.shape[1:], 0
    for parent in range(len(ends)):
        if begin == ends[parent]:
            continue
        pair, begin = begin, ends[parent]
        first, stop, base = _family(siblings, parent)
        in_table = _pays_a_table(starts, stop - first, order, pair, begin, width)
        if in_table:
            _write_table(table, features, first, stop, 1)
        for n in range(pair, begin):
            i = order[n] // width
            _multiply(
                starts[i], starts[i + 1], columns, values, table, in_table, features, first, stop, weight_ends, base,
                places, weights, flat, order[n] * widest, widest,
            )  # fmt: skip
        if in_table:
            _write_table(table, features, first, stop, 0)


@numba.njit(cache=True, nogil=True)
def multiply_nodes(block, siblings, widest, place_of, nodes, parents, products):  # type: ignore[no-untyped-def]
    """Multiply documents with some nodes (B, W) of known parents (B, W); products of absent ones stay as they are."""
    order, ends = _by_parent(parents, len(siblings.node_starts) - 1)
    starts, columns, values, table = block.starts, block.columns, block.values, block.table
    features, weight_ends = siblings.features, siblings.weight_ends
    places, weights = siblings.places, siblings.values
    family, width, begin = np.empty(widest, np.float32), parents.shape[1], 0
    for parent in range(len(ends)):
        if begin == ends[parent]:
            continue
        pair, begin, last = begin, ends[parent], -1
        first, stop, base = _family(siblings, parent)
        in_table = _pays_a_table(starts, stop - first, order, pair, begin, width)
        if in_table:
            _write_table(table, features, first, stop, 1)
        for n in range(pair, begin):
            i, place = order[n] // width, order[n] % width
            sibling = place_of[nodes[i, place]]
            if i != last and (n + 1 == begin or order[n + 1] // width != i):
                products[i, place] = _multiply_one(
                    starts[i], starts[i + 1], columns, values, table, in_table, features, first, stop, weight_ends,
                    base, places, weights, sibling,
                )  # fmt: skip
                continue
            if i != last:
                _multiply(
                    starts[i], starts[i + 1], columns, values, table, in_table, features, first, stop, weight_ends,
                    base, places, weights, family, 0, widest,
                )  # fmt: skip
                last = i
            products[i, place] = family[sibling]
        if in_table:
            _write_table(table, features, first, stop, 0)


@numba.njit(cache=True, nogil=True)
def _family(siblings, parent):  # type: ignore[no-untyped-def]
    """Say where the features of a family begin and end, and where its weights begin."""
    return siblings.feature_starts[parent], siblings.feature_starts[parent + 1], siblings.weight_starts[parent]


@numba.njit(cache=True, nogil=True)
def take_known(known_parents, known, place_of, nodes, parents, products):  # type: ignore[no-untyped-def]
    """Write the products of nodes (B, W) whose parents are among the known ones (B, K), and make these parents absent.

    `known` are the products with the children of the known parents, (B, K, widest family).
    """
    for i in range(len(nodes)):
        for place in range(nodes.shape[1]):
            if parents[i, place] == ABSENT:
                continue
            for origin in range(known_parents.shape[1]):
                if known_parents[i, origin] == parents[i, place]:
                    products[i, place] = known[i, origin, place_of[nodes[i, place]]]
                    parents[i, place] = ABSENT
                    break


@numba.njit(cache=True, nogil=True)
def _by_parent(parents, n_parents):  # type: ignore[no-untyped-def]
    """Order the pairs of a document and a parent by parent, then by document, and say where those of a parent end.

    Absent ones are left out.
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
def _pays_a_table(starts, n_features, order, first, stop, width):  # type: ignore[no-untyped-def]
    """Say whether the features of these documents are found sooner in a table than by halving the family's."""
    n_lookups, last = 0, -1
    for n in range(first, stop):
        i = order[n] // width
        if i != last:
            n_lookups += starts[i + 1] - starts[i]
            last = i
    return n_lookups * (np.log2(n_features + 1) + 1) > _STEPS_PER_ENTRY * n_features


@numba.njit(cache=True, nogil=True)
def _write_table(table, features, first, stop, factor):  # type: ignore[no-untyped-def]
    """Write the place of each feature of a family, from 1, or 0 to clear them."""
    for position in range(first, stop):
        table[unsigned(features[position])] = factor * (position - first + 1)


@numba.njit(cache=True, nogil=True)
def _multiply(  # type: ignore[no-untyped-def]
    entry, last, columns, values, table, in_table, features, first, stop, weight_ends, base, places, weights,
    products, start, widest,
):  # fmt: skip
    """Multiply a document with the weights of the children of a parent, into `widest` products from `start` on."""
    for place in range(start, start + widest):
        products[place] = 0
    for at in range(unsigned(entry), unsigned(last)):
        column, value = columns[at], values[at]
        found = table[unsigned(column)] if in_table else _find(features, first, stop, column)
        if found > 0:
            begin = base + weight_ends[unsigned(first + found - 2)] if found > 1 else base
            end = base + weight_ends[unsigned(first + found - 1)]
            for position in range(unsigned(begin), unsigned(end)):
                products[unsigned(start + places[position])] += value * weights[position]


@numba.njit(cache=True, nogil=True)
def _multiply_one(  # type: ignore[no-untyped-def]
    entry, last, columns, values, table, in_table, features, first, stop, weight_ends, base, places, weights, sibling
):
    """Multiply a document with the weights of one child of a parent, in the same order."""
    product = np.float32(0)
    for at in range(unsigned(entry), unsigned(last)):
        column = columns[at]
        found = table[unsigned(column)] if in_table else _find(features, first, stop, column)
        if found > 0:
            begin = base + weight_ends[unsigned(first + found - 2)] if found > 1 else base
            end = base + weight_ends[unsigned(first + found - 1)]
            for position in range(unsigned(begin), unsigned(end)):
                if places[position] >= sibling:
                    if places[position] == sibling:
                        product += values[at] * weights[position]
                    break
    return product


@numba.njit(cache=True, nogil=True)
def _find(features, first, stop, feature):  # type: ignore[no-untyped-def]
    """Give the place of a feature among sorted ones from first to stop, from 1; 0 where it is not among them."""
    at, n_left = first, stop - first
    while n_left > 1:
        half = n_left >> 1
        at = at + half if features[at + half] <= feature else at
        n_left -= half
    return at - first + 1 if n_left and features[at] == feature else 0


@numba.njit(cache=True, nogil=True)
def keep_best(  # type: ignore[no-untyped-def]
    siblings, biases, depth, above, above_scores, above_margins, products, furthest, n_children, n_wanted,
    ids, scores, margins
):  # fmt: skip
    """Keep the best children (B, W) of the nodes above (B, K), with the logarithms of their scores.

    Each takes the margins of its path with it, (B, W, levels), of which that at `depth` is its own. One that is more
    than `furthest` behind the best is left out if those before it have `n_wanted` children themselves.
    """
    one, zero, node_starts, all_nodes = np.float32(1), np.float32(0), siblings.node_starts, siblings.nodes
    most = min(above.shape[1] * products.shape[2], len(all_nodes))
    nodes, origins = np.empty(most, np.int32), np.empty(most, np.int32)
    node_scores, node_margins = np.empty(most, np.float32), np.empty(most, np.float32)
    keys, best = np.empty(most, np.int64), np.empty(ids.shape[1], np.int64)
    for i in range(len(above)):
        n = 0
        for origin in range(above.shape[1]):
            parent = above[i, origin]
            if parent == ABSENT:
                continue
            first = node_starts[parent]
            for place in range(node_starts[parent + 1] - first):
                node = all_nodes[first + place]
                margin = products[i, origin, place] + biases[node]
                hinge = max(one - margin, zero)
                nodes[n], origins[n], node_margins[n] = node, origin, margin
                node_scores[n] = above_scores[i, origin] - hinge * hinge
                n += 1
        n_below = 0
        for place in range(best_positions(nodes[:n], node_scores[:n], keys, best)):
            chosen = best[place]
            if n_below >= n_wanted and node_scores[chosen] < node_scores[best[0]] - furthest:
                break
            n_below += n_children[nodes[chosen]]
            ids[i, place], scores[i, place] = nodes[chosen], node_scores[chosen]
            for level in range(depth):
                margins[i, place, level] = above_margins[i, origins[chosen], level]
            margins[i, place, depth] = node_margins[chosen]


@numba.njit(cache=True, nogil=True)
def write_signals(margins, likeness, widest_margin, signals):  # type: ignore[no-untyped-def]
    """Write the margins within bounds, the logarithm of the score they give, and the likeness."""
    n_levels, one, zero, bound = margins.shape[2], np.float32(1), np.float32(0), np.float32(widest_margin)
    for i in range(len(margins)):
        for place in range(margins.shape[1]):
            score = zero
            for level in range(n_levels):
                margin = min(max(margins[i, place, level], -bound), bound)
                hinge = max(one - margin, zero)
                score -= hinge * hinge
                signals[i, place, level] = margin
            signals[i, place, n_levels] = score
            signals[i, place, n_levels + 1] = likeness[i, place]
