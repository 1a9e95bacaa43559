"""`SiblingWeights`: the weights of the nodes of a level, laid out so that siblings are scored together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view, release_pages

# Features of families whose weights are checked at once: 64 MB.
CHECKED_AT_ONCE = 2**22
# Nodes laid out at once. Siblings may be far from each other in a file, and a system maps pages around each of them.
GROUPED_AT_ONCE = 2**12


class SiblingWeights(NamedTuple):
    """Weights by parent, then by feature, then by child: a feature of a document is looked up once for all siblings.

    The children of parent p are `nodes[node_starts[p] : node_starts[p + 1]]`, the features that any of them has a
    weight for `features[feature_starts[p] : feature_starts[p + 1]]`, in order. Positions in `weight_ends`, `places`
    and `values` count from `weight_starts[p]`.
    """

    node_starts: NDArray[np.int64]  # (parents + 1,)
    nodes: NDArray[np.int32]  # (nodes,)
    feature_starts: NDArray[np.int64]  # (parents + 1,)
    features: NDArray[np.int32]
    weight_starts: NDArray[np.int64]  # (parents + 1,)
    weight_ends: NDArray[np.int32]
    """Where the weights of each feature end; those of the first begin at 0."""
    places: NDArray[np.uint16] | NDArray[np.int32]
    """Whose weight it is: the place of the child among its siblings."""
    values: NDArray[np.float32]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give all but the families themselves by name, for saving."""
        return {name: value for name, value in self._asdict().items() if name not in ("node_starts", "nodes")}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], parent_of: NDArray[np.int32], n_features: int
    ) -> SiblingWeights:
        """Make them of their named arrays, after checking that no kernel will read beyond the end of one."""
        siblings = cls(*_families(parent_of), **{name: arrays[name] for name in cls._fields[2:]})
        _check_bounds(siblings.feature_starts, len(siblings.node_starts), len(siblings.features))
        _check_bounds(siblings.weight_starts, len(siblings.node_starts), len(siblings.values))
        _check_entries(siblings, n_features)
        return siblings


def _check_bounds(starts: NDArray[np.int64], n_starts: int, n_entries: int) -> None:
    if len(starts) != n_starts or starts[0] != 0 or starts[-1] != n_entries or np.any(np.diff(starts) < 0):
        raise ValueError(f"the bounds of {n_starts - 1} families do not fit")


def _check_entries(siblings: SiblingWeights, n_features: int) -> None:
    features, places = siblings.features, siblings.places
    if len(features) != len(siblings.weight_ends) or len(places) != len(siblings.values):
        raise ValueError("arrays of the same entries differ in length")
    if len(features) and not 0 <= features.min() <= features.max() < n_features:
        raise ValueError(f"a feature is not one of {n_features}")
    if len(places) and not 0 <= places.min() <= places.max() < np.diff(siblings.node_starts).max():
        raise ValueError("a weight is not of a member of its family")
    # In blocks of families: what is worked out here would take as much memory as the weights themselves.
    for first, stop in _blocks(siblings.feature_starts, CHECKED_AT_ONCE):
        _check_ends(siblings, first, stop)


def _blocks(starts: NDArray[np.int64], size: int) -> Iterator[tuple[int, int]]:
    """Cut families, whose members begin at `starts`, into blocks of about so many members."""
    cuts = np.searchsorted(starts, np.arange(0, max(int(starts[-1]), 1), size))
    return pairwise(np.unique([*cuts, len(starts) - 1]).tolist())


def _check_ends(siblings: SiblingWeights, first: int, stop: int) -> None:
    feature_starts, weight_starts = (x[first : stop + 1] for x in (siblings.feature_starts, siblings.weight_starts))
    n_of_family = np.diff(feature_starts)
    ends = siblings.weight_ends[feature_starts[0] : feature_starts[-1]] + np.repeat(weight_starts[:-1], n_of_family)
    last = feature_starts[1:][n_of_family > 0] - feature_starts[0] - 1
    reached = np.diff(weight_starts) > 0
    descends = np.any(np.diff(ends, prepend=weight_starts[0]) < 0)
    if descends or not np.array_equal(ends[last], weight_starts[1:][reached]):
        raise ValueError("the weights of some features do not fit")


