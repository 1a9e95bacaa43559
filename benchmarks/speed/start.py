"""Start: how long a person waits for the help, and for the first prediction of a large model."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.preparation_parts import Figures, run_alone
from benchmarks.speed.row import ROOT, Row, Run, at_most, median_seconds, run_command
from benchmarks.synthetic import Statistics, SyntheticData
from haxmlnet.data.arrays import new_directory_beside

MOST_SECONDS_OF_HELP, MOST_SECONDS_TO_PREDICT = 0.5, 3.0
LOADS = 3
LABELS = Statistics(25_000, 100, 100_000, 60_000, 5.0, 50.0, 50.0)
"""As few and short documents as bring 60,000 labels into training."""
METHODS: dict[str, dict[str, Any]] = {
    "LinearTree": {},
    "HAXMLNet": {"epochs": 1, "batch_size": 500, "checkpoint_seconds": 3600.0},
}
"""The settings in which training is shorter than it should be; the size of the model is that of the defaults."""
PREDICT_ONE = """\
import sys
import haxmlnet
model = haxmlnet.load_model(sys.argv[1])
print(len(model.predict([sys.argv[2]], k=5).ids[0]))
"""


def start(run: Run) -> Iterator[Row]:
    """Time the help, then each method's way from a new process to its first prediction."""
    seconds, times = median_seconds(
        lambda: run_command(_python("-m", "haxmlnet", "--help"), _environment()), run.rounds
    )
    yield at_most("start: haxmlnet --help", seconds, "s", MOST_SECONDS_OF_HELP, {"all_seconds": times})
    for method in METHODS:
        yield _first_prediction(run, method)


def _first_prediction(run: Run, method: str) -> Row:
    directory = run.work / f"model-{method}-{run.scale:g}-{run.seed}"
    statistics = LABELS.scaled(run.scale)
    if not directory.exists():
        run_alone(_train, method, statistics, run.seed, run.folder("documents") / f"{method}.jsonl", directory)
    text = "a new document with words that the model does not know, and more of them"
    command = _python("-c", PREDICT_ONE, directory, text)
    run_command(command, _environment())  # what is compiled once is compiled here
    seconds, times = median_seconds(lambda: run_command(command, _environment()), LOADS)
    size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    details = {"all_seconds": times, "model_bytes": size, "labels": statistics.n_labels}
    what = f"start: first prediction of {method}, {statistics.n_labels:,} labels"
    return at_most(what, seconds, "s", MOST_SECONDS_TO_PREDICT, details)


def _train(method: str, statistics: Statistics, seed: int, text: Path, directory: Path) -> Figures:
    """Train on synthetic documents, and leave the model or nothing."""
    from haxmlnet.methods import METHODS as CLASSES

    SyntheticData(statistics, seed).write("train", text)
    documents = [json.loads(line) for line in text.read_text("utf-8").splitlines()]
    text.unlink()
    model = CLASSES[method](**METHODS[method], random_state=seed)
    model.fit([document["text"] for document in documents], [document["labels"] for document in documents])
    with new_directory_beside(directory) as temporary:
        model.save(temporary / "model")
        (temporary / "model").rename(directory)
    return {"labels": len(np.unique(np.concatenate([document["labels"] for document in documents])))}


def _python(*arguments: str | Path) -> list[str | Path]:
    return [sys.executable, *arguments]


def _environment() -> dict[str, str]:
    """Let new processes import haxmlnet from the sources, installed or not."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
