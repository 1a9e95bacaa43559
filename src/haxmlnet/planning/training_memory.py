"""`Memory`: the bytes of a training and of its model, by part and stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from haxmlnet.evidence.fold import MAX_VECTOR_ENTRIES
from haxmlnet.planning.batch_memory import FLOAT, findings_bytes, search_bytes, step_bytes
from haxmlnet.planning.model_shape import ModelShape
from haxmlnet.training.hardware import choose_device, moment_bytes
from haxmlnet.tree.label_features import BLOCK_ENTRIES

PREPARING, NETWORKS, LINEAR, PREDICTION = STAGES = ("preparing", "networks", "linear tree", "prediction")
Parts = dict[str, Mapping[str, float]]
# Python and its libraries.
PROGRAM = 500_000_000
# A word or the name of a label as a Python string, in a list and in a dictionary.
NAME = 150
# An entry of a sparse matrix: the value and its column.
ENTRY = 8
# A weight of a linear classifier: its value, its node, and its share of the features of siblings.
LINEAR_WEIGHT = 10
# Size of the moments of a table with `row_moments`, relative to the table.
ROW_MOMENTS = 0.5
# Documents of a prediction that keep all threads busy.
MANY = 2**20


@dataclass(frozen=True)
class Memory:
    """Bytes by part and stage; the stages of training come one after the other."""

    shape: ModelShape

    @cached_property
    def parts(self) -> dict[str, dict[str, int]]:
        """Bytes of each part in each stage where it has any."""
        parts = {**self._count_data(), **self._count_networks(), **self._count_linear_tree()}
        rounded = {name: {stage: round(size) for stage, size in part.items()} for name, part in parts.items()}
        return {name: part for name, part in rounded.items() if any(part.values())}

    @cached_property
    def totals(self) -> dict[str, int]:
        """Bytes of each stage."""
        stages = [stage for stage in STAGES if stage != LINEAR or self.shape.has_linear_tree]
        return {stage: sum(part.get(stage, 0) for part in self.parts.values()) for stage in stages}

    @property
    def training_peak(self) -> int:
        """The most bytes that training holds at once."""
        return max(size for stage, size in self.totals.items() if stage != PREDICTION)

    @property
    def present(self) -> int:
        """Bytes that the process has already when training starts."""
        return PROGRAM + round(self._corpus)

    @property
    def needed(self) -> int:
        """Bytes that training takes beside those."""
        return self.training_peak - self.present

    @property
    def mapped(self) -> int:
        """Bytes of memory-mapped files: the system drops their pages where it needs room."""
        sizes, n_entries = self.shape.sizes, self.shape.n_tfidf + self.shape.n_label_features
        return 0 if sizes.in_memory else FLOAT * (sizes.n_tokens + sizes.n_pairs) + ENTRY * n_entries

    @property
    def model_bytes(self) -> int:
        """Size of the model directory."""
        shape, linear = self.shape, 0.0
        if shape.has_linear_tree:
            linear = ENTRY * (sum(shape.linear_weights) + shape.n_label_features)
        names = 25 * shape.vocabulary + 20 * shape.sizes.n_labels
        trees = FLOAT * shape.parameters + shape.config.tree.n_trees * linear
        return round(trees + ENTRY * shape.n_postings + FLOAT * shape.sizes.n_pairs + names)

    @property
    def checkpoint_bytes(self) -> int:
        """Size of the largest checkpoint: weights, moments, the best weights, and the average if there is one."""
        return round((2 + self._is_averaged) * self._largest + self._moments)

    def _count_data(self) -> Parts:
        """Documents and their features, on the way to word vectors, targets and linear classifiers."""
        shape, sizes = self.shape, self.shape.sizes
        n_tfidf, n_label_features = shape.n_tfidf, shape.n_label_features

        # Documents, bounds of their words, and their true nodes on every level.
        corpus = self._corpus + 48 * sizes.n_documents + FLOAT * sizes.n_pairs
        targets = corpus + (len(shape.levels) + 2) * (ENTRY * sizes.n_pairs + 8 * sizes.n_documents)
        linear_targets = 2 * shape.linear_tree.n_levels * ENTRY * sizes.n_pairs

        # Features that are in memory, and the copies made of those that are mapped.
        features = ENTRY * (n_tfidf + n_label_features) if sizes.in_memory else 0
        making = 3.0 * ENTRY * min(n_label_features, BLOCK_ENTRIES * shape.n_threads)
        if shape.config.text.vectors is None:
            half = MAX_VECTOR_ENTRIES // 2
            used = min(n_tfidf, half) + min(n_label_features, half)
            n_rows = (sizes.n_documents + sizes.n_labels) * used / max(n_tfidf + n_label_features, 1)
            dense = 4 * FLOAT * (shape.word_size + 10) * (shape.vocabulary + n_rows)
            making = max(making, 3 * ENTRY * used + dense)
        # Linear classifiers learn from a copy without the documents held out, and from its squares.
        copies = 2 * ENTRY * n_tfidf

        return {
            "program": dict.fromkeys(STAGES, PROGRAM),
            "words and label names": dict.fromkeys(STAGES, NAME * (shape.vocabulary + sizes.n_labels)),
            "documents": {
                PREPARING: corpus + ENTRY * sizes.n_pairs, NETWORKS: targets, LINEAR: targets + linear_targets
            },
            "features": {PREPARING: features + making, NETWORKS: features, LINEAR: features + copies},
            "word vectors": dict.fromkeys(STAGES[:3], FLOAT * shape.vocabulary * shape.word_size),
        }  # fmt: skip

    def _count_networks(self) -> Parts:
        """Weights, moments and copies, and the largest batch."""
        shape, n_trees = self.shape, self.shape.config.tree.n_trees
        weights = FLOAT * sum(level.parameters for level in shape.levels)
        before = (n_trees - 1) * (weights + self._linear_model)

        # The best weights so far are on disk, with the checkpoints, if there are any.
        has_best = shape.training.epochs > 1 and shape.n_held_out > 0 and not shape.has_checkpoints
        best, average = has_best * self._largest, self._is_averaged * self._largest

        # The largest batch of training, of validation, and of the prediction of many documents. When an epoch ends,
        # weights are copied instead: those averaged, and those that are now the best.
        step = max(step_bytes(shape, network) for network in shape.networks)
        validation = max(search_bytes(shape, network, shape.n_held_out) for network in shape.networks)
        prediction = max(search_bytes(shape, network, MANY) for network in shape.networks)
        epoch_end = average + max(validation, best)

        return {
            "finished trees": {NETWORKS: before, LINEAR: before},
            "weights": {NETWORKS: weights, LINEAR: weights, PREDICTION: n_trees * weights},
            "optimizer": {NETWORKS: self._moments},
            "copies of weights": {NETWORKS: best + average},
            "a batch, or an epoch's end": {
                NETWORKS: max(step, epoch_end), LINEAR: validation + findings_bytes(shape, shape.n_held_out),
                PREDICTION: prediction + findings_bytes(shape, MANY),
            },
        }  # fmt: skip

    def _count_linear_tree(self) -> Parts:
        """Linear classifiers, the weights of their largest level before these are laid out, and nearest neighbors."""
        shape = self.shape
        if not shape.has_linear_tree:
            return {}
        making = ENTRY * max(shape.linear_weights)
        if shape.retrains_linear_tree:
            making += ENTRY * shape.n_label_features  # of all documents; those of the training documents are mapped
        classifiers = {LINEAR: self._linear_model + making, PREDICTION: shape.config.tree.n_trees * self._linear_model}

        # The heaviest features of the documents, by feature; by document as well while they are made.
        postings = ENTRY * shape.n_postings
        neighbors = {LINEAR: 2 * postings, PREDICTION: postings + ENTRY * shape.sizes.n_pairs} if postings else {}
        return {"linear classifiers": classifiers, "nearest neighbors": neighbors}

    @property
    def _corpus(self) -> float:
        """Documents that are in memory before training starts."""
        sizes = self.shape.sizes
        return FLOAT * (sizes.n_tokens + sizes.n_pairs) + 32 * sizes.n_documents if sizes.in_memory else 0

    @property
    def _largest(self) -> float:
        """Weights of the largest network; no other is trained at the same time."""
        return FLOAT * max(sum(level.parameters for level in network) for network in self.shape.networks)

    @property
    def _is_averaged(self) -> bool:
        return self.shape.training.averaging_start < 1

    @property
    def _linear_model(self) -> float:
        """Linear classifiers of a tree, once trained."""
        if not self.shape.has_linear_tree:
            return 0
        return LINEAR_WEIGHT * (sum(self.shape.linear_weights) + self.shape.n_label_features)

    @property
    def _moments(self) -> float:
        """Adam's moments: two for each weight that is trained, smaller ones for large tables and with `row_moments`."""
        shape, device = self.shape, self.shape.config.machine.device
        words = shape.vocabulary * shape.word_size
        is_frozen = not shape.network.train_word_vectors
        moments = 2 * (self._largest - is_frozen * FLOAT * words)

        # Tables of which a batch touches few rows: words, and the nodes of all levels but the first.
        network = max(shape.networks, key=lambda levels: sum(level.parameters for level in levels))
        tables = [level.nodes * width for level in network if level.level > 0 for width in shape.table_widths]
        tables += [] if is_frozen else [words]
        if shape.training.row_moments:
            moments -= (2 - ROW_MOMENTS) * FLOAT * sum(tables)
        elif device == "cpu" or (device == "auto" and choose_device(device).type == "cpu"):
            moments -= sum(2 * (FLOAT - moment_bytes(n_weights)) * n_weights for n_weights in tables)
        return moments
