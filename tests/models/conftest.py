from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from haxmlnet.models import METHODS
from haxmlnet.models.model import Model

Documents = tuple[list[str], list[list[str]]]
NewModel = Callable[..., Model]

N_LABELS = 24
# Large enough to learn the tiny corpus by heart, small enough to do so in two seconds.
SMALL: dict[str, dict[str, Any]] = {
    "HAXMLNet": {
        "hidden_size": 16, "word_size": 16, "mlp_sizes": (16,), "group_size": 4, "batch_size": 16,
        "epochs": 10, "learning_rate": 0.01, "device": "cpu", "n_jobs": 1,
        "precision": "float32",  # so that numbers can be compared
    },
    "LinearTree": {"group_size": 4, "validation_fraction": 0.4, "n_jobs": 1},
}  # fmt: skip
HASTY: dict[str, dict[str, Any]] = {
    "HAXMLNet": {**SMALL["HAXMLNet"], "epochs": 1},
    "LinearTree": {**SMALL["LinearTree"], "fusion": False},
}


@pytest.fixture(scope="session")
def make_documents() -> Callable[[int, int], Documents]:
    """Make documents that hold two words of each of their 1 to 3 labels among six words of noise."""

    def make(n_documents: int, seed: int) -> Documents:
        rng = np.random.default_rng(seed)
        texts, labels = [], []
        for _ in range(n_documents):
            own = rng.choice(N_LABELS, rng.integers(1, 4), replace=False)
            words = [f"sign{label}{side}" for label in own for side in "ab"]
            words += [f"noise{word}" for word in rng.integers(30, size=6)]
            texts.append(" ".join(rng.permutation(words)))
            labels.append([f"label {label:02}" for label in own])
        return texts, labels

    return make


@pytest.fixture(scope="session")
def tiny_corpus(make_documents: Callable[[int, int], Documents]) -> Documents:
    return make_documents(150, 0)


@pytest.fixture(scope="session")
def unseen_documents(make_documents: Callable[[int, int], Documents]) -> Documents:
    return make_documents(40, 1)


@pytest.fixture(scope="session")
def new_model() -> NewModel:
    """Make an untrained method, by name, that learns the tiny corpus well."""
    return lambda name, **changes: METHODS[name](**{**SMALL.get(name, {}), **changes})


@pytest.fixture(scope="session")
def new_hasty_model() -> NewModel:
    """Make an untrained method, by name, for tests that need all its parts but no good predictions."""
    return lambda name, **changes: METHODS[name](**{**HASTY.get(name, {}), **changes})
