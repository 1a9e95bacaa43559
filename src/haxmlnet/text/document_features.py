"""TF-IDF of a prepared corpus, block by block, kept beside it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.cached_arrays import cache_matrix
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.progress import Progress
from haxmlnet.text.tfidf import inverse_document_frequency, tfidf, word_counts

BLOCK_WORDS = 4_000_000


def corpus_idf(corpus: PreparedCorpus, n_words: int) -> NDArray[np.float32]:
    """Weigh the words of a vocabulary by the number of documents of the corpus they are in."""
    return inverse_document_frequency(corpus.frequencies[:n_words], len(corpus))


def document_features(corpus: PreparedCorpus, n_words: int, progress: Progress) -> sp.csr_array:
    """Give the TF-IDF (documents x words) of all documents, memory-mapped where the corpus is."""
    identity = {"what": "tfidf", "n_words": n_words}
    return cache_matrix(
        corpus.directory, identity, n_words, lambda: _feature_blocks(corpus, n_words, progress), progress
    )


def _feature_blocks(corpus: PreparedCorpus, n_words: int, progress: Progress) -> Iterator[sp.csr_array]:
    idf = corpus_idf(corpus, n_words)
    with progress.stage("tf-idf", len(corpus), "documents") as advance:
        for rows in _document_blocks(corpus):
            counts = word_counts(corpus.tokens.take(rows), n_words)
            yield tfidf(counts, idf)
            advance(len(rows))


def _document_blocks(corpus: PreparedCorpus) -> Iterator[NDArray[np.int64]]:
    """Cut the documents into ranges of about `BLOCK_WORDS` words."""
    ends = corpus.tokens.ends
    start = 0
    while start < len(corpus):
        stop = int(np.searchsorted(ends, corpus.tokens.starts[start] + BLOCK_WORDS, side="right"))
        stop = min(max(stop, start + 1), len(corpus))
        yield np.arange(start, stop)
        start = stop
