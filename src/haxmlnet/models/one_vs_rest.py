"""`OneVsRestSVM`: one linear classifier a label on TF-IDF, small weights dropped, as in DiSMEC."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from haxmlnet.config import LinearConfig, MachineConfig
from haxmlnet.data.cores import count_cores
from haxmlnet.errors import ModelError
from haxmlnet.evidence.protocol import Documents
from haxmlnet.evidence.training_set import TrainingSet
from haxmlnet.linear.flat_ranking import rank_by_margin
from haxmlnet.linear.solver import SolverConfig
from haxmlnet.linear.working_sets import train_one_vs_rest
from haxmlnet.models.document_model import DocumentModel
from haxmlnet.ranking import Ranking
from haxmlnet.saved import SavedModel
from haxmlnet.settings import OneVsRestSettings, check_settings, settings_of
from haxmlnet.store import write_arrays

# Solved more closely than the classifiers of a tree, which a fusion weighs: a baseline should be as good as it can be.
TOLERANCE, MAX_PASSES = 1e-3, 1000


class OneVsRestSVM(OneVsRestSettings, DocumentModel):
    """One linear support vector machine a label: squared hinge loss, L2, on the TF-IDF of the words."""

    takes_features = True

    weights_: sp.csc_array
    """(labels x features), stored by feature: a document touches the weights of its own features only."""
    intercepts_: NDArray[np.float32]

    def _check_settings(self) -> dict[str, Any]:
        return check_settings(settings_of(self, OneVsRestSettings), OneVsRestSettings)

    def _train(self, whole: TrainingSet) -> dict[str, Any]:
        settings, features, targets = self._check_settings(), whole.features, whole.targets
        linear, machine = LinearConfig.of(settings), MachineConfig.of(settings)
        config = SolverConfig(linear.C, linear.prune, machine.random_state, TOLERANCE, MAX_PASSES)
        n_threads = machine.n_jobs or count_cores()
        with whole.progress.stage("labels", targets.shape[1], "labels") as advance:
            weights, biases = train_one_vs_rest(features, targets, config, n_threads, advance)
        self.weights_ = sp.csc_array(weights)
        # A label that all documents have, or none, is always or never given.
        counts = np.bincount(targets.indices, minlength=targets.shape[1])
        always, never = counts == features.shape[0], counts == 0
        self.intercepts_ = np.where(always, np.inf, np.where(never, -np.inf, biases)).astype(np.float32)
        return {"settings": settings}

    def _rank(self, documents: Documents, k: int) -> Ranking:
        """Rank by the sigmoid of the margin."""
        n_threads = self.n_jobs or count_cores()
        ranking = rank_by_margin(documents.features, self.weights_, self.intercepts_, k, n_threads)
        return replace(ranking, scores=expit(ranking.scores))

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
