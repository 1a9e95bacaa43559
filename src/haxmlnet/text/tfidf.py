"""TF-IDF of word ids: the features of the label tree and of the linear methods."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray


def word_counts(tokens: TokenArray, n_words: int) -> sp.csr_array:
    """Count the words of each document, (documents x words); padding and unknown words do not count."""
    # The copies matter: summing duplicates sorts and shortens a matrix's own arrays in place.
    counts = sp.csr_array(
        (np.ones(len(tokens.ids), np.float32), tokens.ids.copy(), tokens.starts.copy()),
        shape=(len(tokens), n_words),
    )
    counts.data[counts.indices <= UNKNOWN_ID] = 0
    counts.sum_duplicates()
    counts.eliminate_zeros()
    return counts


def inverse_document_frequency(counts: sp.csr_array) -> NDArray[np.float32]:
    """Weigh words by ln((1 + n) / (1 + documents with the word)) + 1."""
    frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
    return (np.log((1 + counts.shape[0]) / (1 + frequencies)) + 1).astype(np.float32)


def tfidf(counts: sp.csr_array, idf: NDArray[np.float32]) -> sp.csr_array:
    """Turn counts into (1 + ln count) x idf, each document of length one."""
    values = (1 + np.log(counts.data)) * idf[counts.indices]
    weighted = sp.csr_array((values.astype(np.float32), counts.indices, counts.indptr), shape=counts.shape)
    return unit_rows(weighted)


def unit_rows(matrix: sp.csr_array) -> sp.csr_array:
    """Scale every row that is not empty to length one."""
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1))).ravel()
    scale = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    values = matrix.data * np.repeat(scale, np.diff(matrix.indptr))
    return sp.csr_array((values.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)
