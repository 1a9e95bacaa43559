"""`Neighbours`: training documents that are like a new one, and the labels they have.

A label of one or two documents has little to learn a classifier from, but a new document may be like one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.errors import ModelError
from haxmlnet.linear import neighbour_kernels as kernels

# The heaviest features of a document decide what it is like; more cost time and memory and change little.
FEATURES = 64
# Postings read for one document: its heaviest features, which are the rarest, come first.
MOST_READ = 10_000
# How many of the nearest documents vote, and how much more the nearer ones count: similarity to this power.
VOTES = ((5, 2), (20, 3), (64, 4))
N_NEAREST = max(n for n, _ in VOTES)
N_SIGNALS = len(VOTES) + 1
_ARRAYS = ("values", "columns", "bounds", "labels", "label_bounds")


@dataclass(frozen=True)
class Near:
    """The nearest training documents of some documents, nearest first; -1 is none."""

    ids: NDArray[np.int32]  # (B, N_NEAREST)
    similarities: NDArray[np.float32]  # (B, N_NEAREST)

    def of(self, rows: range) -> Near:
        """Keep those of some documents."""
        return Near(self.ids[rows.start : rows.stop], self.similarities[rows.start : rows.stop])

    @classmethod
    def joined(cls, parts: Sequence[Near]) -> Near:
        """Put those of several blocks of documents one after the other."""
        ids = np.concatenate([part.ids for part in parts])
        return cls(ids, np.concatenate([part.similarities for part in parts]))


@dataclass(frozen=True)
class Neighbours:
    """The heaviest features of the training documents, and their labels."""

    postings: sp.csr_array  # (features, documents)
    """For each feature the documents among whose heaviest it is, with its weight there."""
    targets: sp.csr_array  # (documents, labels)

    @classmethod
    def of(cls, features: sp.csr_array, targets: sp.csr_array) -> Neighbours:
        """Keep the heaviest features of documents whose labels are known; rows of `features` have length one."""
        lengths = np.minimum(np.diff(features.indptr), FEATURES)
        bounds = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=bounds[1:])
        columns, values = np.empty(bounds[-1], np.int32), np.empty(bounds[-1], np.float32)
        kernels.keep_heaviest(
            features.indptr.astype(np.int64), features.indices, features.data, bounds, columns, values
        )
        postings = csr_view(values, columns, bounds, features.shape[1]).T.tocsr()
        return cls(postings, sp.csr_array(targets))

    @cached_property
    def _posting_bounds(self) -> NDArray[np.int64]:
        return self.postings.indptr.astype(np.int64)

    @cached_property
    def _owners(self) -> NDArray[np.uint32]:
        return self.postings.indices.astype(np.int32, copy=False).view(np.uint32)

    @cached_property
    def _label_bounds(self) -> NDArray[np.int64]:
        return self.targets.indptr.astype(np.int64)

    @cached_property
    def _tables(self) -> threading.local:
        """Tables as long as the documents or labels, made once a thread: one document must not wait for them."""
        return threading.local()

    def _table(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        table: NDArray[Any] | None = getattr(self._tables, name, None)
        if table is None:
            table = make()
            setattr(self._tables, name, table)
        return table

    @property
    def _votes(self) -> NDArray[np.float32]:
        return self._table("votes", lambda: np.zeros((self.targets.shape[1], N_SIGNALS), np.float32))

    def __getstate__(self) -> dict[str, Any]:
        # Copies and other processes make the tables of their threads themselves.
        return {"postings": self.postings, "targets": self.targets}

    def near(self, features: sp.csr_array, rows: range) -> Near:
        """Find the training documents most like some documents."""
        shape = len(rows), N_NEAREST
        near = Near(np.full(shape, -1, np.int32), np.zeros(shape, np.float32))
        postings, n_documents = self.postings, self.targets.shape[0]
        kernels.find_nearest(
            features.indptr[rows.start : rows.stop + 1].astype(np.int64), features.indices, features.data,
            self._posting_bounds, self._owners, postings.data, FEATURES, MOST_READ,
            self._table("sums", lambda: np.zeros(n_documents, np.float32)), near.ids, near.similarities,
        )  # fmt: skip
        return near

    def proposed(self, near: Near, width: int) -> NDArray[np.int32]:
        """Give the labels (B, width) that most of the nearest documents have, best first; -1 is none."""
        ids = np.full((len(near.ids), width), -1, np.int32)
        n, power = VOTES[1]
        kernels.write_proposed(
            near.ids, near.similarities, n, power, self._label_bounds, self.targets.indices, self._votes, ids
        )
        return ids

    def signals(
        self, near: Near, labels: NDArray[np.int32], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Say of some labels (B, W) how the nearest documents vote, and how near the nearest is that has them."""
        signals = np.empty((*labels.shape, N_SIGNALS), np.float32) if out is None else out
        kernels.write_signals(
            near.ids, near.similarities, np.array(VOTES), self._label_bounds, self.targets.indices, self._votes,
            labels, signals,
        )  # fmt: skip
        return signals

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give all numbers by name, for saving."""
        postings, targets = self.postings, self.targets
        arrays = (postings.data, postings.indices, postings.indptr, targets.indices, targets.indptr)
        return dict(zip(_ARRAYS, arrays, strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_labels: int, n_features: int) -> Neighbours:
        """Make them from their named arrays, after checking them."""
        try:
            values, columns, bounds, labels, label_bounds = (arrays[name] for name in _ARRAYS)
            targets = csr_view(np.ones(len(labels), np.float32), labels, label_bounds, n_labels)
            postings = csr_view(values, columns, bounds, targets.shape[0])
            for matrix in (postings, targets):
                matrix.check_format(full_check=True)
        except (KeyError, ValueError) as error:
            raise ModelError(f"neighbours: do not hold documents and their labels ({error}).") from None
        if postings.shape[0] != n_features:
            raise ModelError(f"neighbours: expected documents of {n_features} features, got {postings.shape[0]}.")
        return cls(postings, targets)
