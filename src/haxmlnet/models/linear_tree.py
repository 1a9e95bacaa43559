"""`LinearTree`: linear classifiers over a tree of labels (as Parabel and Bonsai), fused into probabilities."""

from __future__ import annotations

from typing import Any

from haxmlnet.config import Config, linear_tree_config
from haxmlnet.data.cores import count_cores
from haxmlnet.evidence.classifier_tree import ClassifierTree
from haxmlnet.evidence.protocol import Documents, Evidence, Run
from haxmlnet.evidence.training_set import TrainingSet
from haxmlnet.models.evidence_model import EvidenceModel, optional_evidence
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
        return [ClassifierTree, *(optional_evidence(config.fusion) if config.fusion.enabled else [])]

    def _check_settings(self) -> dict[str, Any]:
        return check_settings(settings_of(self, LinearTreeSettings), LinearTreeSettings)

    def _train(self, whole: TrainingSet) -> dict[str, Any]:
        settings = self._check_settings()
        config = linear_tree_config(settings, len(whole.label_index))
        run = Run(config, progress=whole.progress, n_threads=config.machine.n_jobs or count_cores())
        return {"n_validation": self._train_trees(whole, None, run), "settings": settings}

    def _rank(self, documents: Documents, k: int) -> Ranking:
        return self._average_trees(documents, k, self.n_jobs or count_cores(), self.beam)

    def _read_parts(self, saved: SavedModel) -> None:
        super()._read_parts(saved)
        self._read_trees(saved, linear_tree_config(self.training_["settings"], len(self.label_index_)))