def _families(parent_of: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Put the nodes of each parent together: where those of each begin, and the nodes."""
    return _bounds(np.bincount(parent_of, minlength=1)), np.argsort(parent_of, kind="stable").astype(np.int32)


def group_siblings(weights: sp.csr_array, parent_of: NDArray[np.int32]) -> SiblingWeights:
    """Lay out the weights (nodes, features) of a level whose nodes have the given parents.

    Of weights that are mapped from a file, only those of some families are in memory at a time.
    """
    node_starts, nodes = _families(parent_of)
    sizes = np.diff(node_starts)
    # Of one type, so that kernels compile once.
    starts, columns = weights.indptr.astype(np.int64), weights.indices.astype(np.int32, copy=False)
    n_features = weights.shape[1]
    n_different, n_weights = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
    last_parent = np.full(n_features, -1, np.int32)
    for first, stop in _blocks(node_starts, GROUPED_AT_ONCE):
        _count(node_starts, nodes, starts, columns, last_parent, n_different, n_weights, first, stop)
        release_pages(columns)
    feature_starts, weight_starts = _bounds(n_different), _bounds(n_weights)
    features, ends = np.empty(feature_starts[-1], np.int32), np.empty(feature_starts[-1], np.int32)
    places = np.empty(weight_starts[-1], np.uint16 if sizes.max() <= 2**16 else np.int32)
    grouped = SiblingWeights(
        node_starts, nodes, feature_starts, features, weight_starts, ends, places, np.empty(len(places), np.float32)
    )
    filled = np.zeros(n_features, np.int32)
    for first, stop in _blocks(node_starts, GROUPED_AT_ONCE):
        _fill(grouped, starts, columns, weights.data, filled, first, stop)
        release_pages(columns, weights.data)
    return grouped


def ungroup_siblings(grouped: SiblingWeights, n_features: int) -> sp.csr_array:
    """Give the weights as a matrix (nodes, features)."""
    sizes = np.zeros(len(grouped.nodes), np.int64)
    _count_of_nodes(grouped, sizes)
    bounds = _bounds(sizes)
    columns, values = np.empty(bounds[-1], np.int32), np.empty(bounds[-1], np.float32)
    _fill_rows(grouped, bounds[:-1].copy(), columns, values)
    return csr_view(values, columns, bounds, n_features)


def _bounds(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    bounds = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    return bounds


@numba.njit(cache=True, nogil=True)
def _count(  # type: ignore[no-untyped-def]
    node_starts, nodes, starts, columns, last_parent, n_different, n_weights, first_parent, stop_parent
):
    for parent in range(first_parent, stop_parent):
        for node in nodes[node_starts[parent] : node_starts[parent + 1]]:
            n_weights[parent] += starts[node + 1] - starts[node]
            for entry in range(starts[node], starts[node + 1]):
                if last_parent[columns[entry]] != parent:
                    last_parent[columns[entry]] = parent
                    n_different[parent] += 1


@numba.njit(cache=True, nogil=True)
def _fill(grouped, starts, columns, values, filled, first_parent, stop_parent):  # type: ignore[no-untyped-def]
    """Write features, places and values of some families; `filled`, one number a feature, is zero before and after."""
    for parent in range(first_parent, stop_parent):
        first, stop = grouped.feature_starts[parent], grouped.feature_starts[parent + 1]
        nodes = grouped.nodes[grouped.node_starts[parent] : grouped.node_starts[parent + 1]]
        n_found = first
        for node in nodes:
            for entry in range(starts[node], starts[node + 1]):
                if filled[columns[entry]] == 0:
                    grouped.features[n_found] = columns[entry]
                    n_found += 1
                filled[columns[entry]] += 1
        grouped.features[first:stop].sort()
        begin = 0
        for position in range(first, stop):
            feature = grouped.features[position]
            grouped.weight_ends[position] = begin + filled[feature]
            begin, filled[feature] = begin + filled[feature], begin
        base = grouped.weight_starts[parent]
        for place in range(len(nodes)):
            for entry in range(starts[nodes[place]], starts[nodes[place] + 1]):
                grouped.places[base + filled[columns[entry]]] = place
                grouped.values[base + filled[columns[entry]]] = values[entry]
                filled[columns[entry]] += 1
        for position in range(first, stop):
            filled[grouped.features[position]] = 0


@numba.njit(cache=True, nogil=True)
def _count_of_nodes(grouped, sizes):  # type: ignore[no-untyped-def]
    for parent in range(len(grouped.node_starts) - 1):
        for entry in range(grouped.weight_starts[parent], grouped.weight_starts[parent + 1]):
            sizes[grouped.nodes[grouped.node_starts[parent] + grouped.places[entry]]] += 1


@numba.njit(cache=True, nogil=True)
def _fill_rows(grouped, filled, columns, values):  # type: ignore[no-untyped-def]
    """Write the weights of each node in the order of its features; `filled` begin as the starts of the rows."""
    for parent in range(len(grouped.node_starts) - 1):
        begin = base = grouped.weight_starts[parent]
        for position in range(grouped.feature_starts[parent], grouped.feature_starts[parent + 1]):
            end = base + grouped.weight_ends[position]
            for entry in range(begin, end):
                node = grouped.nodes[grouped.node_starts[parent] + grouped.places[entry]]
                columns[filled[node]] = grouped.features[position]
                values[filled[node]] = grouped.values[entry]
                filled[node] += 1
            begin = end
