"""`LinearTree`: linear classifiers over a tree of labels (as Parabel and Bonsai), fused into probabilities."""

from __future__ import annotations

from typing import Any

from haxmlnet.config import Config, linear_tree_config
from haxmlnet.data.cores import count_cores
from haxmlnet.evidence.classifier_tree import ClassifierTree
from haxmlnet.evidence.fold import TrainingSet
from haxmlnet.evidence.label_frequency import LabelFrequency
from haxmlnet.evidence.label_names import LabelNames
from haxmlnet.evidence.nearest_documents import NearestDocuments
from haxmlnet.evidence.protocol import Documents, Evidence, Run
from haxmlnet.models.evidence_model import EvidenceModel
from haxmlnet.ranking import Ranking
from haxmlnet.saved import SavedModel
from haxmlnet.settings import LinearTreeSettings, check_settings, settings_of


class LinearTree(LinearTreeSettings, EvidenceModel):
    """One linear support vector machine a node of a label tree: trains in minutes, strong on rare labels.

    Takes texts or sparse features. Every argument of the constructor is a setting with a default.
    """

    takes_features = True

    def sources(self, config: Config) -> list[type[Evidence]]:
        """Classifiers alone, or fused with what else is known of a label."""
        if not config.fusion.linear:
            return [ClassifierTree]
        names: list[type[Evidence]] = [LabelNames] * config.fusion.names
        neighbors: list[type[Evidence]] = [NearestDocuments] * config.fusion.neighbours
        return [ClassifierTree, LabelFrequency, *names, *neighbors]

    def _check_settings(self) -> dict[str, Any]:
        return check_settings(settings_of(self, LinearTreeSettings), LinearTreeSettings)

    def _config(self, n_documents: int, n_labels: int) -> Config:
        return linear_tree_config(self._check_settings(), n_labels)

    def _train(self, whole: TrainingSet) -> dict[str, Any]:
        config = self._config(len(whole), len(whole.label_index))
        run = Run(config, progress=whole.progress, n_threads=config.machine.n_jobs or count_cores())
        return {"n_validation": self._train_trees(whole, None, run), "settings": self._check_settings()}

    def _rank(self, documents: Documents, k: int) -> Ranking:
        return self._rank_in_threads(documents, k, self.n_jobs or count_cores())

    def _read_parts(self, saved: SavedModel) -> None:
        super()._read_parts(saved)
        self._read_trees(saved, linear_tree_config(self.training_["settings"], len(self.label_index_)))
