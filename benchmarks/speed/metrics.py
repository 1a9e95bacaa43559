"""Metrics: the whole report of a test set of the published size."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.measuring import Figures, run_alone
from benchmarks.speed.row import Row, Run, at_most, median_seconds
from benchmarks.synthetic import SyntheticData
from haxmlnet.metrics import evaluate

DATA = "amazon-670k"
MOST_SECONDS = 2.0
K = 5
TRUE_SHARE = 0.4
"""So many of the ranked labels are true, about as many as a good model finds."""


def metrics(run: Run) -> Iterator[Row]:
    """Evaluate the five best labels of every test document."""
    figures = run_alone(time_report, run.scale, run.seed, run.rounds)
    what = f"metrics: {figures['documents']:,} documents x {K} of {figures['labels']:,} labels"
    yield at_most(what, figures.pop("seconds"), "s", MOST_SECONDS, figures)


def time_report(scale: float, seed: int, rounds: int) -> Figures:
    """Time the evaluation of a made-up ranking."""
    data = SyntheticData.of(DATA, scale, seed)
    truth, training = data.labels("test"), data.labels("train")
    counts = np.bincount(training.indices, minlength=training.shape[1])
    ids = make_ranking(truth, np.random.default_rng(seed))
    gc.collect()
    report = evaluate(ids, truth, counts, training.shape[0])
    seconds, all_seconds = median_seconds(lambda: evaluate(ids, truth, counts, training.shape[0]), rounds)
    return {
        "seconds": seconds,
        "all_seconds": all_seconds,
        "documents": truth.shape[0],
        "labels": truth.shape[1],
        "metrics": len(report.values) - 1,
        "P@5": report.values["P@5"],
    }


def make_ranking(truth: sp.csr_array, rng: np.random.Generator) -> NDArray[np.int32]:
    """Rank true labels and others at random, each label at most once in a document."""
    n_documents, n_labels = truth.shape
    # Steps between labels keep those of a document apart.
    steps = rng.integers(1, max(2, n_labels // K), (n_documents, K))
    ids = (steps.cumsum(axis=1) % n_labels).astype(np.int32)
    starts, sizes = truth.indptr[:-1], np.diff(truth.indptr)
    for position in range(min(K, int(sizes.max()))):
        taken = np.flatnonzero((rng.random(n_documents) < TRUE_SHARE) & (sizes > position))
        label = truth.indices[starts[taken] + position]
        absent = ~(ids[taken] == label[:, None]).any(axis=1)
        ids[taken[absent], position] = label[absent]
    return ids
