"""`ModelShape`: the levels of the trees that would be trained, their parameters and their candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from haxmlnet.models.linear_part import CANDIDATES, MENTIONED, NEIGHBOURING
from haxmlnet.models.linear_part import MAX_FAN_OUT as LINEAR_FAN_OUT
from haxmlnet.models.linear_part import MAX_FIRST_LEVEL as LINEAR_FIRST_LEVEL
from haxmlnet.models.preparation import held_out_size
from haxmlnet.models.tree_model import MAX_FAN_OUT
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.search.fusion import MIN_DOCUMENTS
from haxmlnet.text.word_vectors import vector_width
from haxmlnet.tree import LabelTree, choose_level_sizes, with_coarser_levels


@dataclass(frozen=True)
class LevelShape:
    """One level of a tree."""

    level: int
    nodes: int
    children: float
    """Mean number of children of a node; 0 for labels."""
    parameters: int
    """Numbers learned; those of an encoder count on the first level that reads it."""
    table_parameters: int
    """Those of them that each node has for itself."""
    training_candidates: float
    """Mean number of nodes that a training document is compared with."""
    most_candidates: int
    """The same for the document with the most labels."""
    prediction_candidates: int


@dataclass(frozen=True)
class ModelShape:
    """What would be trained on data of given sizes with given settings, all of them decided."""

    sizes: DataSizes
    settings: Mapping[str, Any]
    has_checkpoints: bool = True
    """Whether training leaves its state on disk, and the best weights so far with it."""

    @cached_property
    def level_sizes(self) -> list[int]:
        """Nodes of each level, coarsest first, the labels last."""
        sizes = self.settings["level_sizes"]
        if sizes is None:
            limits = self.settings["group_size"], self.settings["max_first_level"], MAX_FAN_OUT
            sizes = choose_level_sizes(self.sizes.n_labels, *limits)
        return [*sizes, self.sizes.n_labels]

    @cached_property
    def tree(self) -> LabelTree:
        """A tree of these sizes, whose labels are in any order."""
        return even_tree(self.level_sizes)

    @cached_property
    def linear_tree(self) -> LabelTree:
        """The tree of the linear part."""
        return with_coarser_levels(self.tree, LINEAR_FIRST_LEVEL, LINEAR_FAN_OUT)

    @cached_property
    def vocabulary(self) -> int:
        """Word ids."""
        return self.sizes.vocabulary(self.settings)

    @cached_property
    def word_size(self) -> int:
        """Width of the word vectors."""
        path = self.settings["vectors"]
        return int(self.settings["word_size"]) if path is None else vector_width(path)

    @property
    def state_size(self) -> int:
        """Width of the states that labels attend to."""
        return 2 * int(self.settings["hidden_size"]) + (self.word_size if self.settings["attend_words"] else 0)

    @property
    def n_held_out(self) -> int:
        """Documents held out for validation."""
        return held_out_size(self.sizes.n_documents, self.settings)

    @property
    def n_training(self) -> int:
        """Documents that the networks are trained on."""
        return self.sizes.n_documents - self.n_held_out

    @property
    def has_linear_part(self) -> bool:
        """Whether linear classifiers are trained, too: the rule of fusion needs documents to be fitted on."""
        return bool(self.settings["linear"]) and self.n_held_out >= MIN_DOCUMENTS

    @cached_property
    def encoder_parameters(self) -> int:
        """Numbers learned by an encoder, the word vectors included."""
        hidden = self.settings["hidden_size"]
        lstm = 4 * hidden * (self.word_size + hidden + 2)
        return self.vocabulary * self.word_size + 2 * lstm

    @cached_property
    def levels(self) -> list[LevelShape]:
        """All levels of a tree, coarsest first."""
        return [self._level(level) for level in range(len(self.level_sizes))]

    @property
    def networks(self) -> list[list[LevelShape]]:
        """The levels of each network of a tree."""
        return [self.levels] if self.settings["shared_encoder"] else [[level] for level in self.levels]

    @property
    def parameters(self) -> int:
        """Numbers learned by the networks of all trees."""
        return int(self.settings["n_trees"]) * sum(level.parameters for level in self.levels)

    def _level(self, level: int) -> LevelShape:
        nodes, is_last = self.level_sizes[level], level == len(self.level_sizes) - 1
        widths, last = self.settings["mlp_sizes"], self.settings["mlp_sizes"][-1]
        table = nodes * (self.state_size + (last + 1 if self.settings["own_outputs"] else 0))
        shared = sum((size + 1) * width for size, width in pairwise((self.state_size, *widths, 1)))
        has_encoder = level == 0 or not self.settings["shared_encoder"]
        return LevelShape(
            level, nodes, 0.0 if is_last else self.level_sizes[level + 1] / nodes,
            table + shared + (self.encoder_parameters if has_encoder else 0), table, *self._candidates(level),
        )  # fmt: skip

    def _candidates(self, level: int) -> tuple[float, int, int]:
        nodes = self.level_sizes[level]
        if level == 0:
            return nodes, nodes, nodes
        above = self.level_sizes[level - 1]
        children, most_children, limit = nodes / above, -(-nodes // above), self.settings["candidates"]
        negatives, beam = self.settings["hard_negatives"], self.settings["beam"]
        n_proposed = CANDIDATES + MENTIONED + NEIGHBOURING if self.has_linear_part else 0
        mean = min(self.sizes.labels_per_document + negatives, above) * children
        most = min(self.sizes.most_labels + negatives, above) * most_children
        return (
            min(mean, limit),
            max(min(most, limit), self.sizes.most_labels),
            min(beam, above) * most_children + n_proposed,
        )


def even_tree(level_sizes: list[int]) -> LabelTree:
    """Make a tree whose nodes lie in order below their parents, as evenly as can be."""
    parents = [
        (np.arange(below, dtype=np.int64) * size // below).astype(np.int32) for size, below in pairwise(level_sizes)
    ]
    return LabelTree(tuple(parents), level_sizes[-1])
