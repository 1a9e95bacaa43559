"""Rough times of what is done around the networks: small samples, scaled up by how the work grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
import torch

from haxmlnet.config import LinearConfig, linear_hard_negatives
from haxmlnet.linear import LinearTask, train_linear_model
from haxmlnet.models.linear_part import learns_anew
from haxmlnet.planning.calibration import random_targets
from haxmlnet.planning.shape import ModelShape, even_tree
from haxmlnet.progress import Progress
from haxmlnet.training.hardware import training_threads
from haxmlnet.tree import LabelTree, build_label_tree, label_features

SAMPLED_LABELS = 2048
SAMPLED_DOCUMENTS = 1000
# Words of a sampled document that speak for its labels, as a part of all.
TOPICAL_SHARE = 0.3
WORDS_OF_LABEL = 20


def tree_seconds(shape: ModelShape) -> float:
    """Estimate the time of the label trees: every halving of the labels goes once over all their features."""
    inner = shape.level_sizes[:-1]
    if not inner:
        return 0.0
    n_labels = min(shape.sizes.n_labels, SAMPLED_LABELS)
    n_groups = _power_below(max(inner[-1] * n_labels // shape.sizes.n_labels, 2))
    targets = random_targets(n_labels, 4.0, n_labels)
    features = label_features(_documents(shape, targets), targets, round(shape.sizes.words_per_label(shape.vocabulary)))

    def build() -> None:
        build_label_tree(features, [n_groups], np.random.default_rng(0))

    with training_threads(shape.settings["n_jobs"]):
        seconds = _second_time(build)
    growth = shape.sizes.n_labels / n_labels * np.log2(inner[-1]) / np.log2(n_groups)
    return float(shape.settings["n_trees"] * seconds * growth)


def linear_seconds(shape: ModelShape) -> float:
    """Estimate the time of the linear classifiers: each goes some times over the documents of its parent."""
    if not shape.has_linear_part:
        return 0.0
    n_documents = min(shape.sizes.n_documents, SAMPLED_DOCUMENTS)
    n_labels = max(round(shape.sizes.n_labels * n_documents / shape.sizes.n_documents), 64)
    tree = even_tree([max(_power_below(n_labels // 16), 2), n_labels])
    targets = random_targets(n_labels, shape.sizes.labels_per_document, n_documents)
    documents = _documents(shape, targets)
    prototypes = label_features(documents, targets, WORDS_OF_LABEL)

    n_wrong = linear_hard_negatives(shape.sizes.n_labels)

    def train() -> None:
        task = LinearTask(documents, targets, LinearConfig(n_wrong), 0, torch.get_num_threads(), Progress())
        train_linear_model(task, tree, prototypes)

    with training_threads(shape.settings["n_jobs"]):
        seconds = _second_time(train)
    n_best = shape.sizes.labels_per_document + n_wrong
    visits = shape.sizes.n_documents * _visits(shape.linear_tree, n_best)
    rate = seconds / (n_documents * _visits(tree, n_best))
    # Trained first beside the documents held out, then on all.
    n_trainings = 1 + learns_anew(shape.n_held_out, shape.sizes.n_documents)
    return float(n_trainings * shape.settings["n_trees"] * rate * visits)


def _visits(tree: LabelTree, n_best: float) -> float:
    """Count the classifiers that a document teaches: all of the first level, then the children of its best nodes."""
    sizes = tree.level_sizes
    below = sum(min(n_best, above) * nodes / above for above, nodes in pairwise(sizes))
    return sizes[0] + below


def _documents(shape: ModelShape, targets: sp.csr_array) -> sp.csr_array:
    """Make rows of TF-IDF some of whose words are those of their labels."""
    rng, n_documents = np.random.default_rng(3), targets.shape[0]
    n_each = max(round(shape.sizes.different_words(shape.vocabulary)), 1)
    rows = np.repeat(np.arange(n_documents), n_each)
    # Ranks drawn evenly by their logarithm follow Zipf's law.
    words = np.minimum(shape.vocabulary ** rng.random(len(rows)), shape.vocabulary - 1).astype(np.int64)
    first, last = targets.indptr[rows], targets.indptr[rows + 1]
    labels = targets.indices[first + (rng.random(len(rows)) * (last - first)).astype(np.int64)].astype(np.int64)
    topical = (labels * 7919 + rng.integers(0, WORDS_OF_LABEL, len(rows)) * 104_729) % shape.vocabulary
    columns = np.where(rng.random(len(rows)) < TOPICAL_SHARE, topical, words)
    values = np.full(len(rows), n_each**-0.5, np.float32)
    documents = sp.csr_array((values, (rows, columns)), shape=(n_documents, shape.vocabulary))
    documents.sum_duplicates()
    return documents


def _second_time(work: Callable[[], None]) -> float:
    """Time work after it was done once: the first time compiles."""
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _power_below(number: int) -> int:
    return 1 << max(number.bit_length() - 1, 0)
