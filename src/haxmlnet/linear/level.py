"""`LinearLevel`: the linear classifiers of one level of a label tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.linear import solver
from haxmlnet.linear.siblings import group_siblings
from haxmlnet.linear.vectors import Block, KnownProducts, NodeVectors
from haxmlnet.ranking import ABSENT

# Documents visited by one call of the solver; small enough for threads to share the work evenly.
CALL_DOCUMENTS = 500_000
TOLERANCE = 0.1
MAX_PASSES = 20


@dataclass(frozen=True)
class LinearLevel:
    """One weight vector and one bias a node; margins above zero speak for the node."""

    vectors: NodeVectors
    biases: NDArray[np.float32]

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the level."""
        return len(self.biases)

    @property
    def weights(self) -> sp.csr_array:
        """The weights as a matrix (nodes, features), made anew each time."""
        return self.vectors.to_matrix()

    def margins(
        self, block: Block, nodes: NDArray[np.int32], known: KnownProducts | None = None
    ) -> NDArray[np.float32]:
        """Give w . x + b of the given nodes (B, W) of each document; 0 where a node is absent."""
        return self.vectors.products(block, nodes, known) + np.where(nodes == ABSENT, 0, self.biases[nodes])


def train_level(
    features: sp.csr_array,
    targets: sp.csr_array,
    parents: sp.csr_array | None,
    parent_of: NDArray[np.int32] | None,
    *,
    C: float,
    prune: float,
    seed: int,
    n_threads: int,
    tolerance: float = TOLERANCE,
    max_passes: int = MAX_PASSES,
    advance: Callable[[int], None] = lambda n: None,
) -> LinearLevel:
    """Train a classifier for each node (column of `targets`) on the documents of its parent; None: on all.

    Passes over the documents end when the slopes of the dual differ by at most `tolerance`.
    """
    n_nodes = targets.shape[1]
    if parents is None or parent_of is None:
        starts, rows = np.array([0, features.shape[0]]), np.arange(features.shape[0], dtype=np.int32)
        parent_of = np.zeros(n_nodes, np.int32)
    else:
        starts, rows = _documents_of_nodes(parents)
    node_starts, node_rows = _documents_of_nodes(targets)
    squares = np.asarray(features.power(2).sum(axis=1)).ravel().astype(np.float32)
    order = np.argsort(parent_of, kind="stable").astype(np.int32)  # siblings one after the other
    solve = partial(
        _solve_range, order, parent_of, starts, rows, node_starts, node_rows, features, squares,
        (C, tolerance, max_passes, prune, seed), advance,
    )  # fmt: skip
    visits = np.diff(starts)[parent_of[order]]
    with ThreadPoolExecutor(n_threads) as threads:
        columns, values, entries, ordered_biases = _joined(threads.map(solve, *zip(*_ranges(visits), strict=True)))
    bounds = np.zeros(n_nodes + 1, np.int64)
    np.cumsum(entries, out=bounds[1:])
    weights = csr_view(values, columns, bounds, features.shape[1])
    siblings = group_siblings(weights, parent_of[order])._replace(nodes=order)
    biases = np.empty(n_nodes, np.float32)
    biases[order] = ordered_biases
    return LinearLevel(NodeVectors(siblings, parent_of, features.shape[1]), biases)


def _solve_range(
    order: NDArray[np.int32], parent_of: NDArray[np.int32], starts: Any, rows: Any, node_starts: Any, node_rows: Any,
    features: sp.csr_array, squares: Any, solving: tuple[float, float, int, float, int],
    advance: Callable[[int], None], first: int, stop: int,
) -> tuple[Any, Any, Any, Any]:  # fmt: skip
    solved = solver.solve_nodes(
        order[first:stop], parent_of, starts, rows, node_starts, node_rows,
        features.indptr, features.indices, features.data, squares, features.shape[1],
        *solving, solver.MOST_COPIED,
    )  # fmt: skip
    advance(stop - first)
    return solved


def _joined(parts: Iterator[tuple[Any, ...]]) -> Iterator[NDArray[Any]]:
    """Put the arrays of all parts together, one kind after the other; nothing is there twice but the kind at hand."""
    kinds = [list(kind) for kind in zip(*parts, strict=True)]
    for kind in kinds:
        joined = np.concatenate(kind)
        kind.clear()
        yield joined


def _documents_of_nodes(targets: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    by_node = sp.csc_array(targets)
    by_node.sort_indices()
    return by_node.indptr.astype(np.int64), by_node.indices.astype(np.int32)


def _ranges(visits: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Cut the nodes into ranges that visit about `CALL_DOCUMENTS` documents each."""
    ends = np.cumsum(visits)
    first = 0
    while first < len(visits):
        before = ends[first - 1] if first else 0
        stop = max(int(np.searchsorted(ends, before + CALL_DOCUMENTS, side="right")), first + 1)
        yield first, stop
        first = stop
