"""`ModelShape`: the levels of the trees that would be trained, their parameters, candidates and sparse features."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from haxmlnet.config import Config, NetworkConfig, TrainingConfig, haxmlnet_config
from haxmlnet.data.cores import count_cores
from haxmlnet.evidence.classifier_tree import coarsen, gains_from_held_out
from haxmlnet.evidence.fold import count_held_out
from haxmlnet.evidence.fusion import MIN_DOCUMENTS
from haxmlnet.evidence.nearest_documents import HEAVIEST
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.text.word_vectors import vector_width
from haxmlnet.tree import LabelTree, choose_level_sizes

# Weights of a linear classifier: factor * words of its documents ** power, as counted on five collections of 400 to
# 60,000 labels. Those of the first level learn from all documents, and keep more.
WEIGHTS_FACTOR, FIRST_LEVEL_FACTOR, WEIGHTS_POWER = 10, 20, 0.4


@dataclass(frozen=True)
class LevelShape:
    """One level of a tree."""

    level: int
    nodes: int
    children: float
    """Mean number of children of a node; 0 for labels."""
    parameters: int
    """Those of an encoder count on the first level that reads it."""
    table_parameters: int
    """Those of them that each node has for itself."""
    training_candidates: float
    """Mean number of nodes that a training document is compared with."""
    most_candidates: int
    """The same for the document with the most labels."""
    prediction_candidates: int


@dataclass(frozen=True)
class ModelShape:
    """What would be trained on data of these sizes with these settings, none of them left to choose."""

    sizes: DataSizes
    settings: Mapping[str, Any]
    has_checkpoints: bool = True
    """Whether checkpoints are written, and the best weights so far with them."""

    def with_settings(self, **changes: Any) -> ModelShape:
        """Return the shape with some settings changed."""
        return dataclasses.replace(self, settings={**self.settings, **changes})

    @cached_property
    def config(self) -> Config:
        """The settings, typed."""
        return haxmlnet_config(self.settings, self.sizes.n_labels)

    @property
    def network(self) -> NetworkConfig:
        """The settings of the networks."""
        assert self.config.network is not None
        return self.config.network

    @property
    def training(self) -> TrainingConfig:
        """The settings of their training."""
        assert self.config.training is not None
        return self.config.training

    @property
    def n_threads(self) -> int:
        """Threads of the training."""
        return self.config.machine.n_jobs or count_cores()

    @property
    def n_held_out(self) -> int:
        """Documents held out for validation."""
        return count_held_out(self.sizes.n_documents, self.config)

    @property
    def n_training(self) -> int:
        """Documents that the networks are trained on."""
        return self.sizes.n_documents - self.n_held_out

    @cached_property
    def vocabulary(self) -> int:
        """Word ids."""
        return self.sizes.vocabulary(self.config.text)

    @cached_property
    def word_size(self) -> int:
        """Width of the word vectors."""
        text = self.config.text
        return text.word_size if text.vectors is None else vector_width(text.vectors)

    @property
    def state_size(self) -> int:
        """Width of the states that labels attend to."""
        return 2 * self.network.hidden_size + self.word_size * self.network.attend_words

    @cached_property
    def level_sizes(self) -> list[int]:
        """Nodes of each level, coarsest first, the labels last."""
        sizes, tree = self.config.tree.level_sizes, self.config.tree
        if sizes is None:
            limits = tree.group_size, tree.max_first_level, tree.max_fan_out
            sizes = tuple(choose_level_sizes(self.sizes.n_labels, *limits))
        return [*sizes, self.sizes.n_labels]

    @cached_property
    def tree(self) -> LabelTree:
        """A tree of these sizes, whose labels are in any order."""
        return make_even_tree(self.level_sizes)

    @cached_property
    def linear_tree(self) -> LabelTree:
        """The tree of the linear classifiers."""
        return coarsen(self.tree)

    @cached_property
    def encoder_parameters(self) -> int:
        """Parameters of an encoder, the word vectors included."""
        hidden = self.network.hidden_size
        lstm = 4 * hidden * (self.word_size + hidden + 2)
        return self.vocabulary * self.word_size + 2 * lstm

    @property
    def table_widths(self) -> list[int]:
        """Widths of the tables with a row for each node: attention queries, and output vectors with their biases."""
        return [self.state_size] + [self.network.mlp_sizes[-1] + 1] * self.network.own_outputs

    @cached_property
    def levels(self) -> list[LevelShape]:
        """All levels of a tree, coarsest first."""
        sizes, n_negatives = self.sizes, self.training.hard_negatives
        layers = (self.state_size, *self.network.mlp_sizes, 1)
        shared = sum((width + 1) * width_after for width, width_after in pairwise(layers))
        # In prediction, labels that the other evidence proposes are scored as well.
        n_proposed = self.config.search.n_candidates * self.has_linear_tree
        n_proposed += n_proposed // 2 * self.config.fusion.names + n_proposed // 4 * self.config.fusion.neighbours

        levels = []
        for level, nodes in enumerate(self.level_sizes):
            table = nodes * sum(self.table_widths)
            has_encoder = level == 0 or not self.network.shared_encoder
            parameters = table + shared + has_encoder * self.encoder_parameters
            children = self.level_sizes[level + 1] / nodes if level + 1 < len(self.level_sizes) else 0.0
            mean: float = nodes
            most = predicted = nodes
            if level > 0:
                # Children of the true parents and of the best wrong ones: at most c, but all true nodes.
                above, limit = self.level_sizes[level - 1], self.training.candidates
                most_children = -(-nodes // above)
                mean = min(min(sizes.labels_per_document + n_negatives, above) * nodes / above, limit)
                most = max(min(min(sizes.most_labels + n_negatives, above) * most_children, limit), sizes.most_labels)
                predicted = min(self.config.search.beam, above) * most_children + n_proposed
            levels.append(LevelShape(level, nodes, children, parameters, table, mean, most, predicted))
        return levels

    @property
    def networks(self) -> list[list[LevelShape]]:
        """The levels of each network of a tree."""
        return [self.levels] if self.network.shared_encoder else [[level] for level in self.levels]

    @property
    def parameters(self) -> int:
        """Parameters of the networks of all trees."""
        return self.config.tree.n_trees * sum(level.parameters for level in self.levels)

    @property
    def has_linear_tree(self) -> bool:
        """Whether linear classifiers are trained, too: their fusion needs documents to be fitted on."""
        return self.config.fusion.enabled and self.n_held_out >= MIN_DOCUMENTS

    @property
    def retrains_linear_tree(self) -> bool:
        """Whether they are trained again on all documents, once the fusion is fitted."""
        return gains_from_held_out(self.n_held_out, self.sizes.n_documents)

    @property
    def n_tfidf(self) -> int:
        """Entries of TF-IDF."""
        return round(self.sizes.n_documents * self.sizes.distinct_words(self.vocabulary))

    @property
    def n_label_features(self) -> int:
        """Estimated entries of the features of labels."""
        words = self.sizes.words_per_label(self.vocabulary, self.config.tree.label_words)
        return round(self.sizes.n_labels * words)

    @property
    def n_postings(self) -> int:
        """Features of the training documents among which the nearest neighbors of new ones are found."""
        if not (self.has_linear_tree and self.config.fusion.neighbours):
            return 0
        return round(self.sizes.n_documents * min(self.sizes.distinct_words(self.vocabulary), HEAVIEST))

    @property
    def linear_weights(self) -> list[float]:
        """Estimated weights of the linear classifiers of each level that are not dropped as too small."""
        sizes, counts = self.sizes, []
        words = sizes.distinct_words(self.vocabulary)
        for level, nodes in enumerate(self.linear_tree.level_sizes):
            documents = max(min(sizes.n_pairs / nodes, sizes.n_documents), 1)
            factor = WEIGHTS_FACTOR if level else FIRST_LEVEL_FACTOR
            counts.append(nodes * min(factor * (words * documents) ** WEIGHTS_POWER, words * documents))
        return counts


def make_even_tree(level_sizes: list[int]) -> LabelTree:
    """Make a tree whose nodes lie in order below their parents, as evenly as can be."""
    parents = [
        (np.arange(below, dtype=np.int64) * size // below).astype(np.int32) for size, below in pairwise(level_sizes)
    ]
    return LabelTree(tuple(parents), level_sizes[-1])
