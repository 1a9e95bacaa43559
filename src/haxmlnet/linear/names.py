"""`LabelNames`: labels whose names a document mentions.

A label that training has seen once or twice is known by its name, if it has one: a product, a subject, a category.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.data.labels import LabelIndex
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.errors import ModelError
from haxmlnet.linear.margin_kernels import unsigned
from haxmlnet.ranking import ABSENT, best_positions
from haxmlnet.text.tokenizer import WordTokenizer

N_SIGNALS = 3
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

    @classmethod
    def from_words(cls, words: TokenArray, idf: NDArray[np.float32]) -> LabelNames:
        """Make them of the word ids of each name; a word weighs its idf, one that training lacks the most."""
        packed = words.packed()
        owners, ids = np.repeat(np.arange(len(words)), packed.lengths), packed.ids
        known = ids > UNKNOWN_ID
        weights = np.where(known, idf[ids], idf.max(initial=0)).astype(np.float32)
        matrix = sp.csr_array((weights[known], (owners[known], ids[known])), shape=(len(words), len(idf)))
        matrix.sum_duplicates()
        totals = np.bincount(owners, weights, len(words)).astype(np.float32)
        return cls(matrix, totals, _index(matrix))

    def signals(
        self, features: sp.csr_array, rows: range, labels: NDArray[np.int32], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Say of some labels (B, W) what the documents have of their names: share, weight, and weight of the rest.

        With `out`, an array of zeros, they are written there.
        """
        signals = np.zeros((*labels.shape, N_SIGNALS), np.float32) if out is None else out
        _write_signals(
            *_documents(features, rows), self.words.indptr, self.words.indices, self.words.data, self.totals,
            labels, signals,
        )  # fmt: skip
        return signals

    def mentioned(self, features: sp.csr_array, rows: range, width: int) -> NDArray[np.int32]:
        """Give the labels (B, width) whose names the documents mention, the heaviest first; -1 is none."""
        ids = np.full((len(rows), width), ABSENT, np.int32)
        _write_mentioned(
            *_documents(features, rows), self.labels_of.indptr, self.labels_of.indices,
            self.words.indptr, self.words.indices, self.words.data, self.totals,
            np.float32(LEAST_SHARE), MOST_VISITED, ids,
        )  # fmt: skip
        return ids

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give all numbers by name, for saving."""
        return dict(zip(_ARRAYS, (self.words.data, self.words.indices, self.words.indptr, self.totals), strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_labels: int, n_words: int) -> LabelNames:
        """Make them from their named arrays, after checking them."""
        try:
            values, columns, bounds, totals = (arrays[name] for name in _ARRAYS)
            words = csr_view(values, columns, bounds, n_words)
            words.check_format(full_check=True)
        except (KeyError, ValueError) as error:
            raise ModelError(f"names: do not hold the words of {n_labels} labels ({error}).") from None
        if words.shape[0] != n_labels or totals.shape != (n_labels,):
            raise ModelError(f"names: expected those of {n_labels} labels, got {words.shape[0]}.")
        return cls(words, totals, _index(words))


def names_of(index: LabelIndex, tokenizer: WordTokenizer | None, idf: NDArray[np.float32]) -> LabelNames | None:
    """Find the words of the labels' names; None where names say nothing."""
    if tokenizer is None or not speaking(index.names):
        return None
    return LabelNames.from_words(tokenizer.encode([str(name) for name in index.names]), idf)


def speaking(names: NDArray[np.object_]) -> bool:
    """Say whether names may be of use: most of them hold a letter, so they are not mere numbers."""
    return sum(any(character.isalpha() for character in name) for name in names) > len(names) / 2


def _index(words: sp.csr_array) -> sp.csr_array:
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


def _documents(features: sp.csr_array, rows: range) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    starts = features.indptr[rows.start : rows.stop + 1].astype(np.int64)  # one type, so that kernels compile once
    return starts, features.indices, np.full(features.shape[1], -1, np.int32)


@numba.njit(cache=True, nogil=True)
def _weight_found(bounds, words, weights, last_document, document, label):  # type: ignore[no-untyped-def]
    found = np.float32(0)
    for position in range(unsigned(bounds[label]), unsigned(bounds[label + 1])):
        if last_document[unsigned(words[position])] == document:
            found += weights[position]
    return found


@numba.njit(cache=True, nogil=True)
def _write_signals(  # type: ignore[no-untyped-def]
    starts, columns, last_document, bounds, words, weights, totals, labels, signals
):
    for i in range(len(labels)):
        for position in range(unsigned(starts[i]), unsigned(starts[i + 1])):
            last_document[unsigned(columns[position])] = i
        for place in range(labels.shape[1]):
            label = labels[i, place]
            if label == ABSENT:
                continue
            found = _weight_found(bounds, words, weights, last_document, i, label)
            signals[i, place, 0] = found / max(totals[label], np.float32(1e-6))
            signals[i, place, 1] = found
            signals[i, place, 2] = totals[label] - found


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
            for position in range(unsigned(index_bounds[word]), unsigned(index_bounds[word + 1])):
                label = unsigned(index_labels[position])
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
