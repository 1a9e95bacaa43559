"""`NodeVectors`: a sparse vector for each node of a level, multiplied with blocks of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.linear import kernels
from haxmlnet.linear.siblings import SiblingWeights, group_siblings, ungroup_siblings
from haxmlnet.ranking import ABSENT


class Block(NamedTuple):
    """Documents as the kernels take them: document i has the columns `columns[starts[i] : starts[i + 1]]`."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    table: NDArray[np.int32]
    """Room for the kernels, a number each feature: zero before and after each call."""


def block_of(features: sp.csr_array, rows: range) -> Block:
    """Take some rows of a matrix of documents; the columns of each row must ascend."""
    starts = features.indptr[rows.start : rows.stop + 1].astype(np.int64)  # one type, so that kernels compile once
    return Block(starts, features.indices, features.data, np.zeros(features.shape[1], np.int32))


class KnownProducts(NamedTuple):
    """Products of documents with all children of some parents, as `products_of_children` gives them."""

    parents: NDArray[np.int32]  # (B, K)
    products: NDArray[np.float32]  # (B, K, widest)


@dataclass(frozen=True)
class NodeVectors:
    """Sparse vectors of the nodes of a level, those of siblings kept together."""

    siblings: SiblingWeights
    parent_of: NDArray[np.int32]
    n_features: int

    @classmethod
    def from_matrix(cls, matrix: sp.csr_array, parent_of: NDArray[np.int32] | None) -> NodeVectors:
        """Make them of a matrix (nodes, features), and the parent of each node; None: there is one for all."""
        if parent_of is None:
            parent_of = np.zeros(matrix.shape[0], np.int32)
        return cls(group_siblings(matrix, parent_of), parent_of, matrix.shape[1])

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], n_nodes: int, n_features: int, parent_of: NDArray[np.int32] | None
    ) -> NodeVectors:
        """Make them of the named arrays of `to_arrays`, or of a matrix, as older models have it; both are checked."""
        if parent_of is None:
            parent_of = np.zeros(n_nodes, np.int32)
        if "columns" not in arrays:
            return cls(SiblingWeights.from_arrays(arrays, parent_of, n_features), parent_of, n_features)
        matrix = csr_view(arrays["values"], arrays["columns"], arrays["bounds"], n_features)
        matrix.check_format(full_check=True)
        if matrix.shape[0] != n_nodes:
            raise ValueError(f"it has {matrix.shape[0]} rows")
        return cls.from_matrix(matrix, parent_of)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give them by name as they are laid out, for saving: a model is read faster than it could be laid out anew."""
        return self.siblings.to_arrays()

    def to_matrix(self) -> sp.csr_array:
        """Give them as a matrix (nodes, features) again."""
        return ungroup_siblings(self.siblings, self.n_features)

    @cached_property
    def widest(self) -> int:
        """The largest number of siblings."""
        return int(np.diff(self.siblings.node_starts).max())

    @cached_property
    def _place_of(self) -> NDArray[np.int32]:
        """The place of each node among its siblings."""
        starts = self.siblings.node_starts
        places = np.empty(len(self.parent_of), np.int32)
        places[self.siblings.nodes] = np.arange(len(places)) - np.repeat(starts[:-1], np.diff(starts))
        return places

    def products(
        self, block: Block, nodes: NDArray[np.int32], known: KnownProducts | None = None
    ) -> NDArray[np.float32]:
        """Multiply each document with its nodes (B, W), but for products that are known; 0 where a node is absent."""
        parents = np.where(nodes == ABSENT, np.int32(ABSENT), self.parent_of[nodes])
        products = np.zeros(nodes.shape, np.float32)
        if known is not None:
            kernels.take_known(known.parents, known.products, self._place_of, nodes, parents, products)
        kernels.multiply_nodes(block, self.siblings, self.widest, self._place_of, nodes, parents, products)
        return products

    def products_of_children(self, block: Block, parents: NDArray[np.int32]) -> NDArray[np.float32]:
        """Multiply each document with all children of its parents (B, K), as (B, K, widest)."""
        products = np.empty((*parents.shape, self.widest), np.float32)
        kernels.multiply_children(block, self.siblings, parents, products)
        return products
