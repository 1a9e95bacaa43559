"""`OneVsRestSVM`: one linear classifier a label on TF-IDF, small weights dropped, as in DiSMEC."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.svm import LinearSVC

from haxmlnet.data.labels import index_labels
from haxmlnet.errors import ModelError, SettingError
from haxmlnet.methods.base import Method, checked_texts
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking, rank
from haxmlnet.settings import checked_settings
from haxmlnet.store import read_arrays, write_arrays, write_text
from haxmlnet.text.tfidf import inverse_document_frequency, tfidf, word_counts
from haxmlnet.text.tokenizer import WordTokenizer, build_vocabulary

# Numbers in the dense (documents x labels) array of one prediction block: 16 MB of float32.
LARGEST_BLOCK = 2**22
MAX_BLOCK = 256


class OneVsRestSVM(Method):
    """One linear support vector machine a label: squared hinge loss, L2, on the TF-IDF of the words.

    Labels are trained one after the other: liblinear draws from one random generator for the whole process,
    so in threads the model would depend on their timing, and they gain no time.
    """

    tokenizer_: WordTokenizer
    idf_: NDArray[np.float32]
    weights_: sp.csc_array
    """(labels x words), stored by word: a document touches the weights of its own words only."""
    intercepts_: NDArray[np.float32]

    def __init__(
        self,
        *,
        vocabulary_size: int = 500_000,
        min_document_frequency: int = 1,
        C: float = 1.0,
        prune: float = 0.01,
        random_state: int = 0,
    ) -> None:
        self.vocabulary_size = vocabulary_size
        self.min_document_frequency = min_document_frequency
        self.C = C
        self.prune = prune
        self.random_state = random_state

    def fit(
        self,
        texts: Sequence[str],
        labels: Any,
        *,
        label_names: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train on texts and their labels: collections of names, or a 0/1 matrix with optional names."""
        started = time.monotonic()
        progress = progress or Progress()
        texts = checked_texts(texts)
        index, targets = index_labels(labels, len(texts), label_names)
        settings = self._checked_settings()
        with progress.stage("words", len(texts), "documents") as advance:
            tokenizer, tokens = build_vocabulary(
                texts, settings["vocabulary_size"], settings["min_document_frequency"], advance
            )
        counts = word_counts(tokens, tokenizer.n_words)
        idf = inverse_document_frequency(counts)
        weights, intercepts = _train_labels(tfidf(counts, idf), targets, settings, progress)
        self.label_index_, self.tokenizer_, self.idf_ = index, tokenizer, idf
        self.weights_, self.intercepts_ = weights, intercepts
        self.label_counts_ = np.bincount(targets.indices, minlength=targets.shape[1])
        self.training_ = {
            "n_documents": len(texts), "labels_per_document": targets.nnz / len(texts),
            "seconds": round(time.monotonic() - started, 1), "settings": settings,
        }  # fmt: skip
        return self

    def predict(self, texts: Sequence[str], k: int = 5) -> Ranking:
        """Rank the best k labels of each text; a score is the sigmoid of the distance from the hyperplane."""
        texts, k = self._checked_query(texts, k)
        counts = word_counts(self.tokenizer_.encode(texts), self.tokenizer_.n_words)
        features = tfidf(counts, self.idf_)
        ids, scores = np.empty((len(texts), k), np.int32), np.empty((len(texts), k), np.float32)
        size = max(min(MAX_BLOCK, LARGEST_BLOCK // len(self.label_index_)), 1)
        for start in range(0, len(texts), size):
            best = self._rank(features[start : start + size], k)
            ids[start : start + size], scores[start : start + size] = best.ids, best.scores
        return Ranking(ids, scores, self.label_index_.names)

    def _rank(self, features: sp.csr_array, k: int) -> Ranking:
        scores = expit((features @ self.weights_.T).toarray() + self.intercepts_)  # (B, N)
        ids = np.broadcast_to(np.arange(scores.shape[1], dtype=np.int32), scores.shape)
        return rank(ids, scores, k, None, scores.shape[1])

    def _checked_settings(self) -> dict[str, Any]:
        # These three mean the same as in HAXMLNet, so they are checked by the same rules.
        shared = ("vocabulary_size", "min_document_frequency", "random_state")
        settings = checked_settings({name: getattr(self, name) for name in shared})
        if not _is_number(self.C) or self.C <= 0:
            raise SettingError(f"C must be a number above 0, got {self.C!r}.")
        if not _is_number(self.prune) or self.prune < 0:
            raise SettingError(f"prune must be a number of at least 0, got {self.prune!r}.")
        return {**settings, "C": float(self.C), "prune": float(self.prune)}

    def _write_parts(self, directory: Path) -> None:
        write_text(directory / "tokenizer.json", self.tokenizer_.to_json())
        weights = self.weights_
        arrays = {
            "idf": self.idf_, "intercepts": self.intercepts_,
            "weights": weights.data, "labels": weights.indices, "starts": weights.indptr,
        }  # fmt: skip
        write_arrays(directory / "weights.safetensors", arrays)

    def _read_parts(self, directory: Path) -> None:
        file = directory / "weights.safetensors"
        arrays = read_arrays(file)
        self.tokenizer_ = WordTokenizer.from_json((directory / "tokenizer.json").read_text("utf-8"))
        shape = (len(self.label_index_), self.tokenizer_.n_words)
        try:
            self.idf_, self.intercepts_ = arrays["idf"], arrays["intercepts"]
            self.weights_ = sp.csc_array((arrays["weights"], arrays["labels"], arrays["starts"]), shape=shape)
            self.weights_.check_format()
        except (KeyError, ValueError) as error:
            raise ModelError(f"{file}: does not hold the weights of {shape[0]} labels ({error}).") from None
        if (len(self.intercepts_), len(self.idf_)) != shape:
            raise ModelError(f"{file}: does not fit labels.txt and tokenizer.json.")


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def _train_labels(
    features: sp.csr_array, targets: sp.csr_array, settings: dict[str, Any], progress: Progress
) -> tuple[sp.csc_array, NDArray[np.float32]]:
    # liblinear reads float64 and 32-bit positions: converted once here instead of once a label.
    X = features.astype(np.float64)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    documents = sp.csc_array(targets)
    n_labels = targets.shape[1]
    weights: list[NDArray[np.float32]] = []
    words: list[NDArray[np.int32]] = []
    intercepts = np.empty(n_labels, np.float32)
    with progress.stage("labels", n_labels, "labels") as advance:
        for label in range(n_labels):
            positive = np.zeros(X.shape[0], bool)
            positive[documents.indices[documents.indptr[label] : documents.indptr[label + 1]]] = True
            row, intercepts[label] = _train_label(X, positive, settings)
            words.append(np.flatnonzero(row).astype(np.int32))
            weights.append(row[words[-1]])
            advance(1)
    labels = np.repeat(np.arange(n_labels, dtype=np.int32), [len(row) for row in words])
    entries = (np.concatenate(weights), (labels, np.concatenate(words)))
    return sp.csc_array(entries, shape=(n_labels, X.shape[1])), intercepts


def _train_label(
    X: sp.csr_array, positive: NDArray[np.bool_], settings: dict[str, Any]
) -> tuple[NDArray[np.float32], float]:
    if positive.all() or not positive.any():
        return np.zeros(X.shape[1], np.float32), math.inf if positive.all() else -math.inf
    # The dual solver is a hundred times faster than the primal one on sparse text.
    svm = LinearSVC(C=settings["C"], dual=True, random_state=settings["random_state"]).fit(X, positive)
    weights = svm.coef_[0].astype(np.float32)
    weights[np.abs(weights) < settings["prune"]] = 0
    return weights, float(svm.intercept_[0])
