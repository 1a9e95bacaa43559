"""TF-IDF of word ids: the features of the label tree and of the linear methods."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray

_LARGEST_INT32 = 2**31 - 1


def word_counts(tokens: TokenArray, n_words: int) -> sp.csr_array:
    """Count the words of each document, (documents x words), without padding and unknown words."""
    ids, limit = np.asarray(tokens.ids), min(n_words, tokens.n_words)
    bounds, occurrences = np.zeros(len(tokens) + 1, np.int64), np.zeros(n_words, np.int32)
    _count_distinct(ids, tokens.starts, tokens.ends, limit, occurrences, bounds)
    if bounds[-1] <= _LARGEST_INT32:
        bounds = bounds.astype(np.int32)  # if the index dtypes differed, scipy would copy both
    words, counts = np.empty(bounds[-1], np.int32), np.empty(bounds[-1], np.float32)
    _fill_counts(ids, tokens.starts, tokens.ends, limit, occurrences, bounds, words, counts)
    matrix = sp.csr_array((counts, words, bounds), shape=(len(tokens), n_words))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def inverse_document_frequency(frequencies: NDArray[np.int64], n_documents: int) -> NDArray[np.float32]:
    """Compute idf = ln((1 + n) / (1 + df)) + 1, where df is the number of documents with the word."""
    return (np.log((1 + n_documents) / (1 + frequencies)) + 1).astype(np.float32)


def tfidf(counts: sp.csr_array, idf: NDArray[np.float32]) -> sp.csr_array:
    """Turn counts into (1 + ln tf) x idf, each document scaled to unit length."""
    values = np.empty(len(counts.data), np.float32)
    _weight(counts.data, counts.indices, idf, values)
    _scale_rows(values, counts.indptr)
    weighted = copy(counts)  # shallow: for a single document, a new matrix takes longer than all the rest
    weighted.data = values
    return weighted


def unit_rows(matrix: sp.csr_array) -> sp.csr_array:
    """Scale every row that is not empty to unit length."""
    values = matrix.data.astype(np.float32)
    _scale_rows(values, matrix.indptr)
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


@njit(cache=True, nogil=True)
def _count_distinct(ids: Any, starts: Any, ends: Any, limit: Any, occurrences: Any, bounds: Any) -> None:
    """Count the distinct words of each document; `occurrences` are zero before and after."""
    for document in range(len(starts)):
        n_distinct = 0
        for position in range(starts[document], ends[document]):
            word = ids[position]
            if UNKNOWN_ID < word < limit:
                n_distinct += occurrences[word] == 0
                occurrences[word] = 1
        for position in range(starts[document], ends[document]):
            if UNKNOWN_ID < ids[position] < limit:
                occurrences[ids[position]] = 0
        bounds[document + 1] = bounds[document] + n_distinct


@njit(cache=True, nogil=True)
def _fill_counts(
    ids: Any, starts: Any, ends: Any, limit: Any, occurrences: Any, bounds: Any, words: Any, counts: Any
) -> None:
    """Write the words of each document, in order, and how often they occur; `occurrences` are zero before and after."""
    for document in range(len(starts)):
        filled = bounds[document]
        for position in range(starts[document], ends[document]):
            word = ids[position]
            if UNKNOWN_ID < word < limit:
                if occurrences[word] == 0:
                    words[filled] = word
                    filled += 1
                occurrences[word] += 1
        words[bounds[document] : filled].sort()
        for entry in range(bounds[document], filled):
            counts[entry] = occurrences[words[entry]]
            occurrences[words[entry]] = 0


@njit(cache=True, nogil=True)
def _weight(counts: Any, words: Any, idf: Any, values: Any) -> None:
    for entry in range(len(counts)):
        values[entry] = (1 + np.log(counts[entry])) * idf[words[entry]]


@njit(cache=True, nogil=True)
def _scale_rows(values: Any, bounds: Any) -> None:
    for row in range(len(bounds) - 1):
        square = 0.0
        for entry in range(bounds[row], bounds[row + 1]):
            square += values[entry] ** 2
        scale = 1 / np.sqrt(square) if square > 0 else 0.0
        for entry in range(bounds[row], bounds[row + 1]):
            values[entry] *= scale
