"""`Fold`: the documents that a tree is trained on, those held out, and what is made of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.config import Config
from haxmlnet.data.arrays import csr_view, release_pages, write_array
from haxmlnet.data.cached_arrays import cache_arrays, cache_matrix
from haxmlnet.evidence.fusion import MIN_DOCUMENTS
from haxmlnet.evidence.training_set import Labeled, TrainingSet
from haxmlnet.text.word_vectors import corpus_vectors, read_vectors
from haxmlnet.tree.label_features import label_feature_blocks

MIN_DOCUMENTS_TO_SPLIT = 20
# Entries of the features that word vectors are made of: more documents and labels change little, and take long.
MAX_VECTOR_ENTRIES = 40_000_000


class Fold:
    """What one tree is trained on: the documents kept, those held out, and what is made of those kept.

    Label features and word vectors are cached beside the corpus, for the next training with the same settings.
    """

    def __init__(
        self,
        whole: TrainingSet,
        config: Config,
        kept: NDArray[np.int64],
        held_out: Labeled | None,
        rng: np.random.Generator,
        stream: int = 0,
    ) -> None:
        self.whole, self.config, self.kept, self.held_out = whole, config, kept, held_out
        self.rng, self.stream = rng, stream
        self.tokenizer, self.idf, self.label_index = whole.tokenizer, whole.idf, whole.label_index

    @classmethod
    def split(cls, whole: TrainingSet, config: Config, given: Labeled | None, number: int) -> Fold:
        """Hold documents out for validation where none are given; where there is a fusion, each tree others."""
        stream = number if config.fusion.enabled else 0
        rng = np.random.default_rng([config.machine.random_state, stream])
        n_held_out = 0 if given is not None else count_held_out(len(whole), config)
        if config.fusion.enabled:
            # The fusion needs documents as they come; the classifiers learn from all of them in the end.
            order = rng.permutation(len(whole))
            kept, held_out = np.sort(order[n_held_out:]), np.sort(order[:n_held_out])
        else:
            kept, held_out = hold_out_common(whole.targets, n_held_out, rng)
        return cls(whole, config, kept, given or (whole.take(held_out) if len(held_out) else None), rng, stream)

    @cached_property
    def everything(self) -> Fold:
        """The fold that keeps all documents."""
        return Fold(self.whole, self.config, np.arange(len(self.whole)), None, self.rng, self.stream)

    @property
    def n_left_out(self) -> int:
        """Documents of the training set that are not kept."""
        return len(self.whole) - len(self.kept)

    def kept_documents(self, max_length: int) -> Labeled:
        """Return the kept documents, cut to the words that networks read."""
        return self.whole.take(self.kept).truncate(max_length)

    @cached_property
    def kept_targets(self) -> sp.csr_array:
        """True labels of the kept documents."""
        return self.whole.targets[self.kept] if self.n_left_out else self.whole.targets

    def kept_features(self) -> sp.csr_array:
        """Return TF-IDF of the kept documents, without the pages of the file that it comes from."""
        features = self.whole.features
        if self.n_left_out == 0:
            return features
        kept = features[self.kept]
        release_pages(features.data, features.indices)
        return kept

    @cached_property
    def label_features(self) -> sp.csr_array:
        """The sum of the TF-IDF of each label's documents, (labels x words), strongest words only, length one."""
        return cache_matrix(
            self._directory,
            {"what": "label features", **self._identity},
            self.whole.n_features,
            self._label_blocks,
            self.whole.progress,
        )

    @cached_property
    def word_vectors(self) -> NDArray[np.float32]:
        """Vectors from a file, or made of how each word is used in the documents and by the labels, (words x size)."""
        config, progress = self.config, self.whole.progress
        assert self.tokenizer is not None
        if config.text.vectors is not None:
            with progress.stage("vectors", None, "words"):
                return read_vectors(config.text.vectors, self.tokenizer.words, self.rng)
        size, seed = config.text.word_size, config.machine.random_state

        def make(directory: Path | None) -> dict[str, NDArray[Any]]:
            with progress.stage("vectors", None, "words"):
                half = MAX_VECTOR_ENTRIES // 2
                documents = sample_rows(self.whole.features, self.kept, half, self.rng)
                labels = sample_rows(self.label_features, np.arange(len(self.label_index)), half, self.rng)
                vectors = corpus_vectors(documents, labels, size, self.rng)
            return {"vectors": write_array(directory, "vectors", vectors.ravel())}

        identity = {"what": "word vectors", "size": size, "seed": [seed, self.stream], **self._identity}
        arrays = cache_arrays(self._directory, identity, make, progress)
        return np.array(arrays["vectors"]).reshape(self.tokenizer.n_words, size)

    @property
    def _directory(self) -> Path | None:
        return None if self.whole.corpus is None else self.whole.corpus.directory

    @property
    def _identity(self) -> dict[str, Any]:
        return {
            "n_words": self.whole.n_features,
            "training documents": hashlib.blake2b(self.kept.tobytes(), digest_size=8).hexdigest(),
            "features per label": self.config.tree.label_words,
        }

    def _label_blocks(self) -> Iterator[sp.csr_array]:
        # Labels of documents that are not kept are taken away; the documents stay in their places.
        targets = self.whole.targets
        lengths = np.zeros(targets.shape[0], np.int64)
        lengths[self.kept] = np.diff(targets.indptr)[self.kept]
        stays = np.repeat(lengths > 0, np.diff(targets.indptr))
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        kept = csr_view(targets.data[stays], targets.indices[stays], bounds, targets.shape[1])
        with self.whole.progress.stage("label features", kept.shape[1], "labels") as advance:
            for block in label_feature_blocks(self.whole.features, kept, self.config.tree.label_words):
                yield block
                advance(block.shape[0])


def hold_out_common(
    targets: sp.csr_array, n_held_out: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose documents to hold out at random, but none that is the last one of a label; return (kept, held out)."""
    left = np.bincount(targets.indices, minlength=targets.shape[1])
    held_out: list[int] = []
    for row in rng.permutation(targets.shape[0]):
        if len(held_out) == n_held_out:
            break
        labels = targets.indices[targets.indptr[row] : targets.indptr[row + 1]]
        if (left[labels] > 1).all():
            left[labels] -= 1
            held_out.append(row)
    kept = np.ones(targets.shape[0], bool)
    kept[held_out] = False
    return np.flatnonzero(kept), np.flatnonzero(~kept)


def count_held_out(n_documents: int, config: Config) -> int:
    """Return how many documents are held out for validation."""
    n_held_out = min(round(config.fusion.validation_fraction * n_documents), config.fusion.max_validation)
    # Networks are validated on as few as there are; without networks, they are for the fusion alone.
    least = MIN_DOCUMENTS if config.network is None else 0
    return n_held_out if n_documents >= MIN_DOCUMENTS_TO_SPLIT and n_held_out >= least else 0


def sample_rows(
    matrix: sp.csr_array, rows: NDArray[np.int64], max_entries: int, rng: np.random.Generator
) -> sp.csr_array:
    """Take the rows given, or as many of them at random as have so many entries."""
    sizes = np.diff(matrix.indptr)[rows].astype(np.int64)
    if sizes.sum() > max_entries:
        order = rng.permutation(len(rows))
        n_rows = int(np.searchsorted(np.cumsum(sizes[order]), max_entries, side="right"))
        rows = np.sort(rows[order[: max(n_rows, 1)]])
    return matrix[rows]
