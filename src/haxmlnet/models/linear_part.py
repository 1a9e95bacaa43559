"""The linear model of one tree as methods use it: trained beside held-out documents, fused, saved, loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.errors import ModelError
from haxmlnet.linear import Block, LinearLevel, LinearModel, NodeVectors, block_of, join_rankings, map_blocks
from haxmlnet.linear import names as label_names
from haxmlnet.linear import neighbours as label_neighbours
from haxmlnet.linear.names import LabelNames
from haxmlnet.linear.neighbours import Near, Neighbours
from haxmlnet.ranking import ABSENT, Ranking, rank
from haxmlnet.saved import SavedModel
from haxmlnet.search.fusion import Fusion, fit_fusion
from haxmlnet.store import write_arrays
from haxmlnet.tree import LabelTree, marked_in_rows, with_coarser_levels
from haxmlnet.tree.walk import parents_at

# Labels of a document that the rule of fusion compares: the best ones of the classifiers, those that it mentions, and
# those of training documents that are like it.
CANDIDATES = 32
MENTIONED = 16
NEIGHBOURING = 8
# Nodes with less than a twentieth of the best one's score are not searched, as long as there is a choice of labels.
FURTHEST = 3.0
# More nodes in the first level than this take longer to train than one more level above them.
MAX_FIRST_LEVEL = 512
MAX_FAN_OUT = 32
NEIGHBOURS_FILE = "neighbours.safetensors"
# Classifiers trained beside at most this part of the documents are kept: to train them anew on all documents would
# take as long again. Labels that only held-out documents have are left to names and to documents that are alike.
FEW_HELD_OUT = 0.01


def learns_anew(n_held_out: int, n_documents: int) -> bool:
    """Say whether classifiers are trained on all documents once the rule of fusion is fitted on those held out."""
    return n_held_out > FEW_HELD_OUT * n_documents


@dataclass(frozen=True)
class LinearPart:
    """A linear model, and the rule that turns what it says of a label into a probability."""

    model: LinearModel
    label_counts: NDArray[np.int64]
    fusion: Fusion | None = None
    """None: labels are ranked by the scores of the tree."""
    names: LabelNames | None = None
    """None: labels are known by their documents alone."""
    neighbours: Neighbours | None = None
    """None: documents are not compared with each other."""

    def nearest(self, features: sp.csr_array, n_threads: int) -> Near | None:
        """Find the training documents that each document is like; the same for every tree."""
        if self.neighbours is None:
            return None
        work = partial(self.neighbours.near, features)
        return Near.joined(list(map_blocks(work, features.shape[0], n_threads, label_neighbours.N_NEAREST)))

    def search(self, features: sp.csr_array, near: Near | None, beam: int, k: int, n_threads: int) -> Ranking:
        """Rank the best k labels of each document."""
        if self.fusion is None:
            return self.model.rank(features, beam, k, n_threads)
        fusion, width = self.fusion, max(CANDIDATES, k)

        def search_block(rows: range) -> Ranking:
            ids, signals = self._block_candidates(features, rows, _of(near, rows), beam, width)
            probabilities = fusion.probabilities(signals, ids != ABSENT)
            return rank(ids, probabilities, min(k, self.model.tree.n_labels), None, self.model.tree.n_labels)

        n_numbers = self.model.search_size(beam, width)
        return join_rankings(list(map_blocks(search_block, features.shape[0], n_threads, n_numbers)))

    def proposals(self, features: sp.csr_array, near: Near | None, beam: int, n_threads: int) -> NDArray[np.int32]:
        """Give the labels of each document that may be right, best first."""

        def propose(rows: range) -> NDArray[np.int32]:
            ids = self.model.search(block_of(features, rows), beam, CANDIDATES, FURTHEST).ranking.ids
            return in_turn(ids, *self._others(features, rows, _of(near, rows)))

        n_numbers = self.model.search_size(beam, CANDIDATES)
        return np.concatenate(list(map_blocks(propose, features.shape[0], n_threads, n_numbers)))

    @property
    def n_proposed(self) -> int:
        """How many labels are proposed for each document."""
        of_names = 0 if self.names is None else MENTIONED
        of_neighbours = 0 if self.neighbours is None else NEIGHBOURING
        return min(CANDIDATES, self.model.tree.n_labels) + of_names + of_neighbours

    def candidates(
        self, features: sp.csr_array, near: Near | None, beam: int, n_threads: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Give the labels of each document that may be right (documents, W), and the signals of each."""
        n_numbers = self.model.search_size(beam, CANDIDATES)
        blocks = map_blocks(
            lambda rows: self._block_candidates(features, rows, _of(near, rows), beam, CANDIDATES),
            features.shape[0],
            n_threads,
            n_numbers,
        )
        ids, signals = zip(*blocks, strict=True)
        return np.concatenate(ids), np.concatenate(signals)

    def _block_candidates(
        self, features: sp.csr_array, rows: range, near: Near | None, beam: int, width: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        block = block_of(features, rows)
        search = self.model.search(block, beam, width, FURTHEST)
        ids, margins = search.ranking.ids, search.margins
        for others in self._others(features, rows, near):
            others[marked_in_rows(others, ids)] = ABSENT
            ids = np.concatenate([ids, others], axis=1)
        if ids.shape[1] > margins.shape[1]:
            of_others = self.model.path_margins(block, ids[:, margins.shape[1] :], search)
            margins = np.concatenate([margins, of_others], axis=1)
        return ids, self._signals(block, margins, features, rows, ids, near)

    def signals(
        self, features: sp.csr_array, labels: NDArray[np.int32], near: Near | None, n_threads: int
    ) -> NDArray[np.float32]:
        """Say of some labels (documents, W) what the model thinks, how frequent they are, and what of name and kin."""

        def signals_of(rows: range) -> NDArray[np.float32]:
            wanted = labels[rows.start : rows.stop]
            block = block_of(features, rows)
            margins = self.model.path_margins(block, wanted)
            return self._signals(block, margins, features, rows, wanted, _of(near, rows))

        n_numbers = labels.shape[1] * self.n_signals
        return np.concatenate(list(map_blocks(signals_of, features.shape[0], n_threads, n_numbers)))

    def _others(self, features: sp.csr_array, rows: range, near: Near | None) -> list[NDArray[np.int32]]:
        """Give labels that may be right whatever the classifiers say: those mentioned, those of similar documents."""
        others = []
        if self.names is not None:
            others.append(self.names.mentioned(features, rows, MENTIONED))
        if self.neighbours is not None and near is not None:
            others.append(self.neighbours.proposed(near, NEIGHBOURING))
        return others

    def _signals(
        self,
        block: Block,
        margins: NDArray[np.float32],
        features: sp.csr_array,
        rows: range,
        labels: NDArray[np.int32],
        near: Near | None,
    ) -> NDArray[np.float32]:
        """Put all that is known of some labels (B, W) into one array (B, W, signals)."""
        signals = np.zeros((*labels.shape, self.n_signals), np.float32)
        n = len(self.model.levels) + 2
        self.model.features(block, labels, margins, out=signals[..., :n])
        signals[..., n] = self._frequencies[labels]
        if self.names is not None:
            self.names.signals(features, rows, labels, out=signals[..., n + 1 : n + 1 + label_names.N_SIGNALS])
        if self.neighbours is not None and near is not None:
            self.neighbours.signals(near, labels, out=signals[..., -label_neighbours.N_SIGNALS :])
        return signals

    @cached_property
    def _frequencies(self) -> NDArray[np.float32]:
        return np.log1p(self.label_counts).astype(np.float32)

    def fitted_fusion(
        self, features: sp.csr_array, targets: sp.csr_array, beam: int, seed: int, n_threads: int
    ) -> Fusion | None:
        """Fit the rule on documents that the model was not trained on."""
        candidates, signals = self.candidates(features, self.nearest(features, n_threads), beam, n_threads)
        return fit_fusion(signals, candidates != ABSENT, marked_true(candidates, targets), seed)

    @property
    def n_signals(self) -> int:
        """How many numbers describe a candidate."""
        of_names = 0 if self.names is None else label_names.N_SIGNALS
        of_neighbours = 0 if self.neighbours is None else label_neighbours.N_SIGNALS
        return len(self.model.levels) + 3 + of_names + of_neighbours

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give all that was learned by name, for saving."""
        levels = self.model.levels
        arrays: dict[str, NDArray[Any]] = {f"level_{depth}.biases": level.biases for depth, level in enumerate(levels)}
        parts = {f"level_{depth}": level.vectors.to_arrays() for depth, level in enumerate(levels)}
        parts["prototypes"] = self.model.prototypes.to_arrays()
        parts |= {} if self.fusion is None else {"fusion": self.fusion.to_arrays()}
        parts |= {} if self.names is None else {"names": self.names.to_arrays()}
        return arrays | {f"{part}.{name}": value for part, own in parts.items() for name, value in own.items()}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        tree: LabelTree,
        label_counts: NDArray[np.int64],
        n_features: int,
        neighbours: Neighbours | None = None,
        n_more_signals: int = 0,
    ) -> LinearPart:
        """Make it from its named arrays, after checking that they fit the tree; others may add signals to the rule."""
        levels = []
        for depth, n_nodes in enumerate(tree.level_sizes):
            vectors = _vectors(arrays, f"level_{depth}", n_nodes, n_features, parents_at(tree, depth))
            biases = arrays.get(f"level_{depth}.biases", np.zeros(0))
            if biases.shape != (n_nodes,):
                raise ModelError(f"linear level {depth}: expected {n_nodes} biases, got {biases.shape}.")
            levels.append(LinearLevel(vectors, biases))
        parent_of = parents_at(tree, tree.n_levels - 1)
        model = LinearModel(tree, levels, _vectors(arrays, "prototypes", tree.n_labels, n_features, parent_of))
        names = _under(arrays, "names.")
        part = cls(model, label_counts, neighbours=neighbours)
        if names:
            part = replace(part, names=LabelNames.from_arrays(names, tree.n_labels, n_features))
        fusion = _under(arrays, "fusion.")
        return replace(part, fusion=Fusion.from_arrays(fusion, part.n_signals + n_more_signals)) if fusion else part


def write_neighbours(directory: Path, neighbours: Neighbours | None) -> None:
    """Save the training documents that new ones are compared with, once for all trees."""
    if neighbours is not None:
        write_arrays(directory / NEIGHBOURS_FILE, neighbours.to_arrays())


def read_neighbours(saved: SavedModel, n_labels: int, n_features: int) -> Neighbours | None:
    """Load the training documents that new ones are compared with; None where the model has none."""
    if NEIGHBOURS_FILE not in saved:
        return None
    return Neighbours.from_arrays(saved.arrays(NEIGHBOURS_FILE), n_labels, n_features)


def in_turn(*lists: NDArray[np.int32]) -> NDArray[np.int32]:
    """Join lists of labels of the same documents, each (documents, W): one of each in turn; no label comes twice."""
    joined_ids = lists[0]
    for labels in lists[1:]:
        joined_ids = np.concatenate([joined_ids, np.where(marked_in_rows(labels, joined_ids), ABSENT, labels)], axis=1)
    order = np.concatenate([len(lists) * np.arange(labels.shape[1]) + n for n, labels in enumerate(lists)])
    return joined_ids[:, np.argsort(order)].astype(np.int32)


def tree_for_linear(tree: LabelTree) -> LabelTree:
    """Put levels above the tree where its first one is too wide for linear classifiers."""
    return with_coarser_levels(tree, MAX_FIRST_LEVEL, MAX_FAN_OUT)


def marked_true(labels: NDArray[np.int32], targets: sp.csr_array) -> NDArray[np.bool_]:
    """Say which of some labels (documents, W) are true."""
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    true = rows * np.int64(targets.shape[1]) + targets.indices
    asked = np.arange(len(labels))[:, None] * np.int64(targets.shape[1]) + labels
    return np.isin(asked, true) & (labels != ABSENT)


def _of(near: Near | None, rows: range) -> Near | None:
    return None if near is None else near.of(rows)


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def _vectors(
    arrays: Mapping[str, NDArray[Any]], name: str, n_nodes: int, n_features: int, parent_of: NDArray[np.int32] | None
) -> NodeVectors:
    try:
        return NodeVectors.from_arrays(_under(arrays, f"{name}."), n_nodes, n_features, parent_of)
    except (KeyError, ValueError) as error:
        raise ModelError(f"{name}: does not hold the weights of {n_nodes} nodes ({error}).") from None
