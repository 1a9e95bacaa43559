"""`Times`: how long each part of a training is expected to take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from haxmlnet.planning.model_shape import ModelShape
from haxmlnet.planning.network_times import time_networks
from haxmlnet.planning.tree_times import estimate_label_trees, estimate_linear_trees


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
        """Give the parts and their sum as plain values."""
        return {**asdict(self), "training": self.training}


def measure_times(shape: ModelShape) -> Times:
    """Time a few steps, and scale them up."""
    steps = time_networks(shape)
    networks = steps.training(shape)
    return Times(
        estimate_label_trees(shape),
        networks,
        networks / (shape.training.epochs * shape.config.tree.n_trees),
        steps.validation(shape),
        estimate_linear_trees(shape),
        steps.prediction(shape),
    )
