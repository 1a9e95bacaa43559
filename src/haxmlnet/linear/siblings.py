"""`SiblingWeights`: the sparse weights of a level, laid out so that siblings are scored together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import release_pages

# Features whose weights are checked at once: 64 MB.
CHECKED_AT_ONCE = 2**22
# Nodes grouped at once: in a mapped file siblings may lie far apart, and whole pages are read around each of them.
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
    """Where the weights of each feature end; those of a parent's first feature begin at 0."""
    places: NDArray[np.uint16] | NDArray[np.int32]
    """The child that has the weight: its place among its siblings."""
    values: NDArray[np.float32]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays but those that follow from the tree by name, for saving."""
        return {name: value for name, value in self._asdict().items() if name not in ("node_starts", "nodes")}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], parent_of: NDArray[np.int32], n_features: int
    ) -> SiblingWeights:
        """Make them from their named arrays, after checking that no kernel will read beyond the end of one."""
        siblings = cls(*_group_by_parent(parent_of), **{name: arrays[name] for name in cls._fields[2:]})
        features, places = siblings.features, siblings.places
        _check_starts(siblings.feature_starts, len(siblings.node_starts), len(features))
        _check_starts(siblings.weight_starts, len(siblings.node_starts), len(siblings.values))
        if len(features) != len(siblings.weight_ends) or len(places) != len(siblings.values):
            raise ValueError("arrays of the same entries differ in length")
        if len(features) and not 0 <= features.min() <= features.max() < n_features:
            raise ValueError(f"a feature is not one of {n_features}")
        if len(places) and not 0 <= places.min() <= places.max() < np.diff(siblings.node_starts).max():
            raise ValueError("a weight belongs to no child of its parent")
        # Some parents at a time: the checks of all would take as much memory as the weights themselves.
        for first, stop in _cut_parents(siblings.feature_starts, CHECKED_AT_ONCE):
            _check_weight_ends(siblings, first, stop)
        return siblings


def _check_starts(starts: NDArray[np.int64], n_starts: int, n_entries: int) -> None:
    if len(starts) != n_starts or starts[0] != 0 or starts[-1] != n_entries or np.any(np.diff(starts) < 0):
        raise ValueError(f"the entries of {n_starts - 1} parents do not fit")


def _check_weight_ends(siblings: SiblingWeights, first: int, stop: int) -> None:
    """Check that the weights of the features of some parents follow each other without a gap."""
    feature_starts, weight_starts = (x[first : stop + 1] for x in (siblings.feature_starts, siblings.weight_starts))
    n_features = np.diff(feature_starts)
    ends = siblings.weight_ends[feature_starts[0] : feature_starts[-1]] + np.repeat(weight_starts[:-1], n_features)
    last = feature_starts[1:][n_features > 0] - feature_starts[0] - 1
    reached = np.diff(weight_starts) > 0
    descends = np.any(np.diff(ends, prepend=weight_starts[0]) < 0)
    if descends or not np.array_equal(ends[last], weight_starts[1:][reached]):
        raise ValueError("the weights of some features do not fit")


def _cut_parents(starts: NDArray[np.int64], size: int) -> Iterator[tuple[int, int]]:
    """Cut the parents, whose entries begin at `starts`, into ranges of about `size` entries."""
    cuts = np.searchsorted(starts, np.arange(0, max(int(starts[-1]), 1), size))
    return pairwise(np.unique([*cuts, len(starts) - 1]).tolist())


def _group_by_parent(parent_of: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Sort the nodes by parent: `nodes[starts[p] : starts[p + 1]]` are the children of parent p."""
    return _starts_of(np.bincount(parent_of, minlength=1)), np.argsort(parent_of, kind="stable").astype(np.int32)


def group_siblings(weights: sp.csr_array, parent_of: NDArray[np.int32]) -> SiblingWeights:
    """Lay out the weights (nodes, features) of a level whose nodes have the given parents.

    Of weights that are mapped from a file, only those of some parents are in memory at a time.
    """
    node_starts, nodes = _group_by_parent(parent_of)
    sizes = np.diff(node_starts)
    # One dtype, so that kernels compile once.
    starts, columns = weights.indptr.astype(np.int64), weights.indices.astype(np.int32, copy=False)
    n_features = weights.shape[1]
    n_distinct, n_weights = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
    last_parent = np.full(n_features, -1, np.int32)
    for first, stop in _cut_parents(node_starts, GROUPED_AT_ONCE):
        _count_entries(node_starts, nodes, starts, columns, last_parent, n_distinct, n_weights, first, stop)
        release_pages(columns)
    feature_starts, weight_starts = _starts_of(n_distinct), _starts_of(n_weights)
    features, ends = np.empty(feature_starts[-1], np.int32), np.empty(feature_starts[-1], np.int32)
    places = np.empty(weight_starts[-1], np.uint16 if sizes.max() <= 2**16 else np.int32)
    grouped = SiblingWeights(
        node_starts, nodes, feature_starts, features, weight_starts, ends, places, np.empty(len(places), np.float32)
    )
    filled = np.zeros(n_features, np.int32)
    for first, stop in _cut_parents(node_starts, GROUPED_AT_ONCE):
        _write_entries(grouped, starts, columns, weights.data, filled, first, stop)
        release_pages(columns, weights.data)
    return grouped


def _starts_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


@numba.njit(cache=True, nogil=True)
def _count_entries(  # type: ignore[no-untyped-def]
    node_starts, nodes, starts, columns, last_parent, n_distinct, n_weights, first_parent, stop_parent
):
    """Count the weights, and the distinct features they are for, of the children of some parents."""
    for parent in range(first_parent, stop_parent):
        for node in nodes[node_starts[parent] : node_starts[parent + 1]]:
            n_weights[parent] += starts[node + 1] - starts[node]
            for entry in range(starts[node], starts[node + 1]):
                if last_parent[columns[entry]] != parent:
                    last_parent[columns[entry]] = parent
                    n_distinct[parent] += 1


@numba.njit(cache=True, nogil=True)
def _write_entries(grouped, starts, columns, values, filled, first_parent, stop_parent):  # type: ignore[no-untyped-def]
    """Write the features, places and values of some parents; `filled` (features,) is zero before and after."""
    for parent in range(first_parent, stop_parent):
        first, stop = grouped.feature_starts[parent], grouped.feature_starts[parent + 1]
        nodes = grouped.nodes[grouped.node_starts[parent] : grouped.node_starts[parent + 1]]

        # The distinct features, ascending, and how many weights each has.
        n_found = first
        for node in nodes:
            for entry in range(starts[node], starts[node + 1]):
                if filled[columns[entry]] == 0:
                    grouped.features[n_found] = columns[entry]
                    n_found += 1
                filled[columns[entry]] += 1
        grouped.features[first:stop].sort()

        # Where the weights of each feature begin, into `filled`, and end.
        begin = 0
        for position in range(first, stop):
            feature = grouped.features[position]
            grouped.weight_ends[position] = begin + filled[feature]
            begin, filled[feature] = begin + filled[feature], begin

        # The weights themselves, each behind those of the siblings before it.
        base = grouped.weight_starts[parent]
        for place in range(len(nodes)):
            for entry in range(starts[nodes[place]], starts[nodes[place] + 1]):
                grouped.places[base + filled[columns[entry]]] = place
                grouped.values[base + filled[columns[entry]]] = values[entry]
                filled[columns[entry]] += 1
        for position in range(first, stop):
            filled[grouped.features[position]] = 0
