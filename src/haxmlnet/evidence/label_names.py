"""`LabelNames`: labels whose names a document mentions.

A label that training has seen once or twice is known by its name, if it has one: a product, a subject, a category.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.errors import ModelError
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.protocol import Documents, Features, Frame, LabelIds, Reasons, Run
from haxmlnet.ranking import ABSENT, best_positions
from haxmlnet.tree import LabelTree

# A name is mentioned where a document has words of at least this part of its weight.
LEAST_SHARE = 0.6
# A label is found by these rarest words of its name.
INDEXED_WORDS = 2
# Labels looked at for one document: its rarest words come first.
MOST_VISITED = 4096
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
        return cls.from_words(words, fold.idf, run.config.search.n_candidates // 2)

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
        """Names do not depend on the documents."""
        return False

    def examine(self, documents: Documents) -> NameFindings:
        """Find the labels that the documents mention."""
        return NameFindings(self, documents.features)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give the words of the names; the index follows from them."""
        return dict(zip(_ARRAYS, (self.words.data, self.words.indices, self.words.indptr, self.totals), strict=True))

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], frame: Frame) -> Self:
        """Take back the names of as many labels and words as the model has."""
        n_labels = frame.tree.n_labels
        try:
            values, columns, bounds, totals = (arrays[name] for name in _ARRAYS)
            words = csr_view(values, columns, bounds, frame.n_features)
            words.check_format(full_check=True)
        except (KeyError, ValueError) as error:
            raise ModelError(f"{frame.source}: does not hold the names of {n_labels} labels ({error}).") from None
        if words.shape[0] != n_labels or totals.shape != (n_labels,):
            raise ModelError(f"{frame.source}: expected names of {n_labels} labels, got {words.shape[0]}.")
        return cls(words, totals, index_rarest_words(words), frame.config.search.n_candidates // 2)


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
        _write_mentioned(
            *self._word_ids(), names.labels_of.indptr, names.labels_of.indices,
            names.words.indptr, names.words.indices, names.words.data, names.totals,
            np.float32(LEAST_SHARE), MOST_VISITED, ids,
        )  # fmt: skip
        return ids

    def features(self, candidates: LabelIds) -> Features:
        """Say how much of each candidate's name a document has: share, weight, and weight of the rest."""
        features = np.zeros((*candidates.shape, len(LabelNames.feature_names)), np.float32)
        words = self.names.words
        _write_features(
            *self._word_ids(), words.indptr, words.indices, words.data, self.names.totals, candidates, features
        )
        return features

    def reasons(self, row: int, label: int) -> Reasons:
        """Give the words of the name that the document has, with their weights."""
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
    """Say whether names may be of use: most of them hold a letter, so they are not mere numbers."""
    return sum(any(character.isalpha() for character in name) for name in names) > len(names) / 2


def index_rarest_words(words: sp.csr_array) -> sp.csr_array:
    """Give for each word the labels among whose rarest words, those of the greatest weight, it is."""
    n_labels = words.shape[0]
    owners = np.repeat(np.arange(n_labels), np.diff(words.indptr))
    order = np.lexsort((words.indices, -words.data, owners))
    place = np.arange(len(order)) - words.indptr[owners[order]]
    kept = order[place < INDEXED_WORDS]
    ones = np.ones(len(kept), np.float32)
    index = sp.csr_array((ones, (words.indices[kept], owners[kept])), shape=(words.shape[1], n_labels))
    index.sort_indices()
    return index


@numba.njit(cache=True, nogil=True)
def _weight_found(bounds, words, weights, last_document, document, label):  # type: ignore[no-untyped-def]
    found = np.float32(0)
    for position in range(np.uint64(bounds[label]), np.uint64(bounds[label + 1])):
        if last_document[np.uint64(words[position])] == document:
            found += weights[position]
    return found


@numba.njit(cache=True, nogil=True)
def _write_features(  # type: ignore[no-untyped-def]
    starts, columns, last_document, bounds, words, weights, totals, labels, features
):
    for i in range(len(labels)):
        for position in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
            last_document[np.uint64(columns[position])] = i
        for place in range(labels.shape[1]):
            label = labels[i, place]
            if label == ABSENT:
                continue
            found = _weight_found(bounds, words, weights, last_document, i, label)
            features[i, place, 0] = found / max(totals[label], np.float32(1e-6))
            features[i, place, 1] = found
            features[i, place, 2] = totals[label] - found


@numba.njit(cache=True, nogil=True)
def _write_mentioned(  # type: ignore[no-untyped-def]
    starts, columns, last_document, index_bounds, index_labels, bounds, words, weights, totals, least_share,
    most_visited, ids,
):  # fmt: skip
    seen = np.full(len(totals), -1, np.int32)
    found_labels, weights_found = np.empty(most_visited, np.int32), np.empty(most_visited, np.float32)
    keys, best = np.empty(most_visited, np.int64), np.empty(ids.shape[1], np.int64)
    for i in range(len(ids)):
        document = columns[starts[i] : starts[i + 1]]
        n_visited, n_found = 0, 0
        for word in _rarest_first(document, index_bounds, last_document, i):
            n_visited += index_bounds[word + 1] - index_bounds[word]
            if n_visited > most_visited:
                break
            for position in range(np.uint64(index_bounds[word]), np.uint64(index_bounds[word + 1])):
                label = np.uint64(index_labels[position])
                if seen[label] == i:
                    continue
                seen[label] = i
                found = _weight_found(bounds, words, weights, last_document, i, label)
                if found >= least_share * totals[label]:
                    found_labels[n_found], weights_found[n_found] = label, found * found / totals[label]
                    n_found += 1
        for place in range(best_positions(found_labels[:n_found], weights_found[:n_found], keys, best)):
            ids[i, place] = found_labels[best[place]]


@numba.njit(cache=True, nogil=True)
def _rarest_first(document, index_bounds, last_document, i):  # type: ignore[no-untyped-def]
    """Order the words of a document that are in names by the number of their labels, and mark all its words."""
    words, n_labels, n = np.empty(len(document), np.int32), np.empty(len(document), np.int64), 0
    for word in document:
        last_document[word] = i
        n_own = index_bounds[word + 1] - index_bounds[word]
        if n_own == 0:
            continue
        place = n
        while place > 0 and n_labels[place - 1] > n_own:
            words[place], n_labels[place] = words[place - 1], n_labels[place - 1]
            place -= 1
        words[place], n_labels[place] = word, n_own
        n += 1
    return words[:n]
