"""`DocumentModel`: how texts, prepared corpora and sparse features become what a model is trained on and ranks."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.labels import LabelIndex, index_labels
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import DataError, ModelError
from haxmlnet.evidence.protocol import Documents
from haxmlnet.evidence.training_set import TrainingSet
from haxmlnet.models.model import Model, check_k, check_texts
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.saved import SavedModel
from haxmlnet.store import write_arrays, write_text
from haxmlnet.text.corpus_builder import prepare_texts
from haxmlnet.text.tfidf import unit_rows
from haxmlnet.text.tokenizer import WordTokenizer

TOKENIZER, FEATURES = "tokenizer.json", "features.safetensors"


class DocumentModel(Model):
    """A model of the word ids and the TF-IDF of texts; or of sparse features, if it needs no order of words."""

    vocabulary_size: int
    min_document_frequency: int
    tokenizer_: WordTokenizer | None
    """None where it was trained on sparse features."""
    idf_: NDArray[np.float32]
    n_features_: int

    def fit(
        self,
        texts: Sequence[str] | sp.csr_array,
        labels: Any,
        *,
        label_names: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train on texts and their labels: collections of names, or a 0/1 matrix with optional names.

        Models that take features can be given a sparse matrix (documents x features) instead of texts.
        """
        started = time.monotonic()
        self._check_settings()
        whole = self._read_training_set(texts, labels, label_names, progress or Progress())
        return self._note(whole, self._train(whole), started)

    def fit_prepared(self, corpus: PreparedCorpus, *, progress: Progress | None = None) -> Self:
        """Train on a prepared corpus, as `haxmlnet.prepare` makes it of files of any size."""
        started = time.monotonic()
        self._check_settings()
        whole = self._corpus_training_set(corpus, progress or Progress())
        return self._note(whole, self._train(whole), started)

    def fit_features(
        self, features: sp.csr_array, targets: sp.csr_array, index: LabelIndex, *, progress: Progress | None = None
    ) -> Self:
        """Train on features (documents x features) and the 0/1 matrix of their labels."""
        started = time.monotonic()
        self._check_takes_features()
        self._check_settings()
        whole = TrainingSet(targets, index, progress or Progress(), given_features=unit_rows(check_features(features)))
        return self._note(whole, self._train(whole), started)

    def _read_training_set(
        self, texts: Any, labels: Any, label_names: Sequence[str] | None, progress: Progress
    ) -> TrainingSet:
        if sp.issparse(texts):
            self._check_takes_features()
            features = unit_rows(check_features(texts))
            index, targets = index_labels(labels, features.shape[0], label_names)
            return TrainingSet(targets, index, progress, given_features=features)
        texts = check_texts(texts)
        index, targets = index_labels(labels, len(texts), label_names)
        return self._corpus_training_set(prepare_texts(texts, index, targets, progress), progress)

    def _corpus_training_set(self, corpus: PreparedCorpus, progress: Progress) -> TrainingSet:
        return TrainingSet.of_corpus(corpus, self.vocabulary_size, self.min_document_frequency, progress)

    def _note(self, whole: TrainingSet, facts: dict[str, Any], started: float) -> Self:
        """Note what was learned from, and how."""
        self.label_index_ = whole.label_index
        self.label_counts_ = np.bincount(whole.targets.indices, minlength=whole.targets.shape[1])
        self.tokenizer_, self.idf_, self.n_features_ = whole.tokenizer, whole.idf, whole.n_features
        self.training_ = {
            "n_documents": len(whole), "labels_per_document": whole.targets.nnz / len(whole), **facts,
            "seconds": round(time.monotonic() - started, 1),
        }  # fmt: skip
        return self

    @abstractmethod
    def _check_settings(self) -> dict[str, Any]:
        """Return all settings, or raise a SettingError if one is wrong: before anything is read."""

    @abstractmethod
    def _train(self, whole: TrainingSet) -> dict[str, Any]:
        """Learn; return facts about the training, its settings among them."""

    @abstractmethod
    def _rank(self, documents: Documents, k: int) -> Ranking:
        """Rank the best k labels of each document."""

    def predict(self, texts: Sequence[str] | sp.csr_array, k: int = 5) -> Ranking:
        """Rank the best k labels of each text, or of each row of a matrix of features."""
        self._check_fitted()
        k = check_k(k, len(self.label_index_))
        ranking = self._rank(self._documents_of(texts), k)
        return Ranking(ranking.ids, ranking.scores, self.label_index_.names)

    def _documents_of(self, texts: Sequence[str] | sp.csr_array) -> Documents:
        if sp.issparse(texts):
            self._check_takes_features()
        if sp.issparse(texts) == (self.tokenizer_ is not None):
            learned, given = ("features", "texts") if self.tokenizer_ is None else ("texts", "features")
            raise DataError(f"the model was trained on {learned}, got {given}. Give {learned}.")
        if self.tokenizer_ is not None:
            return Documents(self.tokenizer_.encode(check_texts(texts)), self.idf_)
        features = check_features(texts)
        if features.shape[1] != self.n_features_:
            raise DataError(f"expected {self.n_features_} features, as in training, got {features.shape[1]}.")
        return Documents(None, self.idf_, unit_rows(features))

    def _check_takes_features(self) -> None:
        if not self.takes_features:
            raise DataError(
                f"{type(self).__name__} needs texts, as features have no order of words. "
                "Give texts, or use a linear method: LinearTree or OneVsRestSVM."
            )

    def _write_parts(self, directory: Path) -> None:
        if self.tokenizer_ is not None:
            write_text(directory / TOKENIZER, self.tokenizer_.to_json())
        write_arrays(directory / FEATURES, {"idf": self.idf_, "n_features": np.array([self.n_features_])})

    def _read_parts(self, saved: SavedModel) -> None:
        arrays = saved.arrays(FEATURES)
        self.tokenizer_ = WordTokenizer.from_json(saved.text(TOKENIZER)) if TOKENIZER in saved else None
        if set(arrays) != {"idf", "n_features"} or arrays["n_features"].shape != (1,):
            raise ModelError(f"{saved.file(FEATURES)}: does not hold 'idf' and 'n_features'.")
        self.idf_, self.n_features_ = arrays["idf"], int(arrays["n_features"][0])
        n_words = self.n_features_ if self.tokenizer_ is None else self.tokenizer_.n_words
        if n_words != self.n_features_ or (self.tokenizer_ is not None and len(self.idf_) != n_words):
            raise ModelError(f"{saved.directory}: {TOKENIZER} and {FEATURES} do not fit each other.")


def check_features(features: Any) -> sp.csr_array:
    """Check that features are finite numbers, and return them as rows of float32, columns ascending and different."""
    matrix = sp.csr_array(features, dtype=np.float32)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise DataError("features must be finite numbers, got NaN or infinity.")
    return matrix
