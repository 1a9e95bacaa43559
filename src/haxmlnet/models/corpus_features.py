"""Label features and word vectors of a prepared corpus, kept beside it for the next training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view, write_array
from haxmlnet.data.cached_arrays import cache_arrays, cache_matrix
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.progress import Progress
from haxmlnet.text.document_features import document_features
from haxmlnet.text.vectors import corpus_vectors
from haxmlnet.tree.features import label_feature_blocks

# Past this many words a label's features say nothing new, and 670,000 labels of them fill the memory.
FEATURES_PER_LABEL = 1000
# Numbers in the features that word vectors are made of: more documents and labels change little, and take long.
MAX_VECTOR_ENTRIES = 40_000_000


class CorpusFeatures:
    """What is made of the TF-IDF of the training documents; it is made only if something is not kept already."""

    def __init__(self, corpus: PreparedCorpus, n_words: int, training: NDArray[np.int64], progress: Progress) -> None:
        self.corpus, self.n_words, self.training, self.progress = corpus, n_words, training, progress
        self.tfidf = cache(lambda: document_features(corpus, n_words, progress))
        training_digest = hashlib.blake2b(training.tobytes(), digest_size=8).hexdigest()
        self.identity = {
            "n_words": n_words,
            "training documents": training_digest,
            "features per label": FEATURES_PER_LABEL,
        }

    def by_label(self) -> sp.csr_array:
        """Sum the features of each label's training documents, (labels x words), strongest words only."""
        identity = {"what": "label features", **self.identity}
        return cache_matrix(self.corpus.directory, identity, self.n_words, self._label_blocks, self.progress)

    def word_vectors(
        self, by_label: sp.csr_array, size: int, seed: int, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """Make a vector for each word of how it is used in the documents and by the labels, (words x size)."""

        def make(directory: Path | None) -> dict[str, NDArray[Any]]:
            half = MAX_VECTOR_ENTRIES // 2
            with self.progress.stage("vectors", None, "words"):
                documents = _some_rows(self.tfidf(), self.training, half, rng)
                labels = _some_rows(by_label, np.arange(by_label.shape[0]), half, rng)
                vectors = corpus_vectors(documents, labels, size, rng)
            return {"vectors": write_array(directory, "vectors", vectors.ravel())}

        identity = {"what": "word vectors", "size": size, "seed": seed, **self.identity}
        arrays = cache_arrays(self.corpus.directory, identity, make, self.progress)
        return np.array(arrays["vectors"]).reshape(self.n_words, size)

    def _label_blocks(self) -> Iterator[sp.csr_array]:
        targets = _emptied_but(self.corpus.targets, self.training)
        with self.progress.stage("label features", targets.shape[1], "labels") as advance:
            for block in label_feature_blocks(self.tfidf(), targets, FEATURES_PER_LABEL):
                yield block
                advance(block.shape[0])


def _emptied_but(targets: sp.csr_array, rows: NDArray[np.int64]) -> sp.csr_array:
    """Take the labels from all documents but some, which stay in their places."""
    lengths = np.zeros(targets.shape[0], np.int64)
    lengths[rows] = np.diff(targets.indptr)[rows]
    stays = np.repeat(lengths > 0, np.diff(targets.indptr))
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    return csr_view(targets.data[stays], targets.indices[stays], bounds, targets.shape[1])


def _some_rows(
    matrix: sp.csr_array, rows: NDArray[np.int64], max_entries: int, rng: np.random.Generator
) -> sp.csr_array:
    """Take the rows given, or as many of them at random as have so many entries."""
    sizes = np.diff(matrix.indptr)[rows].astype(np.int64)
    if sizes.sum() > max_entries:
        order = rng.permutation(len(rows))
        n_rows = int(np.searchsorted(np.cumsum(sizes[order]), max_entries, side="right"))
        rows = np.sort(rows[order[: max(n_rows, 1)]])
    return matrix[rows]
