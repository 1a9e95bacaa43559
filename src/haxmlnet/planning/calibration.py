"""Expected times on this machine: a few real steps on random documents of the right sizes, in about ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from haxmlnet.config import TrainingConfig
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.models.tree_model import levels_of_networks, new_network
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.planning.shape import ModelShape, even_tree
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.search.descend import search_levels
from haxmlnet.training.candidates import CandidateSource
from haxmlnet.training.hardware import training_threads
from haxmlnet.training.loss import TrainingData
from haxmlnet.training.trainer import LEAST_PART, Trainer

# The time of a step does not depend on the rows of a table, of which it touches few.
MOST_ROWS = 50_000
LEAST_STEPS, MOST_STEPS = 1, 8
NETWORK_SECONDS = 5.0
SEARCH_SECONDS = 1.5
MOST_SEARCHED = 4096
SEARCHED_LABELS = 5


@dataclass(frozen=True)
class StepTimes:
    """Seconds of the networks: a training step of each, and the search of each for one document."""

    step: list[float]
    search: list[float]

    def training(self, shape: ModelShape) -> float:
        """Give the seconds of all epochs of all trees."""
        settings = shape.settings
        n_steps = settings["epochs"] * -(-shape.n_training // settings["batch_size"])
        n_steps = min(n_steps, settings["max_steps"] or n_steps)
        return float(settings["n_trees"] * n_steps * sum(self.step))

    def validation(self, shape: ModelShape) -> float:
        """Give the seconds of validating after each epoch, and of the searches between networks."""
        settings = shape.settings
        n_searched = settings["epochs"] * shape.n_held_out * np.ones(len(self.search))
        n_searched[:-1] += shape.n_held_out + (shape.n_training if settings["hard_negatives"] else 0)
        return float(settings["n_trees"] * n_searched @ np.array(self.search))

    def prediction(self, shape: ModelShape) -> float:
        """Give the seconds of the networks for one document among many."""
        return float(shape.settings["n_trees"] * sum(self.search))


def measure_networks(shape: ModelShape) -> StepTimes:
    """Train the networks of a tree of this shape for some steps, and search with them."""
    with training_threads(shape.settings["n_jobs"]):
        networks = [_network(shape, levels) for levels in levels_of_networks(shape.tree, shape.settings)]
        steps = [_step_seconds(shape, network, NETWORK_SECONDS / len(networks)) for network in networks]
        return StepTimes(steps, _search_seconds(shape, networks))


class _Enough(Exception):
    """Enough steps were timed."""


class _StepClock(Progress):
    """Notes when each step of a training ends, and stops it after some."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ends: list[float] = []

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Time the steps of a stage."""
        yield self._advance

    def _advance(self, n: int, note: str = "") -> None:
        self.ends.append(time.perf_counter())
        # The first step also allocates and compiles.
        n_timed = len(self.ends) - 2
        if n_timed >= MOST_STEPS or (n_timed >= LEAST_STEPS and self.ends[-1] - self.ends[0] > self.seconds):
            raise _Enough

    @property
    def step(self) -> float:
        """The seconds of a step."""
        return float(np.median(np.diff(self.ends)[1:]))


def _network(shape: ModelShape, levels: range) -> LabelAttentionNetwork:
    words = torch.randn(min(shape.vocabulary, MOST_ROWS), shape.word_size)
    rows = [size if level == 0 else min(size, MOST_ROWS) for level, size in enumerate(shape.level_sizes)]
    network = new_network(words, even_tree(rows), levels, shape.settings, 0)
    for level in levels:
        head = network.head(level)
        head.register_forward_pre_hook(_fold_candidates)
    return network


def _fold_candidates(head: LabelHead, inputs: tuple[Tensor, Tensor, Tensor | None]) -> tuple[Tensor, ...] | None:
    """Let nodes share the rows of a table that has fewer than there are nodes."""
    states, lengths, candidates = inputs
    if candidates is None:
        return None
    return states, lengths, candidates.where(candidates < 0, candidates % head.n_nodes)


def _step_seconds(shape: ModelShape, network: LabelAttentionNetwork, seconds: float) -> float:
    """Time a step; where a whole one takes too long, the smallest that keeps all threads busy stands for it."""
    whole = min(int(shape.settings["batch_size"]), shape.n_training)
    size = min(LEAST_PART * torch.get_num_threads(), whole)
    step = _timed_training(shape, network, size, seconds / 2)
    if whole > size and (LEAST_STEPS + 1) * step * whole / size <= seconds:
        size, step = whole, _timed_training(shape, network, whole, seconds / 2)
    return step * whole / size


def _timed_training(shape: ModelShape, network: LabelAttentionNetwork, batch_size: int, seconds: float) -> float:
    data = _random_data(shape, network.levels, batch_size * (MOST_STEPS + 2))
    clock = _StepClock(seconds)
    config = replace(
        TrainingConfig.of(shape.settings), epochs=1, batch_size=batch_size, learning_rate=1e-3, lr_final_ratio=1.0,
        warmup=0.0, averaging_start=1.0, patience=None, max_steps=None, row_moments=False,
    )  # fmt: skip
    try:
        Trainer(network, data, config, (0,), None, "calibration", clock).run()
    except _Enough:
        network.zero_grad()
    return clock.step


def _search_seconds(shape: ModelShape, networks: Sequence[LabelAttentionNetwork]) -> list[float]:
    """Time the search of each network for one document among many."""
    n_documents = LEAST_PART * torch.get_num_threads()
    while True:
        tokens, above, seconds = _random_tokens(shape, n_documents), None, []
        for network in networks:
            started = time.perf_counter()
            above = search_levels(network, shape.tree, tokens, above, shape.settings["beam"], SEARCHED_LABELS)
            seconds.append(time.perf_counter() - started)
        if sum(seconds) > SEARCH_SECONDS / 4 or n_documents >= MOST_SEARCHED:
            return [taken / n_documents for taken in seconds]
        n_documents *= 4


def _random_data(shape: ModelShape, levels: range, n_documents: int) -> TrainingData:
    targets = shape.tree.lift(random_targets(shape.sizes.n_labels, shape.sizes.labels_per_document, n_documents))
    sources = [
        CandidateSource(targets[level], targets[level - 1], shape.tree, level, shape.settings["candidates"])
        if level > 0
        else None
        for level in levels
    ]
    n_wrong, predicted = shape.settings["hard_negatives"], None
    if levels[0] > 0 and n_wrong:
        n_above = shape.level_sizes[levels[0] - 1]
        nodes = _random_nodes(n_above, n_documents, n_wrong)
        predicted = Ranking(nodes, np.ones(nodes.shape, np.float32), None, n_above)
    tokens = _random_tokens(shape, n_documents)
    return TrainingData(tokens, [targets[level] for level in levels], sources, predicted, n_wrong)


def _random_tokens(shape: ModelShape, n_documents: int) -> TokenArray:
    """Make documents of the mean length."""
    length = max(round(shape.sizes.read_words(shape.settings["max_length"])), 1)
    n_words = min(shape.vocabulary, MOST_ROWS)
    ids = np.random.default_rng(0).integers(UNKNOWN_ID, n_words, n_documents * length, np.int32)
    return TokenArray.from_lengths(ids, np.full(n_documents, length))


def _random_nodes(n_nodes: int, n_documents: int, width: int) -> NDArray[np.int32]:
    """Draw different nodes (documents, W) for each document."""
    width = min(width, n_nodes)
    first = np.random.default_rng(1).integers(0, n_nodes, (n_documents, 1))
    nodes: NDArray[np.int32] = ((first + np.arange(width) * (n_nodes // width)) % n_nodes).astype(np.int32)
    return nodes


def random_targets(n_labels: int, labels_per_document: float, n_documents: int) -> sp.csr_array:
    """Draw labels for documents."""
    rng = np.random.default_rng(2)
    sizes = np.floor(labels_per_document + rng.random(n_documents)).astype(np.int64)
    rows = np.repeat(np.arange(n_documents), np.maximum(sizes, 1))
    columns = rng.integers(0, n_labels, len(rows))
    targets: Any = sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(n_documents, n_labels))
    targets.sum_duplicates()
    targets.data[:] = 1
    return targets
