"""`NearestDocuments`: the training documents most like a new one (its nearest neighbors), and the labels they have.

A label of one or two documents has little to learn a classifier from, but a new document may be like one of them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.errors import ModelError
from haxmlnet.evidence import nearest_kernels as kernels
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.protocol import Documents, Features, Frame, LabelIds, Reasons, Run
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree

# The heaviest features of a document decide what it is like; more cost time and memory and change little.
HEAVIEST = 64
# Postings read for one document: its heaviest features, which are the rarest, come first.
MAX_POSTINGS_READ = 10_000
# How many of the nearest documents vote, and how much more the nearer ones count: similarity to this power.
VOTES = ((5, 2), (20, 3), (64, 4))
# Labels are proposed by this vote.
PROPOSING = VOTES[1]
N_NEAREST = max(n for n, _ in VOTES)
_ARRAYS = ("values", "columns", "bounds", "labels", "label_bounds")


class Nearest:
    """The nearest training documents of B documents, nearest first; ABSENT is none."""

    def __init__(self, n_documents: int) -> None:
        self.ids = np.full((n_documents, N_NEAREST), ABSENT, np.int32)
        self.similarities = np.zeros((n_documents, N_NEAREST), np.float32)


@dataclass(frozen=True)
class NearestDocuments:
    """An inverted index of the heaviest features of the training documents, and the labels of these."""

    postings: sp.csr_array  # (features, documents)
    """For each feature the documents among whose heaviest it is, with its weight there."""
    targets: sp.csr_array  # (documents, labels)
    n_proposals: int

    name: ClassVar[str] = "nearest_documents"
    of_tree: ClassVar[bool] = False
    feature_names: ClassVar[tuple[str, ...]] = (*(f"vote of {n}" for n, _ in VOTES), "nearest with the label")

    @classmethod
    def train(cls, fold: Fold, tree: LabelTree, run: Run) -> Self:
        """Index the documents of the fold."""
        return cls.index(fold.kept_features(), fold.kept_targets, run.config.search.n_neighbors)

    @classmethod
    def index(cls, features: sp.csr_array, targets: sp.csr_array, n_proposals: int) -> Self:
        """Index documents (rows of length one) by their heaviest features."""
        bounds = np.zeros(features.shape[0] + 1, np.int64)
        np.cumsum(np.minimum(np.diff(features.indptr), HEAVIEST), out=bounds[1:])
        columns, values = np.empty(bounds[-1], np.int32), np.empty(bounds[-1], np.float32)
        kernels.keep_heaviest(
            features.indptr.astype(np.int64), features.indices, features.data, bounds, columns, values
        )
        postings = csr_view(values, columns, bounds, features.shape[1]).T.tocsr()
        return cls(postings, sp.csr_array(targets), n_proposals)

    def pays_to_retrain(self, fold: Fold) -> bool:
        """Return True: documents held out can be neighbors, too."""
        return True

    def examine(self, documents: Documents) -> NeighborFindings:
        """Find the nearest neighbors of the documents."""
        return NeighborFindings(self, self.find(documents.features))

    def find(self, features: sp.csr_array) -> Nearest:
        """Find the training documents with the largest cosine."""
        nearest, tables = Nearest(features.shape[0]), self._tables
        if not hasattr(tables, "sums"):
            tables.sums = np.zeros(self.targets.shape[0], np.float32)
        kernels.find_nearest(
            features.indptr.astype(np.int64), features.indices, features.data,
            self.posting_bounds, self.owners, self.postings.data, HEAVIEST, MAX_POSTINGS_READ,
            tables.sums, nearest.ids, nearest.similarities,
        )  # fmt: skip
        return nearest

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the index and the labels."""
        postings, targets = self.postings, self.targets
        arrays = (postings.data, postings.indices, postings.indptr, targets.indices, targets.indptr)
        return dict(zip(_ARRAYS, arrays, strict=True))

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], frame: Frame) -> Self:
        """Restore the index of documents of as many features and labels as the model has."""
        try:
            values, columns, bounds, labels, label_bounds = (arrays[name] for name in _ARRAYS)
            targets = csr_view(np.ones(len(labels), np.float32), labels, label_bounds, frame.tree.n_labels)
            postings = csr_view(values, columns, bounds, targets.shape[0])
            for matrix in (postings, targets):
                matrix.check_format(full_check=True)
        except (KeyError, ValueError) as error:
            raise ModelError(f"{frame.source}: does not hold documents and their labels ({error}).") from None
        if postings.shape[0] != frame.n_features:
            raise ModelError(f"{frame.source}: expected {frame.n_features} features, got {postings.shape[0]}.")
        return cls(postings, targets, frame.config.search.n_neighbors)

    @property
    def votes(self) -> NDArray[np.float32]:
        """A scratch table (labels, votes) of this thread, all zeros."""
        tables = self._tables
        if not hasattr(tables, "votes"):
            tables.votes = np.zeros((self.targets.shape[1], len(self.feature_names)), np.float32)
        return tables.votes

    @cached_property
    def _tables(self) -> threading.local:
        """Tables as long as the documents or labels, made once a thread: one document must not wait for them."""
        return threading.local()

    @cached_property
    def posting_bounds(self) -> NDArray[np.int64]:
        """Where the postings of each feature begin and end."""
        return self.postings.indptr.astype(np.int64)

    @cached_property
    def owners(self) -> NDArray[np.uint32]:
        """The document of each posting."""
        return self.postings.indices.astype(np.int32, copy=False).view(np.uint32)

    @cached_property
    def label_bounds(self) -> NDArray[np.int64]:
        """Where the labels of each document begin and end."""
        return self.targets.indptr.astype(np.int64)

    def __getstate__(self) -> dict[str, Any]:
        # Copies and other processes make the tables of their threads themselves.
        return {"postings": self.postings, "targets": self.targets, "n_proposals": self.n_proposals}


@dataclass(frozen=True)
class NeighborFindings:
    """The nearest neighbors of some documents."""

    index: NearestDocuments
    nearest: Nearest

    @cached_property
    def proposals(self) -> LabelIds:
        """The labels that get most votes of the nearest documents."""
        index = self.index
        ids = np.full((len(self.nearest.ids), index.n_proposals), ABSENT, np.int32)
        kernels.write_proposals(
            self.nearest.ids, self.nearest.similarities, *PROPOSING, index.label_bounds, index.targets.indices,
            index.votes, ids,
        )  # fmt: skip
        return ids

    def features(self, candidates: LabelIds) -> Features:
        """Return the log share of each vote, and the similarity of the nearest document that has the label."""
        index = self.index
        features = np.empty((*candidates.shape, len(index.feature_names)), np.float32)
        kernels.write_features(
            self.nearest.ids, self.nearest.similarities, np.array(VOTES), index.label_bounds, index.targets.indices,
            index.votes, candidates, features,
        )  # fmt: skip
        return features

    def reasons(self, row: int, label: int) -> Reasons:
        """Return the nearest documents that have the label."""
        nearest, targets = self.nearest, self.index.targets
        pairs = zip(nearest.ids[row].tolist(), nearest.similarities[row].tolist(), strict=True)
        return Reasons(
            documents=[
                (document, similarity)
                for document, similarity in pairs
                if document != ABSENT
                and label in targets.indices[targets.indptr[document] : targets.indptr[document + 1]]
            ]
        )
