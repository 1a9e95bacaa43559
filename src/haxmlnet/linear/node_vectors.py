"""`NodeVectors`: a sparse vector for each node of a level, and its dot products with blocks of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.linear import margin_kernels
from haxmlnet.linear.document_blocks import Block
from haxmlnet.linear.siblings import SiblingWeights, group_siblings
from haxmlnet.ranking import ABSENT


class CachedDots(NamedTuple):
    """Dot products of documents with all children of some nodes, as `NodeVectors.dot_children` gives them."""

    parents: NDArray[np.int32]  # (B, K)
    dots: NDArray[np.float32]  # (B, K, max_siblings)


@dataclass(frozen=True)
class NodeVectors:
    """Sparse vectors of the nodes of a level, those of siblings stored together."""

    siblings: SiblingWeights
    parent_of: NDArray[np.int32]  # (nodes,)
    n_features: int

    @classmethod
    def from_matrix(cls, matrix: sp.csr_array, parent_of: NDArray[np.int32] | None) -> NodeVectors:
        """Make them from a matrix (nodes, features) and the parent of each node; None: all are siblings."""
        if parent_of is None:
            parent_of = np.zeros(matrix.shape[0], np.int32)
        return cls(group_siblings(matrix, parent_of), parent_of, matrix.shape[1])

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], n_nodes: int, n_features: int, parent_of: NDArray[np.int32] | None
    ) -> NodeVectors:
        """Make them from the named arrays of `to_arrays`, which are checked; without parents all are siblings."""
        if parent_of is None:
            parent_of = np.zeros(n_nodes, np.int32)
        return cls(SiblingWeights.from_arrays(arrays, parent_of, n_features), parent_of, n_features)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, for saving: to load them takes less time than to group the siblings again."""
        return self.siblings.to_arrays()

    def to_matrix(self) -> sp.csr_array:
        """Return the vectors as a matrix (nodes, features)."""
        siblings = self.siblings
        child_starts = np.repeat(siblings.node_starts[:-1], np.diff(siblings.weight_starts))
        nodes = siblings.nodes[child_starts + siblings.places]
        ends = siblings.weight_ends + np.repeat(siblings.weight_starts[:-1], np.diff(siblings.feature_starts))
        features = np.repeat(siblings.features, np.diff(ends, prepend=0))
        return sp.csr_array((siblings.values, (nodes, features)), shape=(len(self.parent_of), self.n_features))

    def vector(self, node: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the vector of one node: its features, ascending, and their values."""
        siblings, parent = self.siblings, self.parent_of[node]
        first, stop = siblings.feature_starts[parent : parent + 2]
        start, end = siblings.weight_starts[parent : parent + 2]
        own = np.flatnonzero(siblings.places[start:end] == self._place_of[node])
        features = siblings.features[first + np.searchsorted(siblings.weight_ends[first:stop], own, side="right")]
        return features, siblings.values[start + own]

    @cached_property
    def max_siblings(self) -> int:
        """The largest number of children of one parent."""
        return int(np.diff(self.siblings.node_starts).max())

    @cached_property
    def _place_of(self) -> NDArray[np.int32]:
        """The place of each node among its siblings."""
        starts = self.siblings.node_starts
        places = np.empty(len(self.parent_of), np.int32)
        places[self.siblings.nodes] = np.arange(len(places)) - np.repeat(starts[:-1], np.diff(starts))
        return places

    def dot(self, block: Block, nodes: NDArray[np.int32], cached: CachedDots | None = None) -> NDArray[np.float32]:
        """Multiply each document with its nodes (B, W), except where it is cached; 0 where a node is absent."""
        parents = np.where(nodes == ABSENT, np.int32(ABSENT), self.parent_of[nodes])
        dots = np.zeros(nodes.shape, np.float32)
        if cached is not None:
            margin_kernels.take_cached(cached.parents, cached.dots, self._place_of, nodes, parents, dots)
        margin_kernels.dot_nodes(block, self.siblings, self.max_siblings, self._place_of, nodes, parents, dots)
        return dots

    def dot_children(self, block: Block, parents: NDArray[np.int32]) -> NDArray[np.float32]:
        """Multiply each document with all children of its parents (B, K): (B, K, max_siblings)."""
        dots = np.empty((*parents.shape, self.max_siblings), np.float32)
        margin_kernels.dot_children(block, self.siblings, parents, dots)
        return dots
