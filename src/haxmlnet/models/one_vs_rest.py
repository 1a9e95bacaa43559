"""`OneVsRestSVM`: one linear classifier a label on TF-IDF, small weights dropped, as in DiSMEC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from haxmlnet.data.cores import usable_cores
from haxmlnet.errors import ModelError
from haxmlnet.linear import in_threads, joined
from haxmlnet.linear.flat import rank_all
from haxmlnet.linear.names import LabelNames
from haxmlnet.linear.working_sets import train_one_vs_rest
from haxmlnet.models.linear_method import LinearMethod
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.saved import SavedModel
from haxmlnet.settings import OneVsRestSettings
from haxmlnet.store import write_arrays

# The baseline is to be the best of its kind: closer than the classifiers of a tree, which a rule weighs.
TOLERANCE, MAX_PASSES = 1e-3, 1000


class OneVsRestSVM(OneVsRestSettings, LinearMethod):
    """One linear support vector machine a label: squared hinge loss, L2, on the TF-IDF of the words."""

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
        with progress.stage("labels", targets.shape[1], "labels") as advance:
            weights, biases = train_one_vs_rest(
                features,
                targets,
                C=settings["C"],
                prune=settings["prune"],
                seed=settings["random_state"],
                n_threads=settings["n_jobs"] or usable_cores(),
                tolerance=TOLERANCE,
                max_passes=MAX_PASSES,
                advance=advance,
            )
        self.weights_ = sp.csc_array(weights)
        # A label that all documents have, or none, needs no words to be told from the rest.
        always, never = label_counts == features.shape[0], label_counts == 0
        self.intercepts_ = np.where(always, np.inf, np.where(never, -np.inf, biases)).astype(np.float32)
        return {}

    def _rank(self, features: sp.csr_array, k: int) -> Ranking:
        """Rank by the sigmoid of the distance from the hyperplane."""
        weights, n_labels = self.weights_, len(self.label_index_)

        def rank_block(rows: range) -> Ranking:
            ids, margins = np.empty((len(rows), k), np.int32), np.empty((len(rows), k), np.float32)
            rank_all(
                features.indptr[rows.start : rows.stop + 1], features.indices, features.data,
                weights.indptr, weights.indices, weights.data, self.intercepts_, ids, margins,
            )  # fmt: skip
            return Ranking(ids, expit(margins), None, n_labels)

        return joined(list(in_threads(rank_block, features.shape[0], self.n_jobs or usable_cores(), 2 * k)))

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
