"""napkinxc: a probabilistic label tree of linear classifiers."""

from __future__ import annotations

from functools import partial
from typing import Any

import scipy.sparse as sp
from napkinxc.models import PLT  # type: ignore[import-not-found]

from benchmarks.peers.exchange import N_BEST, Ranked, Steps, Task, rank_pairs, run_step


def make_model(task: Task) -> Any:
    """Make a model that lives in the task's model directory."""
    return PLT(str(task.model), seed=task.seed, threads=task.threads, **task.settings)


def fit(task: Task, data: tuple[sp.csr_matrix, sp.csr_matrix]) -> Any:
    """Train; napkinxc writes the model as it goes."""
    model = make_model(task)
    model.fit(*data)
    return model


def load(task: Task) -> Any:
    """Load the model from its directory."""
    model = make_model(task)
    model.load()
    return model


def predict(model: Any, features: sp.csr_matrix) -> Ranked:
    """Rank by probability."""
    return rank_pairs(model.predict_proba(features, top_k=N_BEST))


def read_matrices(task: Task) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Read features and labels."""
    return task.matrix("features_train"), task.matrix("labels_train")


if __name__ == "__main__":
    run_step(
        Steps(
            read_matrices, fit, lambda task, model: None, load, partial(Task.matrix, name="features_judged"), predict,
            packages=("napkinxc",),
        )
    )  # fmt: skip
