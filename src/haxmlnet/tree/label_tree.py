"""`LabelTree`: the hierarchy of the labels as arrays, one per level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.errors import ModelError

Children = tuple[NDArray[np.int64], NDArray[np.int32]]


@dataclass(frozen=True, eq=False)
class LabelTree:
    """A list of parent arrays, coarsest level first; the nodes of the last level are the labels.

    `parents[l][node]` is the parent, at level l, of a node of level l + 1. Without parent arrays the tree is
    flat: one level, the labels.
    """

    parents: tuple[NDArray[np.int32], ...]
    n_labels: int

    @property
    def n_levels(self) -> int:
        """Number of levels, including that of the labels."""
        return len(self.parents) + 1

    @cached_property
    def level_sizes(self) -> list[int]:
        """Number of nodes of each level; the last one is that of the labels."""
        if not self.parents:
            return [self.n_labels]
        first = int(self.parents[0].max(initial=-1)) + 1
        return [first, *(len(parents) for parents in self.parents)]

    def children(self, level: int) -> Children:
        """Return `indptr, ids`: the children, on level + 1, of a node are `ids[indptr[node] : indptr[node + 1]]`."""
        return self._children[level]

    @cached_property
    def _children(self) -> list[Children]:
        levels = []
        for parents, size in zip(self.parents, self.level_sizes, strict=False):
            indptr = np.zeros(size + 1, dtype=np.int64)
            np.cumsum(np.bincount(parents, minlength=size), out=indptr[1:])
            levels.append((indptr, np.argsort(parents, kind="stable").astype(np.int32)))
        return levels

    def lift(self, Y: sp.csr_array | sp.csr_matrix) -> list[sp.csr_array]:
        """Turn 0/1 targets Y (documents x labels) into those of every level, coarsest first, `Y` itself last.

        A node is a target if one of its children is: a document's true groups are the groups of its true labels.
        Indices are sorted and unique.
        """
        assert Y.shape[1] == self.n_labels
        Y = sp.csr_array(Y)
        if not (Y.has_canonical_format and Y.data.all()):
            Y = Y.copy()
            Y.eliminate_zeros()
            Y.sum_duplicates()
            Y.data[:] = 1
        levels = [Y]
        for parents, size in zip(reversed(self.parents), reversed(self.level_sizes[:-1]), strict=True):
            below = levels[-1]
            targets = sp.csr_array(
                (np.ones_like(below.data), parents[below.indices], below.indptr.copy()),
                shape=(below.shape[0], size),
            )
            targets.sum_duplicates()
            targets.data[:] = 1
            levels.append(targets)
        return levels[::-1]

    def check(self) -> None:
        """Raise a ModelError unless every node has a parent and children, and group sizes differ by at most one."""
        if self.parents and len(self.parents[-1]) != self.n_labels:
            raise _broken(f"{len(self.parents[-1])} labels have a group, but there are {self.n_labels} labels")
        for level, (parents, size) in enumerate(zip(self.parents, self.level_sizes, strict=False)):
            if len(parents) and not 0 <= parents.min() <= parents.max() < size:
                raise _broken(f"a node of level {level + 1} has a parent outside 0 to {size - 1}")
            counts = np.bincount(parents, minlength=size)
            if size == 0 or counts.min() == 0:
                raise _broken(f"level {level} has a node without children")
            if level == self.n_levels - 2 and np.ptp(counts) > 1:
                raise _broken(f"groups have {counts.min()} to {counts.max()} labels")

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Return the tree as named arrays, for saving."""
        tensors: dict[str, NDArray[Any]] = {"n_labels": np.array([self.n_labels], dtype=np.int64)}
        return tensors | {f"parents_{level}": parents for level, parents in enumerate(self.parents)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> LabelTree:
        """Rebuild the tree from its named arrays, and check it."""
        names = [f"parents_{level}" for level in range(len(tensors) - 1)]
        if set(tensors) != {"n_labels", *names}:
            raise _broken(f"its arrays are {sorted(tensors)}, not 'n_labels' and 'parents_0', 'parents_1', ...")
        if any(tensor.ndim != 1 or tensor.dtype.kind not in "iu" for tensor in tensors.values()):
            raise _broken("its arrays are not all lists of whole numbers")
        if len(tensors["n_labels"]) != 1:
            raise _broken(f"'n_labels' holds {len(tensors['n_labels'])} numbers instead of one")
        parents = tuple(np.ascontiguousarray(tensors[name], dtype=np.int32) for name in names)
        tree = cls(parents, int(tensors["n_labels"][0]))
        tree.check()
        return tree

    def to_nested(self, names: Sequence[str]) -> dict[str, Any]:
        """Nest the tree for JSON: a group is `{"labels": [names]}`, a node above `{"children": [nodes]}`."""
        assert len(names) == self.n_labels
        below: list[Any] = list(names)
        key = "labels"
        for indptr, ids in reversed(self._children):
            ordered = [below[node] for node in ids.tolist()]
            ends = indptr.tolist()
            below = [{key: ordered[start:stop]} for start, stop in pairwise(ends)]
            key = "children"
        return {key: below}


def _broken(what: str) -> ModelError:
    return ModelError(f"The label tree is damaged: {what}. Copy the model again, or train it again.")
