"""What the bench and a method hand each other: files in; a model, a ranking of labels and times out.

This runs in every environment of the bench, so it needs numpy and scipy alone.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

N_BEST = 5
ABSENT = -1
WARM_UP = 8
SINGLE_DOCUMENTS = 200
SINGLE_SECONDS = 30.0

Ranked = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Ids of labels and their scores, (documents, K), best first; -1 and 0 where there are fewer."""


@dataclass(frozen=True)
class Task:
    """One method on one split of one data set."""

    inputs: Path
    out: Path
    settings: dict[str, Any]
    seed: int
    threads: int
    use_dev: bool = False
    """Return the data set's own dev documents to the method, for choosing its best weights."""

    @classmethod
    def read(cls, path: Path) -> Task:
        """Read what `write` wrote."""
        values = json.loads(path.read_text("utf-8"))
        return cls(Path(values.pop("inputs")), Path(values.pop("out")), **values)

    def write(self, path: Path) -> None:
        """Write the task as JSON."""
        path.write_text(json.dumps({**vars(self), "inputs": str(self.inputs), "out": str(self.out)}), "utf-8")

    @property
    def model(self) -> Path:
        """Where the model is saved."""
        return self.out / "model"

    def documents(self, part: str) -> Iterator[dict[str, Any]]:
        """Read the documents of a part, train, judged or dev, as {"id", "text", "labels"}; no dev gives none."""
        path = self.inputs / f"{part}.jsonl"
        if part == "dev" and not path.exists():
            return
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    def label_names(self) -> list[str]:
        """Read the labels of the training documents: a label's id is its place in this list."""
        names: list[str] = json.loads((self.inputs / "labels.json").read_text("utf-8"))
        return names

    def matrix(self, name: str) -> sp.csr_matrix:
        """Read features_train, features_judged, labels_train or truth."""
        return sp.csr_matrix(sp.load_npz(self.inputs / f"{name}.npz"))


@dataclass(frozen=True)
class Steps:
    """A method as six functions; only `fit` and `predict` are timed."""

    read_training: Callable[[Task], Any]
    fit: Callable[[Task, Any], Any]
    save: Callable[[Task, Any], None]
    load: Callable[[Task], Any]
    read_queries: Callable[[Task], Any]
    """The documents to predict, as something that can be sliced."""
    predict: Callable[[Any, Any], Ranked]
    packages: tuple[str, ...] = field(default=())
    """What the method is made of, for the versions in the results."""


def run_step(steps: Steps) -> None:
    """Do what the command line asks for: `train TASK.json` or `predict TASK.json`."""
    step, path = sys.argv[1:]
    task = Task.read(Path(path))
    outcome = train(task, steps) if step == "train" else predict(task, steps)
    versions = {name: _version(name) for name in (*steps.packages, "numpy", "scipy")}
    versions["python"] = ".".join(map(str, sys.version_info[:3]))
    (task.out / f"{step}.json").write_text(json.dumps({**outcome, "versions": versions}), "utf-8")


def train(task: Task, steps: Steps) -> dict[str, Any]:
    """Fit and save the model."""
    data = steps.read_training(task)
    started = time.perf_counter()
    model = steps.fit(task, data)
    seconds = time.perf_counter() - started
    peak = peak_memory()
    task.model.mkdir(exist_ok=True)
    steps.save(task, model)
    return {"seconds": seconds, "peak_memory": peak}


def predict(task: Task, steps: Steps) -> dict[str, Any]:
    """Rank the labels of all judged documents, at once and some of them one by one."""
    model, queries = steps.load(task), steps.read_queries(task)
    n = queries.shape[0] if hasattr(queries, "shape") else len(queries)
    steps.predict(model, queries[:WARM_UP])
    started = time.perf_counter()
    ids, scores = steps.predict(model, queries)
    batch_ms = 1000 * (time.perf_counter() - started) / n
    assert ids.shape == scores.shape == (n, ids.shape[1])
    single_ms = median_single_ms(lambda row: steps.predict(model, queries[row : row + 1]), n)
    np.savez(task.out / "predictions.npz", ids=ids.astype(np.int32), scores=scores.astype(np.float32))
    return {"batch_ms": batch_ms, "single_ms": single_ms}


def median_single_ms(work: Callable[[int], Any], n_rows: int) -> float:
    """Time one row at a time, for rows spread over all of them, and return the median in milliseconds."""
    times: list[float] = []
    began = time.perf_counter()
    for row in np.linspace(0, n_rows - 1, min(SINGLE_DOCUMENTS, n_rows)).astype(int).tolist():
        started = time.perf_counter()
        work(row)
        times.append(1000 * (time.perf_counter() - started))
        if started - began > SINGLE_SECONDS:
            break
    return float(np.median(times))


def rank_pairs(rows: list[list[tuple[int, float]]], k: int = N_BEST) -> Ranked:
    """Put the pairs of label and score of each document, best first, into arrays."""
    ids = np.full((len(rows), k), ABSENT, np.int32)
    scores = np.zeros((len(rows), k), np.float32)
    for row, pairs in enumerate(rows):
        for place, (label, score) in enumerate(pairs[:k]):
            ids[row, place], scores[row, place] = label, score
    return ids, scores


def peak_memory() -> int:
    """Return the most bytes this process has held so far.

    Linux counts the memory of whoever started a process into its `ru_maxrss`, but not into VmHWM.
    """
    status = Path(f"/proc/{os.getpid()}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from its source tree
        return str(import_module(package).__version__)
