"""Random documents of the right sizes, to time training on."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.planning.model_shape import ModelShape

# Words of a document that speak for its labels, as a fraction of all, and the words that speak for a label.
TOPICAL_SHARE = 0.3
WORDS_OF_LABEL = 20


def draw_tokens(shape: ModelShape, n_documents: int, most_words: int) -> TokenArray:
    """Draw documents of the mean length, from at most so many word ids."""
    length = max(round(shape.sizes.mean_length(shape.config.text.max_length)), 1)
    n_words = min(shape.vocabulary, most_words)
    ids = np.random.default_rng(0).integers(UNKNOWN_ID, n_words, n_documents * length, np.int32)
    return TokenArray.from_lengths(ids, np.full(n_documents, length))


def draw_targets(n_labels: int, labels_per_document: float, n_documents: int) -> sp.csr_array:
    """Draw labels for documents."""
    rng = np.random.default_rng(2)
    sizes = np.floor(labels_per_document + rng.random(n_documents)).astype(np.int64)
    rows = np.repeat(np.arange(n_documents), np.maximum(sizes, 1))
    columns = rng.integers(0, n_labels, len(rows))
    targets: Any = sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(n_documents, n_labels))
    targets.sum_duplicates()
    targets.data[:] = 1
    return targets


def draw_tfidf(shape: ModelShape, targets: sp.csr_array) -> sp.csr_array:
    """Draw rows of TF-IDF some of whose words are those of their labels."""
    rng, n_documents = np.random.default_rng(3), targets.shape[0]
    n_each = max(round(shape.sizes.distinct_words(shape.vocabulary)), 1)
    rows = np.repeat(np.arange(n_documents), n_each)
    # Ranks drawn evenly by their logarithm follow Zipf's law.
    words = np.minimum(shape.vocabulary ** rng.random(len(rows)), shape.vocabulary - 1).astype(np.int64)
    first, last = targets.indptr[rows], targets.indptr[rows + 1]
    labels = targets.indices[first + (rng.random(len(rows)) * (last - first)).astype(np.int64)].astype(np.int64)
    topical = (labels * 7919 + rng.integers(0, WORDS_OF_LABEL, len(rows)) * 104_729) % shape.vocabulary
    columns = np.where(rng.random(len(rows)) < TOPICAL_SHARE, topical, words)
    values = np.full(len(rows), n_each**-0.5, np.float32)
    documents = sp.csr_array((values, (rows, columns)), shape=(n_documents, shape.vocabulary))
    documents.sum_duplicates()
    return documents
