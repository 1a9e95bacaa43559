"""`Memory`: the bytes of a training and of its model by part, worked out from the shapes of what is held at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from haxmlnet.models.corpus_features import MAX_VECTOR_ENTRIES
from haxmlnet.models.linear_part import learns_anew
from haxmlnet.planning.batch_memory import FLOAT, n_threads, search_bytes, step_bytes
from haxmlnet.planning.entries import linear_weights, n_label_features, n_postings, n_tfidf
from haxmlnet.planning.shape import ModelShape
from haxmlnet.training.hardware import choose_device, moment_bytes
from haxmlnet.tree.features import BLOCK_ENTRIES

PREPARING, NETWORKS, LINEAR, PREDICTION = STAGES = ("preparing", "networks", "linear part", "prediction")
Stages = dict[str, float]
# Python and its libraries.
PROGRAM = 500_000_000
# A word or the name of a label as a string of Python, in a list and in a table.
NAME = 150
# An entry of a sparse matrix: the value and its column.
ENTRY = 8
# A weight of a linear classifier: its value, whose it is, and its share of the features of siblings.
LINEAR_WEIGHT = 10
# Moments of a table whose rows share theirs, over the size of the table.
ROW_MOMENTS = 0.5
# Documents of a prediction that keep all threads busy.
MANY = 2**20


@dataclass(frozen=True)
class Memory:
    """Bytes by part and stage; the stages of training come one after the other."""

    shape: ModelShape

    @cached_property
    def parts(self) -> dict[str, dict[str, int]]:
        """Bytes of each part in each stage, as far as there are any."""
        n_names = self.shape.vocabulary + self.shape.sizes.n_labels
        parts: dict[str, Stages] = {
            "program": dict.fromkeys(STAGES, PROGRAM),
            "words and label names": dict.fromkeys(STAGES, NAME * n_names),
            "documents": self._documents(),
            "features": self._features(),
            "word vectors": dict.fromkeys(STAGES[:3], FLOAT * self.shape.vocabulary * self.shape.word_size),
            "finished trees": self._finished_trees(),
            "weights": self._weights(),
            "optimizer": self._optimizer(),
            "copies of weights": self._copies(),
            "a batch, or an epoch's end": self._batches(),
            "linear classifiers": self._linear(),
            "training documents to compare with": self._neighbours(),
        }
        rounded = {name: {stage: round(size) for stage, size in part.items()} for name, part in parts.items()}
        return {name: part for name, part in rounded.items() if any(part.values())}

    @cached_property
    def totals(self) -> dict[str, int]:
        """Bytes of each stage."""
        stages = [stage for stage in STAGES if stage != LINEAR or self.shape.has_linear_part]
        return {stage: sum(part.get(stage, 0) for part in self.parts.values()) for stage in stages}

    @property
    def training_peak(self) -> int:
        """The most bytes that training holds at once."""
        return max(size for stage, size in self.totals.items() if stage != PREDICTION)

    @property
    def present(self) -> int:
        """Bytes that the process has already when it starts to train."""
        return PROGRAM + round(self._corpus)

    @property
    def mapped(self) -> int:
        """Bytes of files that are mapped into memory: the system drops them where it needs room."""
        sizes, n_entries = self.shape.sizes, n_tfidf(self.shape) + n_label_features(self.shape)
        return 0 if sizes.in_memory else FLOAT * (sizes.n_tokens + sizes.n_pairs) + ENTRY * n_entries

    @property
    def model_bytes(self) -> int:
        """Size of the model directory."""
        shape, linear = self.shape, 0.0
        if shape.has_linear_part:
            linear = ENTRY * (sum(linear_weights(shape)) + n_label_features(shape))
        names = 25 * shape.vocabulary + 20 * shape.sizes.n_labels
        trees = FLOAT * shape.parameters + shape.settings["n_trees"] * linear
        return round(trees + ENTRY * n_postings(shape) + FLOAT * shape.sizes.n_pairs + names)

    @property
    def checkpoint_bytes(self) -> int:
        """Size of the largest checkpoint: weights, moments, the best weights, and the average if there is one."""
        return round((2 + self._is_averaged) * self._trained + self._optimizer()[NETWORKS])

    @property
    def _corpus(self) -> float:
        """Documents that are in memory."""
        sizes = self.shape.sizes
        return FLOAT * (sizes.n_tokens + sizes.n_pairs) + 32 * sizes.n_documents if sizes.in_memory else 0

    def _documents(self) -> Stages:
        """The documents, bounds of their words, and their true nodes on every level."""
        sizes, n_levels = self.shape.sizes, len(self.shape.levels)
        corpus = self._corpus + 48 * sizes.n_documents + FLOAT * sizes.n_pairs
        targets = corpus + (n_levels + 2) * (ENTRY * sizes.n_pairs + 8 * sizes.n_documents)
        linear = targets + 2 * len(self.shape.linear_tree.level_sizes) * ENTRY * sizes.n_pairs
        return {PREPARING: corpus + ENTRY * sizes.n_pairs, NETWORKS: targets, LINEAR: linear}

    def _features(self) -> Stages:
        """Features that are in memory, and the copies that are made of mapped ones, too."""
        shape, entries, by_label = self.shape, n_tfidf(self.shape), n_label_features(self.shape)
        held = ENTRY * (entries + by_label) if shape.sizes.in_memory else 0
        making = 3.0 * ENTRY * min(by_label, BLOCK_ENTRIES * n_threads(shape))
        if shape.settings["vectors"] is None:
            used = min(entries, MAX_VECTOR_ENTRIES // 2) + min(by_label, MAX_VECTOR_ENTRIES // 2)
            rows = (shape.sizes.n_documents + shape.sizes.n_labels) * used / max(entries + by_label, 1)
            dense = 4 * FLOAT * (shape.word_size + 10) * (shape.vocabulary + rows)
            making = max(making, 3 * ENTRY * used + dense)
        # Linear classifiers learn from a copy without the documents held out, and its squares are taken once.
        return {PREPARING: held + making, NETWORKS: held, LINEAR: held + 2 * ENTRY * entries}

    @property
    def _tree(self) -> float:
        """Weights of the networks of a tree."""
        return FLOAT * sum(level.parameters for level in self.shape.levels)

    @property
    def _trained(self) -> float:
        """Weights of the largest network; no other is trained at the same time."""
        return FLOAT * max(sum(level.parameters for level in network) for network in self.shape.networks)

    def _finished_trees(self) -> Stages:
        size = (self.shape.settings["n_trees"] - 1) * (self._tree + self._linear_model)
        return {NETWORKS: size, LINEAR: size}

    def _weights(self) -> Stages:
        return {NETWORKS: self._tree, LINEAR: self._tree, PREDICTION: self.shape.settings["n_trees"] * self._tree}

    def _optimizer(self) -> Stages:
        """Two moments for each weight, until the networks are trained; smaller ones for large tables, or if asked."""
        words = self.shape.vocabulary * self.shape.word_size
        is_frozen = not self.shape.settings["train_word_vectors"]
        size = 2 * (self._trained - is_frozen * FLOAT * words)
        tables = self._tables + ([] if is_frozen else [words])
        if self.shape.settings["row_moments"]:
            size -= (2 - ROW_MOMENTS) * FLOAT * sum(tables)
        elif self._is_on_processor:
            size -= sum(2 * (FLOAT - moment_bytes(n_numbers)) * n_numbers for n_numbers in tables)
        return {NETWORKS: size}

    @property
    def _is_on_processor(self) -> bool:
        device = self.shape.settings["device"]
        return bool((choose_device(device).type if device == "auto" else device) == "cpu")

    @property
    def _tables(self) -> list[int]:
        """Numbers in each table of nodes, of which a batch touches few rows, in the largest network."""
        settings = self.shape.settings
        widths = [self.shape.state_size, *([settings["mlp_sizes"][-1] + 1] if settings["own_outputs"] else [])]
        largest = max(self.shape.networks, key=lambda network: sum(level.parameters for level in network))
        return [level.nodes * width for level in largest if level.level > 0 for width in widths]

    @property
    def _is_averaged(self) -> bool:
        return bool(self.shape.settings["averaging_start"] < 1)

    def _copies(self) -> Stages:
        """The best weights so far, where they are not on disk, and the average."""
        return {NETWORKS: self._trained * (self._has_best + self._is_averaged)}

    @property
    def _has_best(self) -> bool:
        shape = self.shape
        return bool(shape.settings["epochs"] > 1 and shape.n_held_out > 0 and not shape.has_checkpoints)

    def _batches(self) -> Stages:
        """The largest batch: of training, of validation, and of the prediction of many documents.

        When an epoch ends, weights are copied instead: what is averaged, and those that are the best now.
        """
        shape, networks = self.shape, self.shape.networks
        training = max(step_bytes(shape, network) for network in networks)
        validation = max(search_bytes(shape, network, shape.n_held_out) for network in networks)
        prediction = max(search_bytes(shape, network, MANY) for network in networks)
        ending = self._is_averaged * self._trained + max(validation, self._has_best * self._trained)
        return {NETWORKS: max(training, ending), LINEAR: validation, PREDICTION: prediction}

    @property
    def _linear_model(self) -> float:
        if not self.shape.has_linear_part:
            return 0
        return LINEAR_WEIGHT * (sum(linear_weights(self.shape)) + n_label_features(self.shape))

    def _linear(self) -> Stages:
        """A model, the weights of its largest level before they are laid out, and the features of labels."""
        if not self.shape.has_linear_part:
            return {}
        making = ENTRY * max(linear_weights(self.shape))
        if learns_anew(self.shape.n_held_out, self.shape.sizes.n_documents):
            making += ENTRY * n_label_features(self.shape)  # of all documents; those of the others are mapped
        return {LINEAR: self._linear_model + making, PREDICTION: self.shape.settings["n_trees"] * self._linear_model}

    def _neighbours(self) -> Stages:
        """The heaviest features of the documents by feature; when they are made, by document as well."""
        size = ENTRY * n_postings(self.shape)
        return {LINEAR: 2 * size, PREDICTION: size + ENTRY * self.shape.sizes.n_pairs} if size else {}
