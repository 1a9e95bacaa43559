"""Start: how long a user waits for the help, and for the first prediction of a large model."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.speed.models import METHODS, SMALL, model_of
from benchmarks.speed.row import ROOT, Row, Run, at_most, median_seconds, run_command

MOST_SECONDS_OF_HELP, MOST_SECONDS_TO_PREDICT = 0.5, 3.0
LOADS = 5
PREDICT_ONE = """\
import sys, time
import haxmlnet
model = haxmlnet.load_model(sys.argv[1])
assert len(model.predict([sys.argv[2]], k=5).ids[0]) == 5
print(time.time())
"""


def start(run: Run) -> Iterator[Row]:
    """Time the help, then each method from a new process to its first prediction."""
    seconds, times = median_seconds(
        lambda: run_command([sys.executable, "-m", "haxmlnet", "--help"], _environment()), run.rounds
    )
    yield at_most("start: haxmlnet --help", seconds, "s", MOST_SECONDS_OF_HELP, {"all_seconds": times})
    for method in METHODS:
        yield _first_prediction(run, method)


def _first_prediction(run: Run, method: str) -> Row:
    directory, n_labels = model_of(run, method, SMALL), SMALL.statistics.scaled(run.scale).n_labels
    text = "a new document with words that the model does not know, and more of them"
    command: list[str | Path] = [sys.executable, "-c", PREDICT_ONE, directory, text]
    run_command(command, _environment())  # what is compiled once is compiled here
    times = []
    for _ in range(LOADS):
        started = time.time()
        times.append(float(run_command(command, _environment())) - started)
    size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
    details = {"all_seconds": times, "model_bytes": size, "labels": n_labels}
    what = f"start: first prediction of {method}, {n_labels:,} labels"
    return at_most(what, statistics.median(times), "s", MOST_SECONDS_TO_PREDICT, details)


def _environment() -> dict[str, str]:
    """Let new processes import haxmlnet from the sources, installed or not, and keep the bytecode as pip does."""
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
