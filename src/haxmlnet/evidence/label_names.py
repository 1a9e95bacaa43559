"""`LabelNames`: labels whose names a document mentions.

A label that training has seen once or twice is known by its name, if it has one: a product, a subject, a category.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.errors import ModelError
from haxmlnet.evidence import name_kernels as kernels
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.protocol import Documents, Features, Frame, LabelIds, Reasons, Run
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree

# A name is mentioned where a document has words of at least this part of its weight.
MIN_SHARE = 0.6
# A label is found by these rarest words of its name.
INDEXED_WORDS = 2
# Labels looked at for one document: its rarest words come first.
MAX_VISITED = 4096
_ARRAYS = ("values", "columns", "bounds", "totals")


@dataclass(frozen=True)
class LabelNames:
    """The words of the labels' names, weighted by how rare they are, and the labels of each word."""

    words: sp.csr_array  # (labels, words)
    totals: NDArray[np.float32]
    """The weight of all words of a name, those that no document has included."""
    labels_of: sp.csr_array  # (words, labels)
    """For each word the labels among whose rarest words it is."""
    n_proposals: int

    name: ClassVar[str] = "label_names"
    of_tree: ClassVar[bool] = False
    feature_names: ClassVar[tuple[str, ...]] = ("share of the name", "weight mentioned", "weight not mentioned")

    @classmethod
    def train(cls, fold: Fold, tree: LabelTree, run: Run) -> Self | None:
        """Look the names up in the vocabulary; None where they say nothing."""
        names = fold.label_index.names
        if fold.tokenizer is None or not have_letters(names):
            return None
        words = fold.tokenizer.encode([str(name) for name in names])
        return cls.from_words(words, fold.idf, run.config.search.n_names)

    @classmethod
    def from_words(cls, words: TokenArray, idf: NDArray[np.float32], n_proposals: int) -> Self:
        """Weigh the word ids of each name by idf; a word that training lacks weighs most."""
        packed = words.pack()
        owners, ids = np.repeat(np.arange(len(words)), packed.lengths), packed.ids
        known = ids > UNKNOWN_ID
        weights = np.where(known, idf[ids], idf.max(initial=0)).astype(np.float32)
        matrix = sp.csr_array((weights[known], (owners[known], ids[known])), shape=(len(words), len(idf)))
        matrix.sum_duplicates()
        totals = np.bincount(owners, weights, len(words)).astype(np.float32)
        return cls(matrix, totals, index_rarest_words(matrix), n_proposals)

    def pays_to_retrain(self, fold: Fold) -> bool:
        """Return False: names do not depend on the documents."""
        return False

    def examine(self, documents: Documents) -> NameFindings:
        """Find the labels that the documents mention."""
        return NameFindings(self, documents.features)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the words of the names; the index follows from them."""
        return dict(zip(_ARRAYS, (self.words.data, self.words.indices, self.words.indptr, self.totals), strict=True))

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], frame: Frame) -> Self:
        """Restore the names of as many labels and words as the model has."""
        n_labels = frame.tree.n_labels
        try:
            values, columns, bounds, totals = (arrays[name] for name in _ARRAYS)
            words = csr_view(values, columns, bounds, frame.n_features)
            words.check_format(full_check=True)
        except (KeyError, ValueError) as error:
            raise ModelError(f"{frame.source}: does not hold the names of {n_labels} labels ({error}).") from None
        if words.shape[0] != n_labels or totals.shape != (n_labels,):
            raise ModelError(f"{frame.source}: expected names of {n_labels} labels, got {words.shape[0]}.")
        return cls(words, totals, index_rarest_words(words), frame.config.search.n_names)


@dataclass(frozen=True)
class NameFindings:
    """The labels that some documents mention."""

    names: LabelNames
    texts: sp.csr_array
    """TF-IDF of the documents."""

    @cached_property
    def proposals(self) -> LabelIds:
        """The labels whose names a document mentions, the heaviest first."""
        names = self.names
        ids = np.full((self.texts.shape[0], names.n_proposals), ABSENT, np.int32)
        kernels.write_mentioned(
            *self._word_ids(), names.labels_of.indptr, names.labels_of.indices,
            names.words.indptr, names.words.indices, names.words.data, names.totals,
            np.float32(MIN_SHARE), MAX_VISITED, ids,
        )  # fmt: skip
        return ids

    def features(self, candidates: LabelIds) -> Features:
        """Return how much of each candidate's name a document has: share, weight, and weight of the rest."""
        features = np.zeros((*candidates.shape, len(LabelNames.feature_names)), np.float32)
        words = self.names.words
        kernels.write_features(
            *self._word_ids(), words.indptr, words.indices, words.data, self.names.totals, candidates, features
        )
        return features

    def reasons(self, row: int, label: int) -> Reasons:
        """Return the words of the name that the document has, with their weights."""
        words = self.names.words
        own = slice(words.indptr[label], words.indptr[label + 1])
        present = self.texts.indices[self.texts.indptr[row] : self.texts.indptr[row + 1]]
        weights = zip(words.indices[own].tolist(), words.data[own].tolist(), strict=True)
        return Reasons(words={word: weight for word, weight in weights if word in present})

    def _word_ids(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        # One dtype, so that the kernels compile once; the last is a scratch table of the vocabulary.
        texts = self.texts
        return texts.indptr.astype(np.int64), texts.indices, np.full(texts.shape[1], -1, np.int32)


def have_letters(names: NDArray[np.object_]) -> bool:
    """Return whether names may be of use: most of them hold a letter, so they are not mere numbers."""
    return sum(any(character.isalpha() for character in name) for name in names) > len(names) / 2


def index_rarest_words(words: sp.csr_array) -> sp.csr_array:
    """Return for each word the labels among whose rarest words, those of the greatest weight, it is."""
    n_labels = words.shape[0]
    owners = np.repeat(np.arange(n_labels), np.diff(words.indptr))
    order = np.lexsort((words.indices, -words.data, owners))
    place = np.arange(len(order)) - words.indptr[owners[order]]
    kept = order[place < INDEXED_WORDS]
    ones = np.ones(len(kept), np.float32)
    index = sp.csr_array((ones, (words.indices[kept], owners[kept])), shape=(words.shape[1], n_labels))
    index.sort_indices()
    return index
