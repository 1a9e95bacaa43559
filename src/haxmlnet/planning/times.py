"""`Times`: how long each part of a training takes on this machine, scaled up from a few steps and small samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from haxmlnet.linear import LinearTask, train_linear_model
from haxmlnet.planning.model_shape import ModelShape, make_even_tree
from haxmlnet.planning.network_times import NetworkTimes, time_networks
from haxmlnet.planning.random_documents import WORDS_OF_LABEL, draw_targets, draw_tfidf
from haxmlnet.progress import Progress
from haxmlnet.training.hardware import training_threads
from haxmlnet.tree import LabelTree, build_label_tree, label_features

SAMPLED_LABELS = 2048
SAMPLED_DOCUMENTS = 1000


@dataclass(frozen=True)
class Times:
    """Seconds by part."""

    tree: float
    networks: float
    epoch: float
    """One pass over the documents, of all networks of a tree; the networks go through all of them."""
    validation: float
    linear: float
    prediction: float
    """Seconds of the networks for a document among many."""

    @classmethod
    def of(cls, shape: ModelShape, tree: float, networks: NetworkTimes, linear: float) -> Times:
        """Scale up the steps and searches of the networks; the other parts are given."""
        training, n_trees = shape.training, shape.config.tree.n_trees
        n_steps = training.epochs * -(-shape.n_training // training.batch_size)
        n_steps = min(n_steps, training.max_steps or n_steps)
        # Each network searches after each epoch; all but the last also for what the next one learns from.
        n_searched = training.epochs * shape.n_held_out * np.ones(len(networks.search))
        n_searched[:-1] += shape.n_held_out + (shape.n_training if training.hard_negatives else 0)
        return cls(
            tree,
            n_trees * n_steps * sum(networks.step),
            n_steps * sum(networks.step) / training.epochs,
            float(n_trees * n_searched @ np.array(networks.search)),
            linear,
            n_trees * sum(networks.search),
        )

    @property
    def training(self) -> float:
        """All of the training."""
        return self.tree + self.networks + self.validation + self.linear

    def rows(self) -> Iterator[tuple[str, float]]:
        """Name the parts of the training; those that are scaled up from a small sample are rough."""
        yield "label trees, roughly", self.tree
        yield "networks", self.networks
        yield "of these, an epoch", self.epoch
        yield "validation", self.validation
        if self.linear:
            yield "linear tree, roughly", self.linear
        yield "together", self.training

    def describe(self) -> dict[str, Any]:
        """Return the parts and their sum as plain values."""
        return {**asdict(self), "training": self.training}


def measure_times(shape: ModelShape) -> Times:
    """Time a few steps of each part, and scale them up."""
    return Times.of(shape, estimate_label_trees(shape), time_networks(shape), estimate_linear_trees(shape))


def estimate_label_trees(shape: ModelShape) -> float:
    """Estimate the seconds of the label trees: each halving of the labels goes once over all their features."""
    inner = shape.level_sizes[:-1]
    if not inner:
        return 0.0
    n_labels = min(shape.sizes.n_labels, SAMPLED_LABELS)
    n_groups = _power_of_two_below(max(inner[-1] * n_labels // shape.sizes.n_labels, 2))
    targets = draw_targets(n_labels, 4.0, n_labels)
    width = round(shape.n_label_features / shape.sizes.n_labels)
    features = label_features(draw_tfidf(shape, targets), targets, width)

    seconds = _time_second_run(shape, lambda: build_label_tree(features, [n_groups], np.random.default_rng(0)))
    growth = shape.sizes.n_labels / n_labels * np.log2(inner[-1]) / np.log2(n_groups)
    return float(shape.config.tree.n_trees * seconds * growth)


def estimate_linear_trees(shape: ModelShape) -> float:
    """Estimate the seconds of the linear classifiers: each goes some times over the documents of its parent."""
    if not shape.has_linear_tree:
        return 0.0
    sizes, linear = shape.sizes, shape.config.linear
    n_documents = min(sizes.n_documents, SAMPLED_DOCUMENTS)
    n_labels = max(round(sizes.n_labels * n_documents / sizes.n_documents), 64)
    tree = make_even_tree([max(_power_of_two_below(n_labels // 16), 2), n_labels])
    targets = draw_targets(n_labels, sizes.labels_per_document, n_documents)
    documents = draw_tfidf(shape, targets)
    prototypes = label_features(documents, targets, WORDS_OF_LABEL)

    def train() -> None:
        task = LinearTask(documents, targets, linear, 0, torch.get_num_threads(), Progress())
        train_linear_model(task, tree, prototypes)

    def count_visits(tree: LabelTree) -> float:
        """Count the classifiers that a document trains: all of the first level, then children of its best nodes."""
        n_best = sizes.labels_per_document + linear.hard_negatives
        below = sum(min(n_best, above) * nodes / above for above, nodes in pairwise(tree.level_sizes))
        return tree.level_sizes[0] + below

    seconds_per_visit = _time_second_run(shape, train) / (n_documents * count_visits(tree))
    seconds = seconds_per_visit * sizes.n_documents * count_visits(shape.linear_tree)
    # Trained first beside the documents held out, then on all.
    n_trainings = 1 + shape.retrains_linear_tree
    return n_trainings * shape.config.tree.n_trees * seconds


def _time_second_run(shape: ModelShape, work: Callable[[], object]) -> float:
    """Time work after it was done once: the first time compiles."""
    with training_threads(shape.config.machine.n_jobs):
        work()
        started = time.perf_counter()
        work()
        return time.perf_counter() - started


def _power_of_two_below(number: int) -> int:
    return 1 << max(number.bit_length() - 1, 0)
