"""Shapes of models that are planned, for the tests of planning."""

from __future__ import annotations

from typing import Any

from haxmlnet.planning.model_shape import ModelShape
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.settings import Settings, resolve_settings, settings_of

Documents = tuple[list[str], list[list[str]]]
NARROW = {"word_size": 11, "hidden_size": 6, "mlp_sizes": (4,)}


def shape_of(sizes: DataSizes, **changes: Any) -> ModelShape:
    settings = {**settings_of(Settings()), **changes}
    return ModelShape(sizes, resolve_settings(settings, sizes.n_documents, sizes.n_labels))


def large_shape(**changes: Any) -> ModelShape:
    return shape_of(DataSizes.of_numbers(500_000, 670_000), **changes)
