"""Times of the networks on this machine: a few real steps on random documents, in about ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from haxmlnet.evidence.level_networks import new_network
from haxmlnet.evidence.protocol import Run
from haxmlnet.evidence.tree_search import search_network
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.planning.model_shape import LevelShape, ModelShape, make_even_tree
from haxmlnet.planning.random_documents import draw_targets, draw_tokens
from haxmlnet.progress import Progress
from haxmlnet.ranking import ABSENT, Ranking
from haxmlnet.training.candidates import CandidateSource
from haxmlnet.training.hardware import training_threads
from haxmlnet.training.loss import TrainingData
from haxmlnet.training.trainer import MIN_PART, Trainer

# The time of a step does not depend on the rows of a table, of which it touches few.
MAX_ROWS = 50_000
MIN_STEPS, MAX_STEPS = 1, 8
TRAINING_SECONDS = 5.0
SEARCH_SECONDS = 1.5
MAX_SEARCHED = 4096


class NetworkTimes(NamedTuple):
    """Seconds of each network of a tree: a training step, and the search for one document among many."""

    step: list[float]
    search: list[float]


def time_networks(shape: ModelShape) -> NetworkTimes:
    """Train the networks of a tree of this shape for some steps, and search with them."""
    with training_threads(shape.config.machine.n_jobs):
        networks = [make_network(shape, levels) for levels in shape.networks]
        steps = [_time_step(shape, network, TRAINING_SECONDS / len(networks)) for network in networks]

        n_documents = MIN_PART * torch.get_num_threads()
        while True:
            tokens, above, seconds = draw_tokens(shape, n_documents, MAX_ROWS), None, []
            for network in networks:
                started = time.perf_counter()
                above = search_network(network, shape.tree, tokens, above, shape.config.search.beam)
                seconds.append(time.perf_counter() - started)
            if sum(seconds) > SEARCH_SECONDS / 4 or n_documents >= MAX_SEARCHED:
                return NetworkTimes(steps, [taken / n_documents for taken in seconds])
            n_documents *= 4


def make_network(shape: ModelShape, levels: Sequence[LevelShape]) -> LabelAttentionNetwork:
    """Make an untrained network whose tables are cut to MAX_ROWS: nodes share rows."""
    words = torch.randn(min(shape.vocabulary, MAX_ROWS), shape.word_size)
    # All nodes of the first level are scored, so its tables stay whole.
    most = max(MAX_ROWS, shape.level_sizes[0])
    n_rows = [min(nodes, most) for nodes in shape.level_sizes]
    own_levels = range(levels[0].level, levels[-1].level + 1)
    network = new_network(words, make_even_tree(n_rows), own_levels, Run(shape.config))

    def fold(n_rows: int, head: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        states, lengths, candidates, *values = inputs
        return states, lengths, candidates.where(candidates == ABSENT, candidates % n_rows), *values

    for level in own_levels:
        if n_rows[level] < shape.level_sizes[level]:
            network.head(level).register_forward_pre_hook(partial(fold, n_rows[level]))
    return network


def _time_step(shape: ModelShape, network: LabelAttentionNetwork, seconds: float) -> float:
    """Time a step; where a whole one takes too long, the smallest that keeps all threads busy stands for it."""
    whole = min(shape.training.batch_size, shape.n_training)
    size = min(MIN_PART * torch.get_num_threads(), whole)
    step = _time_training(shape, network, size, seconds / 2)
    if whole > size and (MIN_STEPS + 1) * step * whole / size <= seconds:
        size, step = whole, _time_training(shape, network, whole, seconds / 2)
    return step * whole / size


def _time_training(shape: ModelShape, network: LabelAttentionNetwork, batch_size: int, seconds: float) -> float:
    """Return the median time of some steps, on random documents."""
    sizes, n_documents, n_negatives = shape.sizes, batch_size * (MAX_STEPS + 2), shape.training.hard_negatives
    targets = shape.tree.lift(draw_targets(sizes.n_labels, sizes.labels_per_document, n_documents))
    sources = [
        CandidateSource(targets[level], targets[level - 1], shape.tree, level, shape.training.candidates)
        if level > 0
        else None
        for level in network.levels
    ]
    predicted = None
    if network.first_level > 0 and n_negatives:
        n_above = shape.level_sizes[network.first_level - 1]
        width = min(n_negatives, n_above)
        first = np.random.default_rng(1).integers(0, n_above, (n_documents, 1))
        nodes = ((first + np.arange(width) * (n_above // width)) % n_above).astype(np.int32)  # all different
        predicted = Ranking(nodes, np.ones(nodes.shape, np.float32), None, n_above)
    tokens = draw_tokens(shape, n_documents, MAX_ROWS)
    data = TrainingData(tokens, [targets[level] for level in network.levels], sources, predicted, n_negatives)

    clock = _StepClock(seconds)
    config = replace(shape.training, epochs=1, batch_size=batch_size, averaging_start=1.0, max_steps=None)
    try:
        Trainer(network, data, config, (0,), None, "calibration", clock).run()
    except _EnoughSteps:
        network.zero_grad()
    return float(np.median(np.diff(clock.ends)[1:]))


class _EnoughSteps(Exception):
    """Enough steps were timed."""


class _StepClock(Progress):
    """Notes when each step of a training ends, and stops it after some."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ends: list[float] = []

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Time the steps of a stage."""

        def advance(n: int, note: str = "") -> None:
            self.ends.append(time.perf_counter())
            # The first step also allocates and compiles.
            n_timed = len(self.ends) - 2
            if n_timed >= MAX_STEPS or (n_timed >= MIN_STEPS and self.ends[-1] - self.ends[0] > self.seconds):
                raise _EnoughSteps

        yield advance
