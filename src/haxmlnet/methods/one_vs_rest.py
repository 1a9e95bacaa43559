"""`OneVsRestSVM`: one linear classifier a label on TF-IDF, small weights dropped, as in DiSMEC."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.svm import LinearSVC

from haxmlnet.errors import ModelError
from haxmlnet.linear.names import LabelNames
from haxmlnet.methods.linear_method import LinearMethod
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking, rank
from haxmlnet.saved import SavedModel
from haxmlnet.settings import OneVsRestSettings
from haxmlnet.store import write_arrays

# Numbers in the dense (documents x labels) array of one prediction block: 16 MB of float32.
LARGEST_BLOCK = 2**22
MAX_BLOCK = 256


class OneVsRestSVM(OneVsRestSettings, LinearMethod):
    """One linear support vector machine a label: squared hinge loss, L2, on the TF-IDF of the words.

    Labels are trained one after the other: liblinear draws from one random generator for the whole process,
    so in threads the model would depend on their timing, and they gain no time.
    """

    weights_: sp.csc_array
    """(labels x features), stored by feature: a document touches the weights of its own features only."""
    intercepts_: NDArray[np.float32]

    def _train(
        self,
        features: sp.csr_array,
        targets: sp.csr_array,
        label_counts: NDArray[np.int64],
        names: LabelNames | None,
        settings: dict[str, Any],
        progress: Progress,
    ) -> dict[str, Any]:
        self.weights_, self.intercepts_ = _train_labels(features, targets, settings, progress)
        return {}

    def _rank(self, features: sp.csr_array, k: int) -> Ranking:
        """Rank by the sigmoid of the distance from the hyperplane."""
        n_documents = features.shape[0]
        ids, scores = np.empty((n_documents, k), np.int32), np.empty((n_documents, k), np.float32)
        size = max(min(MAX_BLOCK, LARGEST_BLOCK // len(self.label_index_)), 1)
        for start in range(0, n_documents, size):
            best = self._rank_block(features[start : start + size], k)
            ids[start : start + size], scores[start : start + size] = best.ids, best.scores
        return Ranking(ids, scores, None, len(self.label_index_))

    def _rank_block(self, features: sp.csr_array, k: int) -> Ranking:
        scores = expit((features @ self.weights_.T).toarray() + self.intercepts_)  # (B, N)
        ids = np.broadcast_to(np.arange(scores.shape[1], dtype=np.int32), scores.shape)
        return rank(ids, scores, k, None, scores.shape[1])

    def _write_parts(self, directory: Path) -> None:
        super()._write_parts(directory)
        weights = self.weights_
        arrays = {
            "intercepts": self.intercepts_, "weights": weights.data, "labels": weights.indices,
            "starts": weights.indptr,
        }  # fmt: skip
        write_arrays(directory / "weights.safetensors", arrays)

    def _read_parts(self, saved: SavedModel) -> None:
        super()._read_parts(saved)
        file = saved.file("weights.safetensors")
        arrays = saved.arrays("weights.safetensors")
        shape = (len(self.label_index_), self.n_features_)
        try:
            self.intercepts_ = arrays["intercepts"]
            self.weights_ = sp.csc_array((arrays["weights"], arrays["labels"], arrays["starts"]), shape=shape)
            self.weights_.check_format()
        except (KeyError, ValueError) as error:
            raise ModelError(f"{file}: does not hold the weights of {shape[0]} labels ({error}).") from None
        if len(self.intercepts_) != shape[0]:
            raise ModelError(f"{file}: does not fit labels.txt.")


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
