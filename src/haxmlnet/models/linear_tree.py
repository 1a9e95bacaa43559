"""`LinearTree`: linear classifiers over a tree of labels (as Parabel and Bonsai), fused into probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.config import LinearConfig, linear_hard_negatives
from haxmlnet.data.cores import usable_cores
from haxmlnet.linear import LinearModel, LinearTask, train_linear_model
from haxmlnet.linear.names import LabelNames
from haxmlnet.linear.neighbours import Neighbours
from haxmlnet.models.linear_method import LinearMethod
from haxmlnet.models.linear_part import (
    MAX_FAN_OUT,
    LinearPart,
    learns_anew,
    read_neighbours,
    tree_for_linear,
    write_neighbours,
)
from haxmlnet.models.preparation import held_out_size, split_at_random
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking, average_rankings, width_per_tree
from haxmlnet.saved import SavedModel
from haxmlnet.search.fusion import MIN_DOCUMENTS, Fusion
from haxmlnet.settings import LinearTreeSettings
from haxmlnet.store import write_arrays
from haxmlnet.tree import LabelTree, build_label_tree, choose_level_sizes, label_features

# Features of a label that the tree is built by and documents are compared with.
FEATURES_PER_LABEL = 500


class LinearTree(LinearTreeSettings, LinearMethod):
    """One linear support vector machine a node of a label tree: trains in minutes, strong on rare labels.

    Takes texts or sparse features. Every argument of the constructor is a setting with a default.
    """

    parts_: list[LinearPart]
    """One a tree."""

    def _train(
        self,
        features: sp.csr_array,
        targets: sp.csr_array,
        label_counts: NDArray[np.int64],
        names: LabelNames | None,
        settings: dict[str, Any],
        progress: Progress,
    ) -> dict[str, Any]:
        prototypes = label_features(features, targets, FEATURES_PER_LABEL)
        trees = [_grow_tree(prototypes, settings, number) for number in range(settings["n_trees"])]
        fusion, n_held_out = None, 0
        models: list[LinearModel] = []
        if settings["fusion"]:
            fusion, n_held_out, models = _fitted_fusion(features, targets, trees[0], names, settings, progress)
        for tree in trees[len(models) :]:
            models.append(_trained_model(features, targets, tree, prototypes, settings, progress))
        neighbours = Neighbours.of(features, targets) if settings["neighbours"] and fusion is not None else None
        self.parts_ = [LinearPart(model, label_counts, fusion, names, neighbours) for model in models]
        return {"n_validation": n_held_out}

    def _rank(self, features: sp.csr_array, k: int) -> Ranking:
        width = width_per_tree(k, len(self.parts_), len(self.label_index_))
        n_threads = self.n_jobs or usable_cores()
        near = self.parts_[0].nearest(features, n_threads)
        rankings = [part.search(features, near, max(self.beam, k), width, n_threads) for part in self.parts_]
        return average_rankings(rankings, k)

    def _write_parts(self, directory: Path) -> None:
        super()._write_parts(directory)
        for number, part in enumerate(self.parts_):
            write_arrays(directory / f"tree_{number}.safetensors", part.model.tree.to_tensors())
            write_arrays(directory / f"tree_{number}.linear.safetensors", part.to_arrays())
        write_neighbours(directory, self.parts_[0].neighbours)

    def _read_parts(self, saved: SavedModel) -> None:
        super()._read_parts(saved)
        self.parts_ = []
        neighbours = read_neighbours(saved, len(self.label_index_), self.n_features_)
        for number in range(self.n_trees):
            tree = LabelTree.from_tensors(saved.arrays(f"tree_{number}.safetensors"))
            arrays = saved.arrays(f"tree_{number}.linear.safetensors")
            part = LinearPart.from_arrays(arrays, tree, self.label_counts_, self.n_features_, neighbours)
            self.parts_.append(part)

    def nested_trees(self) -> list[dict[str, Any]]:
        """Give each label tree as nested nodes, its groups with the names of their labels."""
        self._check_fitted()
        return [part.model.tree.to_nested(self.label_index_.names.tolist()) for part in self.parts_]


def _fitted_fusion(
    features: sp.csr_array,
    targets: sp.csr_array,
    tree: LabelTree,
    names: LabelNames | None,
    settings: dict[str, Any],
    progress: Progress,
) -> tuple[Fusion | None, int, list[LinearModel]]:
    """Fit the rule on documents held out at random, of a model trained on the others alone.

    Give the rule, how many were held out, and the model if it is good enough to be kept. If not, models are trained on
    all documents afterwards, so that no label loses the few it has.
    """
    n_held_out = held_out_size(features.shape[0], settings)
    if n_held_out < MIN_DOCUMENTS:
        return None, 0, []
    rng = np.random.default_rng([settings["random_state"]])
    kept, held_out = split_at_random(features.shape[0], n_held_out, rng)
    x, y = features[kept], targets[kept]
    model = _trained_model(x, y, tree, label_features(x, y, FEATURES_PER_LABEL), settings, progress)
    neighbours = Neighbours.of(x, y) if settings["neighbours"] else None
    part = LinearPart(model, np.bincount(y.indices, minlength=y.shape[1]), None, names, neighbours)
    n_threads = settings["n_jobs"] or usable_cores()
    fusion = part.fitted_fusion(
        features[held_out], targets[held_out], settings["beam"], settings["random_state"], n_threads
    )
    return fusion, n_held_out, [] if learns_anew(n_held_out, features.shape[0]) else [model]


def _trained_model(
    features: sp.csr_array,
    targets: sp.csr_array,
    tree: LabelTree,
    prototypes: sp.csr_array,
    settings: dict[str, Any],
    progress: Progress,
) -> LinearModel:
    hard_negatives = settings["hard_negatives"]
    hard_negatives = linear_hard_negatives(tree.n_labels) if hard_negatives is None else hard_negatives
    config = LinearConfig(hard_negatives, settings["C"], settings["prune"])
    n_threads = settings["n_jobs"] or usable_cores()
    task = LinearTask(features, targets, config, settings["random_state"], n_threads, progress)
    return train_linear_model(task, tree, prototypes)


def _grow_tree(prototypes: sp.csr_array, settings: dict[str, Any], number: int) -> LabelTree:
    n_labels = prototypes.shape[0]
    sizes = choose_level_sizes(n_labels, settings["group_size"], n_labels, MAX_FAN_OUT) if n_labels > 2 else []
    rng = np.random.default_rng([settings["random_state"], number])
    return tree_for_linear(build_label_tree(prototypes, sizes, rng))
