"""TF-IDF of a prepared corpus, computed block by block and cached beside it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.cached_arrays import cache_matrix
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.progress import Progress
from haxmlnet.text.blocks import iterate_ranges
from haxmlnet.text.tfidf import inverse_document_frequency, tfidf, word_counts

BLOCK_WORDS = 4_000_000


def corpus_idf(corpus: PreparedCorpus, n_words: int) -> NDArray[np.float32]:
    """Compute the inverse document frequencies, in the corpus, of the words of a vocabulary."""
    return inverse_document_frequency(corpus.frequencies[:n_words], len(corpus))


def document_features(corpus: PreparedCorpus, n_words: int, progress: Progress) -> sp.csr_array:
    """Compute the TF-IDF (documents x words) of all documents, memory-mapped where the corpus is."""

    def iterate_features() -> Iterator[sp.csr_array]:
        idf = corpus_idf(corpus, n_words)
        bounds = np.append(0, corpus.tokens.ends)
        with progress.stage("tf-idf", len(corpus), "documents") as advance:
            for start, stop in iterate_ranges(bounds, BLOCK_WORDS):
                counts = word_counts(corpus.tokens.take(np.arange(start, stop)), n_words)
                yield tfidf(counts, idf)
                advance(stop - start)

    identity = {"what": "tfidf", "n_words": n_words}
    return cache_matrix(corpus.directory, identity, n_words, iterate_features, progress)
