"""`Times`: how long each part of a training is expected to take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from haxmlnet.planning.calibration import measure_networks
from haxmlnet.planning.rough_times import linear_seconds, tree_seconds
from haxmlnet.planning.shape import ModelShape


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
        """Name the parts of the training; those that are not measured, but scaled up from a sample, are rough."""
        yield "label trees, roughly", self.tree
        yield "networks", self.networks
        yield "of these, an epoch", self.epoch
        yield "validation", self.validation
        if self.linear:
            yield "linear part, roughly", self.linear
        yield "together", self.training

    def describe(self) -> dict[str, Any]:
        """Give the parts and their sum as plain values."""
        return {**asdict(self), "training": self.training}


def measured_times(shape: ModelShape) -> Times:
    """Time a few steps, and scale them up."""
    steps = measure_networks(shape)
    networks = steps.training(shape)
    return Times(
        tree_seconds(shape),
        networks,
        networks / (shape.settings["epochs"] * shape.settings["n_trees"]),
        steps.validation(shape),
        linear_seconds(shape),
        steps.prediction(shape),
    )
