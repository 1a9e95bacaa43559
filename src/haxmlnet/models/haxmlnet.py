"""HAXMLNet: label-wise attention over a tree of labels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from haxmlnet.data.labels import LabelIndex, index_labels, truth_matrix
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import DataError, ModelError, SettingError
from haxmlnet.linear import joined
from haxmlnet.linear.neighbours import Neighbours
from haxmlnet.models.linear_part import LinearPart, read_neighbours, tree_for_linear, write_neighbours
from haxmlnet.models.model import Model, checked_texts
from haxmlnet.models.preparation import (
    Labelled,
    Validation,
    all_documents,
    prepare_training,
    validation_documents,
    vocabulary,
)
from haxmlnet.models.tree_model import (
    TreeModel,
    levels_of_networks,
    network_arrays,
    saved_network,
    train_tree,
)
from haxmlnet.planning.plan import Plan, refuse_what_does_not_fit
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking, average_rankings, width_per_tree
from haxmlnet.saved import SavedModel
from haxmlnet.settings import Settings, check_settings, preset, resolve_settings, settings_of
from haxmlnet.store import write_arrays, write_text
from haxmlnet.text.corpus_builder import prepare_texts
from haxmlnet.text.tfidf import tfidf, word_counts
from haxmlnet.text.tokenizer import WordTokenizer
from haxmlnet.training.checkpoints import Checkpoints, training_identity
from haxmlnet.training.hardware import (
    choose_device,
    choose_device_or_other,
    choose_dtype,
    place,
    processor_threads,
    training_threads,
)
from haxmlnet.tree import LabelTree

# Documents searched at a time: what both parts say of their candidates takes 12 kB each.
BLOCK_DOCUMENTS = 4096


class HAXMLNet(Settings, Model):
    """Hierarchical label-wise attention for texts with the right few of very many labels.

    Every argument of the constructor is a setting with a default; `docs/reference/settings.md` lists them.
    """

    tokenizer_: WordTokenizer
    trees_: list[TreeModel]
    idf_: NDArray[np.float32]
    """Weights of the words in the features of the linear part."""

    @classmethod
    def from_preset(cls, name: str, **settings: Any) -> Self:
        """Make a model with the settings of a preset (`paper`, `amazon-670k`, ...), some of them changed."""
        return cls(**{**preset(name), **settings})

    def fit(
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
        check_settings(settings_of(self))
        self._check_texts_wanted(texts)
        texts = checked_texts(texts)
        index, targets = index_labels(labels, len(texts), label_names)
        given = None if validation is None else _checked_validation(validation, index)
        corpus = prepare_texts(texts, index, targets, progress)
        self._fit(corpus, given, checkpoint_dir, resume, progress or Progress())
        self.training_["seconds"] = round(time.monotonic() - started, 1)
        return self

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
        return self._fit(corpus, validation, checkpoint_dir, resume, progress or Progress())

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
        sizes = counted.changed(documents, labels, words, labels_per_document, vocabulary)
        chosen = check_settings(settings_of(self))
        return Plan.of(sizes, resolve_settings(chosen, sizes.n_documents, sizes.n_labels))

    def _fit(
        self,
        corpus: PreparedCorpus,
        validation: Validation | None,
        checkpoint_dir: str | Path | None,
        resume: bool,
        progress: Progress,
    ) -> Self:
        started = time.monotonic()
        settings = resolve_settings(check_settings(settings_of(self)), len(corpus), corpus.n_labels)
        device = choose_device(settings["device"])
        tokenizer = vocabulary(corpus, settings)
        if settings["check_memory"]:
            refuse_what_does_not_fit(corpus, settings, has_checkpoints=checkpoint_dir is not None)
        held_out = None
        if validation is not None:
            held_out = validation_documents(validation, tokenizer, corpus.label_index, settings)
        checkpoints = None
        if checkpoint_dir is not None:
            checkpoints = _start_checkpoints(checkpoint_dir, corpus, held_out, settings, resume)
        with training_threads(settings["n_jobs"]):
            documents = all_documents(corpus, tokenizer, settings, progress)
            trees = []
            for number in range(settings["n_trees"]):
                prepared = prepare_training(corpus, tokenizer, held_out, settings, progress, documents, number)
                trees.append(train_tree(prepared, settings, number, checkpoints, progress))
                n_validation = len(prepared.validation or ())
                del prepared  # room for what the next one is trained on
            threads = torch.get_num_threads()
        self.label_index_, self.tokenizer_, self.trees_ = corpus.label_index, tokenizer, trees
        self.idf_ = documents.idf
        self.label_counts_ = np.bincount(corpus.label_ids, minlength=corpus.n_labels)
        self.training_ = {
            "n_documents": len(corpus), "n_validation": n_validation,
            "labels_per_document": len(corpus.label_ids) / len(corpus),
            "validation_nDCG@5": [round(tree.score, 4) for tree in trees],
            "seconds": round(time.monotonic() - started, 1), "threads": threads,
            "device": device.type, "numbers": str(choose_dtype(settings["precision"], device)).removeprefix("torch."),
            "torch_version": torch.__version__,
            "settings": settings,
        }  # fmt: skip
        return self

    def predict(self, texts: Sequence[str], k: int = 5) -> Ranking:
        """Rank the best k labels of each text, by probability.

        Without the linear part, a score is the product of the probabilities along the path.
        """
        texts, k = self._checked_query(texts, k)
        for network in (network for model in self.trees_ for network in model.networks):
            if network.dtype != choose_dtype(self.precision, network.device):
                place(network, network.device, self.precision)
        with processor_threads(self.n_jobs):
            starts = range(0, max(len(texts), 1), BLOCK_DOCUMENTS)
            ranking = joined([self._rank(texts[start : start + BLOCK_DOCUMENTS], k) for start in starts])
        return Ranking(ranking.ids, ranking.scores, self.label_index_.names)

    def _rank(self, texts: list[str], k: int) -> Ranking:
        settings = self.training_["settings"]
        words = self.tokenizer_.encode(texts)
        tokens = words.truncated(settings["max_length"])
        n_threads = torch.get_num_threads()
        features, near = None, None
        part = next((model.linear for model in self.trees_ if model.linear is not None), None)
        if part is not None:
            features = tfidf(word_counts(words, self.tokenizer_.n_words), self.idf_)
            near = part.nearest(features, n_threads)
        width = width_per_tree(k, len(self.trees_), len(self.label_index_))
        beam = self.beam or settings["beam"]
        rankings = [
            model.search(tokens, features, near, max(beam, _groups_with(k, model.tree)), width, n_threads)
            for model in self.trees_
        ]
        return average_rankings(rankings, k)

    def _write_parts(self, directory: Path) -> None:
        write_text(directory / "tokenizer.json", self.tokenizer_.to_json())
        for number, model in enumerate(self.trees_):
            write_arrays(directory / f"tree_{number}.safetensors", model.tree.to_tensors())
            for network in model.networks:
                file = directory / f"tree_{number}.level_{network.first_level}.safetensors"
                write_arrays(file, network_arrays(network))
            if model.linear is not None:
                arrays = {"idf": self.idf_, **model.linear.to_arrays()}
                write_arrays(directory / f"tree_{number}.linear.safetensors", arrays)
        parts = [model.linear for model in self.trees_ if model.linear is not None]
        write_neighbours(directory, parts[0].neighbours if parts else None)

    def _read_parts(self, saved: SavedModel) -> None:
        own = {"device": choose_device_or_other(self.device).type, "precision": self.precision}
        settings = {**self.training_["settings"], **own}
        self.tokenizer_ = WordTokenizer.from_json(saved.text("tokenizer.json"))
        self.trees_ = []
        neighbours = read_neighbours(saved, len(self.label_index_), self.tokenizer_.n_words)
        for number in range(settings["n_trees"]):
            tree = LabelTree.from_tensors(saved.arrays(f"tree_{number}.safetensors"))
            model = TreeModel(tree, score=self.training_["validation_nDCG@5"][number])
            for levels in levels_of_networks(tree, settings):
                name = f"tree_{number}.level_{levels[0]}.safetensors"
                network = saved_network(saved.arrays(name), tree, levels, settings, str(saved.file(name)))
                model.networks.append(network)
            model.linear = self._read_linear_part(saved, f"tree_{number}.linear.safetensors", tree, neighbours)
            self.trees_.append(model)

    def _read_linear_part(
        self, saved: SavedModel, name: str, tree: LabelTree, neighbours: Neighbours | None
    ) -> LinearPart | None:
        if name not in saved:
            return None
        arrays, n_words = saved.arrays(name), self.tokenizer_.n_words
        self.idf_ = arrays.pop("idf", np.zeros(0, np.float32))
        if self.idf_.shape != (n_words,):
            raise ModelError(f"{saved.file(name)}: expected the weights of {n_words} words, got {self.idf_.shape}.")
        return LinearPart.from_arrays(
            arrays, tree_for_linear(tree), self.label_counts_, n_words, neighbours, n_more_signals=1 + tree.n_levels
        )

    def describe(self) -> dict[str, Any]:
        """Say what the model is made of, as `haxmlnet inspect` prints it."""
        self._check_fitted()
        levels = [
            {"tree": number, **model.describe_level(level)}
            for number, model in enumerate(self.trees_)
            for level in range(model.tree.n_levels)
        ]
        training = {name: value for name, value in self.training_.items() if name != "settings"}
        return {
            "method": type(self).__name__, "n_labels": len(self.label_index_), "n_words": self.tokenizer_.n_words,
            "n_trees": len(self.trees_), "parameters": sum(level["parameters"] for level in levels),
            "levels": levels, "training": training, "settings": self.training_["settings"],
        }  # fmt: skip

    def nested_trees(self) -> list[dict[str, Any]]:
        """Give each label tree as nested nodes, its groups with the names of their labels."""
        self._check_fitted()
        return [model.tree.to_nested(self.label_index_.names.tolist()) for model in self.trees_]


def _start_checkpoints(
    directory: str | Path, corpus: PreparedCorpus, held_out: Labelled | None, settings: dict[str, Any], resume: bool
) -> Checkpoints:
    decisive = {name: value for name, value in settings.items() if name != "check_memory"}
    identity = training_identity(decisive, corpus.digest, () if held_out is None else held_out.arrays())
    return Checkpoints.start(directory, identity, settings["checkpoint_seconds"], resume)


def _groups_with(k: int, tree: LabelTree) -> int:
    """Say how many groups hold k labels, whichever they are: a narrower beam could not find so many."""
    n_groups = tree.level_sizes[-2] if tree.n_levels > 1 else 1
    return -(-k // (tree.n_labels // n_groups))


def _checked_validation(validation: tuple[Sequence[str], Any], index: LabelIndex) -> tuple[list[str], sp.csr_array]:
    texts, targets = checked_texts(validation[0]), truth_matrix(validation[1], index)
    if len(texts) != targets.shape[0]:
        raise DataError(f"validation: expected {len(texts)} label sets, one a text, got {targets.shape[0]}.")
    return texts, targets
