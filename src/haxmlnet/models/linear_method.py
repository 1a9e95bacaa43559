"""What the linear methods have in common: sparse features, of texts or as they come."""

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
from haxmlnet.linear.names import LabelNames, names_of
from haxmlnet.models.model import Model, checked_k
from haxmlnet.models.preparation import vocabulary
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.saved import SavedModel
from haxmlnet.settings import METHOD_SETTINGS, check_settings, settings_of
from haxmlnet.store import write_arrays, write_text
from haxmlnet.text.document_features import corpus_idf, document_features
from haxmlnet.text.tfidf import tfidf, unit_rows, word_counts
from haxmlnet.text.tokenizer import WordTokenizer


class LinearMethod(Model):
    """A method that sees a document as a sparse vector: the TF-IDF of its words, or features given as a matrix."""

    takes_features = True
    tokenizer_: WordTokenizer | None
    """None where it was trained on features instead of texts."""
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
        """Train on texts, or on a sparse matrix of features (documents x features), and their labels."""
        if not sp.issparse(texts):
            return super().fit(texts, labels, label_names=label_names, progress=progress)
        features = checked_features(texts)
        index, targets = index_labels(labels, features.shape[0], label_names)
        return self.fit_features(features, targets, index, progress=progress)

    def fit_prepared(self, corpus: PreparedCorpus, *, progress: Progress | None = None) -> Self:
        """Train on a prepared corpus, as `haxmlnet.prepare` makes it of files of any size."""
        started = time.monotonic()
        progress = progress or Progress()
        settings = self._settings()
        tokenizer = vocabulary(corpus, settings)
        features = document_features(corpus, tokenizer.n_words, progress)
        idf = corpus_idf(corpus, tokenizer.n_words)
        return self._learn(features, corpus.targets, corpus.label_index, tokenizer, idf, settings, progress, started)

    def fit_features(
        self, features: sp.csr_array, targets: sp.csr_array, index: LabelIndex, *, progress: Progress | None = None
    ) -> Self:
        """Train on features (documents x features) and the 0/1 matrix of their labels."""
        started = time.monotonic()
        no_idf = np.zeros(0, np.float32)
        features = unit_rows(checked_features(features))
        return self._learn(features, targets, index, None, no_idf, self._settings(), progress or Progress(), started)

    def _learn(
        self,
        features: sp.csr_array,
        targets: sp.csr_array,
        index: LabelIndex,
        tokenizer: WordTokenizer | None,
        idf: NDArray[np.float32],
        settings: dict[str, Any],
        progress: Progress,
        started: float,
    ) -> Self:
        counts = np.bincount(targets.indices, minlength=targets.shape[1])
        names = names_of(index, tokenizer, idf) if settings.get("names") else None
        facts = self._train(features, targets, counts, names, settings, progress)
        self.label_index_, self.label_counts_ = index, counts
        self.tokenizer_, self.idf_, self.n_features_ = tokenizer, idf, features.shape[1]
        self.training_ = {
            "n_documents": features.shape[0], "labels_per_document": targets.nnz / features.shape[0], **facts,
            "seconds": round(time.monotonic() - started, 1), "settings": settings,
        }  # fmt: skip
        return self

    @abstractmethod
    def _train(
        self,
        features: sp.csr_array,
        targets: sp.csr_array,
        label_counts: NDArray[np.int64],
        names: LabelNames | None,
        settings: dict[str, Any],
        progress: Progress,
    ) -> dict[str, Any]:
        """Learn from features of length one; give facts worth keeping about the training."""

    @abstractmethod
    def _rank(self, features: sp.csr_array, k: int) -> Ranking:
        """Rank the best k labels of each row of features."""

    def predict(self, texts: Sequence[str] | sp.csr_array, k: int = 5) -> Ranking:
        """Rank the best k labels of each text, or of each row of a matrix of features."""
        self._check_fitted()
        features = self._features_of(texts)
        ranking = self._rank(features, checked_k(k, len(self.label_index_)))
        return Ranking(ranking.ids, ranking.scores, self.label_index_.names)

    def _features_of(self, texts: Sequence[str] | sp.csr_array) -> sp.csr_array:
        if sp.issparse(texts) == (self.tokenizer_ is not None):
            learned, given = ("features", "texts") if self.tokenizer_ is None else ("texts", "features")
            raise DataError(f"the model was trained on {learned}, got {given}. Give {learned}.")
        if self.tokenizer_ is not None:
            checked, _ = self._checked_query(texts, 1)
            return tfidf(word_counts(self.tokenizer_.encode(checked), self.tokenizer_.n_words), self.idf_)
        features = checked_features(texts)
        if features.shape[1] != self.n_features_:
            raise DataError(f"expected {self.n_features_} features, as in training, got {features.shape[1]}.")
        return unit_rows(features)

    def _settings(self) -> dict[str, Any]:
        settings_class = METHOD_SETTINGS[type(self).__name__]
        return check_settings(settings_of(self, settings_class), settings_class)

    def _write_parts(self, directory: Path) -> None:
        if self.tokenizer_ is not None:
            write_text(directory / "tokenizer.json", self.tokenizer_.to_json())
        arrays = {"idf": self.idf_, "n_features": np.array([self.n_features_])}
        write_arrays(directory / "features.safetensors", arrays)

    def _read_parts(self, saved: SavedModel) -> None:
        arrays = saved.arrays("features.safetensors")
        has_words = "tokenizer.json" in saved
        self.tokenizer_ = WordTokenizer.from_json(saved.text("tokenizer.json")) if has_words else None
        if set(arrays) != {"idf", "n_features"} or arrays["n_features"].shape != (1,):
            raise ModelError(f"{saved.file('features.safetensors')}: does not hold 'idf' and 'n_features'.")
        self.idf_, self.n_features_ = arrays["idf"], int(arrays["n_features"][0])
        n_words = self.n_features_ if self.tokenizer_ is None else self.tokenizer_.n_words
        if n_words != self.n_features_ or (self.tokenizer_ is not None and len(self.idf_) != n_words):
            raise ModelError(f"{saved.directory}: tokenizer.json and features.safetensors do not fit each other.")


def checked_features(features: Any) -> sp.csr_array:
    """Check that features are finite numbers, and give them as rows of float32, columns ascending and different."""
    matrix = sp.csr_array(features, dtype=np.float32)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise DataError("features must be finite numbers, got NaN or infinity.")
    return matrix
