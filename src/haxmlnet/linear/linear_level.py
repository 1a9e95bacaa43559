"""`LinearLevel`: the linear classifiers of one level of a label tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.linear import solver
from haxmlnet.linear.document_blocks import Block
from haxmlnet.linear.node_vectors import CachedDots, NodeVectors
from haxmlnet.linear.siblings import group_siblings
from haxmlnet.linear.solver import SolverConfig
from haxmlnet.ranking import ABSENT

# Documents that one call of the solver visits; small enough for threads to share the work evenly.
CALL_DOCUMENTS = 500_000


@dataclass(frozen=True)
class LinearLevel:
    """One weight vector and one bias for each node; a margin w . x + b above zero speaks for the node."""

    vectors: NodeVectors
    biases: NDArray[np.float32]

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the level."""
        return len(self.biases)

    def margins(self, block: Block, nodes: NDArray[np.int32], cached: CachedDots | None = None) -> NDArray[np.float32]:
        """Return the margins of the given nodes (B, W) of each document; 0 where a node is absent."""
        return self.vectors.dot(block, nodes, cached) + np.where(nodes == ABSENT, 0, self.biases[nodes])


class Parents(NamedTuple):
    """The parents of the nodes of a level, and the documents that their children learn from."""

    documents: sp.csr_array  # (documents, parents)
    of_nodes: NDArray[np.int32]  # (nodes,)


def train_level(
    features: sp.csr_array,
    targets: sp.csr_array,
    parents: Parents | None,
    config: SolverConfig,
    n_threads: int = 1,
    advance: Callable[[int], None] = lambda n: None,
) -> LinearLevel:
    """Train a classifier for each node (column of `targets`) on the documents of its parent; None: on all."""
    n_nodes = targets.shape[1]
    if parents is None:
        starts, rows = np.array([0, features.shape[0]]), np.arange(features.shape[0], dtype=np.int32)
        parent_of = np.zeros(n_nodes, np.int32)
    else:
        starts, rows = _rows_by_column(parents.documents)
        parent_of = parents.of_nodes
    node_starts, node_rows = _rows_by_column(targets)
    squares = np.asarray(features.power(2).sum(axis=1)).ravel().astype(np.float32)
    order = np.argsort(parent_of, kind="stable").astype(np.int32)  # siblings one after the other

    def solve(first: int, stop: int) -> tuple[Any, ...]:
        solved: tuple[Any, ...] = solver.solve_nodes(
            order[first:stop], parent_of, starts, rows, node_starts, node_rows,
            features.indptr, features.indices, features.data, squares, features.shape[1],
            config.C, config.tolerance, config.max_passes, config.prune, config.seed, solver.MAX_COPIED,
        )  # fmt: skip
        advance(stop - first)
        return solved

    visits = np.diff(starts)[parent_of[order]]
    with ThreadPoolExecutor(n_threads) as threads:
        parts = threads.map(solve, *zip(*_cut_ranges(visits), strict=True))
        columns, values, n_weights, ordered_biases = _concatenate_parts(parts)

    bounds = np.zeros(n_nodes + 1, np.int64)
    np.cumsum(n_weights, out=bounds[1:])
    weights = csr_view(values, columns, bounds, features.shape[1])
    siblings = group_siblings(weights, parent_of[order])._replace(nodes=order)
    biases = np.empty(n_nodes, np.float32)
    biases[order] = ordered_biases
    return LinearLevel(NodeVectors(siblings, parent_of, features.shape[1]), biases)


def _rows_by_column(matrix: sp.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the rows of each column: `rows[starts[column] : starts[column + 1]]`."""
    by_column = sp.csc_array(matrix)
    by_column.sort_indices()
    return by_column.indptr.astype(np.int64), by_column.indices.astype(np.int32)


def _cut_ranges(visits: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Cut the nodes into ranges that visit about `CALL_DOCUMENTS` documents each."""
    ends = np.cumsum(visits)
    first = 0
    while first < len(visits):
        before = ends[first - 1] if first else 0
        stop = max(int(np.searchsorted(ends, before + CALL_DOCUMENTS, side="right")), first + 1)
        yield first, stop
        first = stop


def _concatenate_parts(parts: Iterator[tuple[Any, ...]]) -> Iterator[NDArray[Any]]:
    """Concatenate the first arrays of all parts, then the second, ...; each is freed before the next is joined."""
    columns = [list(column) for column in zip(*parts, strict=True)]
    for column in columns:
        joined = np.concatenate(column)
        column.clear()
        yield joined
