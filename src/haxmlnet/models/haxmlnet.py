"""`HAXMLNet`: label-wise attention over a tree of labels (You et al., 2019), fused with other evidence."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch

from haxmlnet.config import Config, haxmlnet_config
from haxmlnet.data.labels import truth_matrix
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import DataError, SettingError
from haxmlnet.evidence.attention_tree import AttentionTree
from haxmlnet.evidence.classifier_tree import ClassifierTree
from haxmlnet.evidence.protocol import Documents, Evidence, Run
from haxmlnet.evidence.training_set import TrainingSet, Validation, validation_documents
from haxmlnet.models.evidence_model import EvidenceModel, optional_evidence
from haxmlnet.models.model import check_texts
from haxmlnet.planning.forecast import Plan, refuse_what_does_not_fit
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.saved import SavedModel
from haxmlnet.settings import Settings, check_settings, preset, resolve_settings, settings_of
from haxmlnet.training.checkpoints import Checkpoints, training_identity
from haxmlnet.training.hardware import (
    choose_available_device,
    choose_device,
    choose_dtype,
    cpu_threads,
    training_threads,
)


class HAXMLNet(Settings, EvidenceModel):
    """Hierarchical label-wise attention for texts with the right few of very many labels.

    Every argument of the constructor is a setting with a default; `docs/reference/settings.md` lists them.
    """

    @classmethod
    def from_preset(cls, name: str, **settings: Any) -> Self:
        """Make a model with the settings of a preset (`paper`, `amazon-670k`, ...), some of them changed."""
        return cls(**{**preset(name), **settings})

    def sources(self, config: Config) -> list[type[Evidence]]:
        """The networks alone, as in the paper, or fused with what else is known of a label."""
        if not config.fusion.enabled:
            return [AttentionTree]
        return [AttentionTree, ClassifierTree, *optional_evidence(config.fusion)]

    def fit(  # type: ignore[override]
        self,
        texts: Sequence[str],
        labels: Any,
        *,
        validation: tuple[Sequence[str], Any] | None = None,
        label_names: Sequence[str] | None = None,
        checkpoint_dir: str | Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Train on texts and their labels: collections of names, or a 0/1 matrix with optional names.

        With `checkpoint_dir`, training leaves its state there as it goes; the same call with `resume=True`
        goes on from it after a crash, and ends with the same weights as if nothing had happened.
        """
        started = time.monotonic()
        self._check_settings()
        whole = self._read_training_set(texts, labels, label_names, progress or Progress())
        given: Validation | None = None
        if validation is not None:
            held_out, targets = check_texts(validation[0]), truth_matrix(validation[1], whole.label_index)
            if len(held_out) != targets.shape[0]:
                raise DataError(f"validation: expected {len(held_out)} label sets, one a text, got {targets.shape[0]}.")
            given = held_out, targets
        return self._note(whole, self._train(whole, given, checkpoint_dir, resume), started)

    def fit_prepared(
        self,
        corpus: PreparedCorpus,
        *,
        validation: PreparedCorpus | None = None,
        checkpoint_dir: str | Path | None = None,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Train on a prepared corpus, as `haxmlnet.prepare` makes it of files of any size; otherwise as `fit`."""
        started = time.monotonic()
        self._check_settings()
        whole = self._corpus_training_set(corpus, progress or Progress())
        return self._note(whole, self._train(whole, validation, checkpoint_dir, resume), started)

    def plan(
        self,
        corpus: PreparedCorpus | None = None,
        *,
        documents: int | None = None,
        labels: int | None = None,
        words: float | None = None,
        labels_per_document: float | None = None,
        vocabulary: int | None = None,
    ) -> Plan:
        """Foresee levels, parameters and memory of a training, and what to change if it does not fit.

        The sizes are those of a prepared corpus, or `documents` and `labels`; numbers that are given besides take the
        place of what was counted or assumed. `plan.fits` is the verdict, `plan.describe()` gives all of it.
        """
        if corpus is None and not (documents and labels):
            raise SettingError("plan: without a corpus, documents and labels are needed. Give both numbers.")
        counted = DataSizes.of_numbers(documents or 1, labels or 1) if corpus is None else DataSizes.of_corpus(corpus)
        sizes = counted.replace(documents, labels, words, labels_per_document, vocabulary)
        return Plan.of(sizes, resolve_settings(self._check_settings(), sizes.n_documents, sizes.n_labels))

    def _check_settings(self) -> dict[str, Any]:
        return check_settings(settings_of(self))

    def _train(
        self,
        whole: TrainingSet,
        validation: Validation | None = None,
        checkpoint_dir: str | Path | None = None,
        resume: bool = False,
    ) -> dict[str, Any]:
        settings = resolve_settings(self._check_settings(), len(whole), len(whole.label_index))
        config = haxmlnet_config(settings, len(whole.label_index))
        machine, device = config.machine, choose_device(config.machine.device)
        dtype = choose_dtype(machine.precision, device)
        if machine.check_memory:
            assert whole.corpus is not None
            refuse_what_does_not_fit(whole.corpus, settings, has_checkpoints=checkpoint_dir is not None)
        given = None if validation is None else validation_documents(validation, whole, config)
        checkpoints = None
        if checkpoint_dir is not None:
            assert whole.corpus is not None
            assert config.training is not None
            held_out = () if given is None else given.truncate(config.text.max_length).arrays()
            identity = training_identity(settings, whole.corpus.digest, held_out, config.text.vectors)
            checkpoints = Checkpoints.start(checkpoint_dir, identity, config.training.checkpoint_seconds, resume)
        with training_threads(machine.n_jobs):
            n_threads = torch.get_num_threads()
            run = Run(config, 0, whole.progress, checkpoints, n_threads)
            n_validation = self._train_trees(whole, given, run)
        return {
            "n_validation": n_validation,
            "validation_nDCG@5": [round(self._attention(n).validation_score, 4) for n in range(len(self.trees_))],
            "threads": n_threads, "device": device.type, "dtype": str(dtype).removeprefix("torch."),
            "torch_version": torch.__version__, "settings": settings,
        }  # fmt: skip

    def _rank(self, documents: Documents, k: int) -> Ranking:
        with cpu_threads(self.n_jobs):
            return self._average_trees(documents, k, torch.get_num_threads(), self.beam)

    def _read_parts(self, saved: SavedModel) -> None:
        super()._read_parts(saved)
        own = {"device": choose_available_device(self.device).type, "precision": self.precision}
        self._read_trees(saved, haxmlnet_config({**self.training_["settings"], **own}, len(self.label_index_)))

    def describe(self) -> dict[str, Any]:
        """Return what the model is made of, as `haxmlnet inspect` prints it."""
        self._check_fitted()
        levels = [
            {"tree": number, **self._attention(number).describe_level(level)}
            for number, fused in enumerate(self.trees_)
            for level in range(fused.tree.n_levels)
        ]
        training = {name: value for name, value in self.training_.items() if name != "settings"}
        return {
            "method": type(self).__name__, "n_labels": len(self.label_index_), "n_words": self.n_features_,
            "n_trees": len(self.trees_), "parameters": sum(level["parameters"] for level in levels),
            "levels": levels, "training": training, "settings": self.training_["settings"],
        }  # fmt: skip

    def _attention(self, number: int) -> AttentionTree:
        first = self.trees_[number].first
        assert isinstance(first, AttentionTree)
        return first
