"""Linear support vector machines by dual coordinate descent (Hsieh et al., ICML 2008), many in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

# The documents of a parent are copied, with features numbered from zero, if they have no more entries than this: the
# weights being trained then stay in the L1 cache. 0.1 GB in each thread.
MAX_COPIED = 2**23


@dataclass(frozen=True)
class SolverConfig:
    """How closely support vector machines are solved."""

    C: float = 1.0
    prune: float = 0.0
    """Smaller weights are dropped."""
    seed: int = 0
    tolerance: float = 0.1
    """Passes over the documents end when the slopes of the dual differ by at most this."""
    max_passes: int = 20


@numba.njit(cache=True, nogil=True)
def solve_nodes(  # type: ignore[no-untyped-def]
    nodes, parent_of, parent_starts, parent_rows, node_starts, node_rows, starts, columns, values, squares, n_columns,
    C, tolerance, max_passes, prune, seed, max_copied,
) -> Any:  # fmt: skip
    """Train the classifier of each node: its documents against the other documents of its parent.

    Siblings should follow each other: the documents of their parent are copied once. Gives the weights of at least
    `prune`, node after node, as (columns, values, weights of each node, biases).
    """
    weights, places = np.zeros(n_columns, np.float32), np.full(n_columns, -1, np.int32)
    kept_columns, kept_values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    n_kept = 0
    n_weights, biases = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.float32)
    copied_parent, order = -1, np.empty(0, np.int32)
    own_starts, own_columns, own_values, own_squares = starts, columns, values, squares
    features = np.empty(0, np.int32)
    for i in range(len(nodes)):
        node, parent = nodes[i], parent_of[nodes[i]]
        rows = parent_rows[parent_starts[parent] : parent_starts[parent + 1]]
        positive = node_rows[node_starts[node] : node_starts[node + 1]]
        if len(positive) == len(rows) or len(positive) == 0:
            biases[i] = 1 if len(positive) else -1
            continue
        if parent != copied_parent:
            copied_parent = parent
            order, own_starts, own_columns, own_values, own_squares, features = _copy_documents(
                rows, starts, columns, values, squares, places, max_copied
            )
        biases[i] = solve(
            order, _label_signs(rows, positive), own_starts, own_columns, own_values, own_squares, weights,
            np.zeros(len(rows), np.float32), np.float32(0), C, tolerance, max_passes, mix_seed(seed, node),
        )  # fmt: skip
        first = n_kept
        for place in range(len(features)):
            weight = weights[place]
            weights[place] = 0
            if abs(weight) < prune or weight == 0:
                continue
            if n_kept == len(kept_columns):
                kept_columns, kept_values = _double_length(kept_columns), _double_length(kept_values)
            kept_columns[n_kept], kept_values[n_kept] = features[place], weight
            n_kept += 1
        n_weights[i] = n_kept - first
    return kept_columns[:n_kept].copy(), kept_values[:n_kept].copy(), n_weights, biases


@numba.njit(cache=True, nogil=True)
def _copy_documents(rows, starts, columns, values, squares, places, max_copied):  # type: ignore[no-untyped-def]
    """Copy some rows, with their features numbered in order; if they are many, give all rows as they are.

    Gives the numbers of the rows in the copy, their entries as (starts, columns, values), their squared norms, and the
    features. `places` (features,) is -1 before and after.
    """
    n_entries = 0
    for row in rows:
        n_entries += starts[row + 1] - starts[row]
    if n_entries > max_copied:
        return rows, starts, columns, values, squares, np.arange(len(places)).astype(np.int32)

    # The distinct features, ascending, and the number of each.
    n_features = 0
    features = np.empty(min(n_entries, len(places)), np.int32)
    for row in rows:
        for column in columns[starts[row] : starts[row + 1]]:
            if places[column] < 0:
                places[column] = 0
                features[n_features] = column
                n_features += 1
    features = features[:n_features]
    features.sort()
    for place in range(n_features):
        places[features[place]] = place

    own_starts, own_squares = np.empty(len(rows) + 1, starts.dtype), np.empty(len(rows), squares.dtype)
    own_columns, own_values = np.empty(n_entries, columns.dtype), np.empty(n_entries, values.dtype)
    own_starts[0], filled = 0, 0
    for i in range(len(rows)):
        for entry in range(starts[rows[i]], starts[rows[i] + 1]):
            own_columns[filled], own_values[filled] = places[columns[entry]], values[entry]
            filled += 1
        own_starts[i + 1], own_squares[i] = filled, squares[rows[i]]
    for feature in features:
        places[feature] = -1
    return np.arange(len(rows)).astype(np.int32), own_starts, own_columns, own_values, own_squares, features


@numba.njit(cache=True, nogil=True)
def _label_signs(rows, positive):  # type: ignore[no-untyped-def]
    """Return 1 for the rows that are positive, else -1; both ascend."""
    signs = np.full(len(rows), -1, np.float32)
    j = 0
    for i in range(len(rows)):
        if j < len(positive) and positive[j] == rows[i]:
            signs[i] = 1
            j += 1
    return signs


@numba.njit(cache=True, nogil=True)
def _double_length(array):  # type: ignore[no-untyped-def]
    larger = np.empty(2 * len(array), array.dtype)
    larger[: len(array)] = array
    return larger


@numba.njit(cache=True, nogil=True, inline="always")
def _dot(weights, columns, values, entry, stop):  # type: ignore[no-untyped-def]
    """Multiply weights and a document in four sums side by side: none waits for another, and the order is fixed."""
    a = b = c = d = np.float32(0)
    while entry + 4 <= stop:
        a += weights[columns[entry]] * values[entry]
        b += weights[columns[entry + 1]] * values[entry + 1]
        c += weights[columns[entry + 2]] * values[entry + 2]
        d += weights[columns[entry + 3]] * values[entry + 3]
        entry += 4
    while entry < stop:
        a += weights[columns[entry]] * values[entry]
        entry += 1
    return (a + b) + (c + d)


@numba.njit(cache=True, nogil=True)
def mix_seed(seed, node):  # type: ignore[no-untyped-def]
    """Return the first state of the random numbers of a node; it is not zero."""
    return np.uint64(seed) * np.uint64(2654435761) + np.uint64(node) + np.uint64(1)


@numba.njit(cache=True, nogil=True)
def solve(  # type: ignore[no-untyped-def]
    rows, signs, starts, columns, values, squares, weights, duals, bias, C, tolerance, max_passes, state
):  # fmt: skip
    """Minimize |w|^2 / 2 + C sum max(0, 1 - sign (w x + b))^2 into `weights` and `duals`; return b.

    They start from zero, or from what an earlier call with fewer documents made of them.
    """
    n = len(rows)
    order = np.arange(n)
    n_active = n
    ridge, one, zero = np.float32(0.5 / C), np.float32(1), np.float32(0)
    bias, bound = np.float32(bias), np.float32(np.inf)
    for _ in range(max_passes):
        highest, lowest = np.float32(-np.inf), np.float32(np.inf)
        position = 0
        while position < n_active:
            # One step of a shuffle by xorshift: the order of a pass must not depend on other threads.
            state ^= state << np.uint64(13)
            state ^= state >> np.uint64(7)
            state ^= state << np.uint64(17)
            pick = position + np.int64(state % np.uint64(n_active - position))
            order[position], order[pick] = order[pick], order[position]
            i = order[position]
            row = rows[i]
            margin = bias + _dot(weights, columns, values, starts[row], starts[row + 1])
            slope = signs[i] * margin - one + duals[i] * ridge
            if duals[i] == 0 and slope > bound:
                # Shrinking: a document far on its side is skipped until the others have converged.
                n_active -= 1
                order[position], order[n_active] = order[n_active], order[position]
                continue
            projected = min(slope, zero) if duals[i] == 0 else slope
            highest, lowest = max(highest, projected), min(lowest, projected)
            if abs(projected) > 1e-12:
                before = duals[i]
                duals[i] = max(before - slope / (squares[row] + one + ridge), zero)
                change = (duals[i] - before) * signs[i]
                bias += change
                for entry in range(starts[row], starts[row + 1]):
                    weights[columns[entry]] += change * values[entry]
            position += 1
        if highest - lowest <= tolerance:
            if n_active == n:
                break
            n_active, bound = n, np.float32(np.inf)
        else:
            bound = highest if highest > 0 else np.float32(np.inf)
    return bias
