"""Training: useful operations a second of whole steps, embedding to optimizer, over the sgemm peak of the same process.

The steps are those of `HAXMLNet.fit` with its defaults on EURLEX57K: its batches of similar length, its levels, its
candidates below true and best wrong nodes. What counts as useful is in `flops.py`. Where the default is bfloat16, the
figure in float32 stands beside; the peak is that of float32 for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.datasets import source_files
from benchmarks.measuring import Figures, run_alone
from benchmarks.speed.documents import part_of
from benchmarks.speed.machine import SIZE, measure_matmul
from benchmarks.speed.row import Row, Run, at_least
from haxmlnet import prepare
from haxmlnet.progress import Progress

if TYPE_CHECKING:  # torch stays out of the memory of processes that do not train
    from benchmarks.speed.flops import Call

DATA = "eurlex57k"
TARGETS = {(100, 128): 40.0, (300, 256): 60.0}
"""Percent of the peak by the size of word vectors and of the states of a direction."""
FLOAT32 = "float32"
WARM_UP, STEPS, MIN_STEPS = 5, 40, 2


def training(run: Run) -> Iterator[Row]:
    """Train some batches of EURLEX57K, and compare their useful operations with the sgemm peak."""
    source = source_files(part_of(run, DATA))["train"]
    corpus = run.work / f"corpus-{DATA}-{run.scale:g}"
    run_alone(prepare_corpus, source, corpus)
    for (word_size, hidden_size), percent in TARGETS.items():
        sizes = {"word_size": word_size, "hidden_size": hidden_size}
        what = f"training: {word_size} -> 2 x {hidden_size}, part of the sgemm peak"
        figures = run_alone(measure, corpus, sizes, run.scale, run.threads, run.seed)
        yield at_least(what, 100 * figures.pop("share"), "%", percent, figures)
        if figures["dtype"] != FLOAT32:
            figures = run_alone(measure, corpus, {**sizes, "precision": FLOAT32}, run.scale, run.threads, run.seed)
            yield at_least(f"{what}, float32", 100 * figures.pop("share"), "%", percent, figures)


def prepare_corpus(source: Path, directory: Path) -> Figures:
    """Prepare the training documents."""
    return {"documents": len(prepare(source, directory))}


def measure(directory: Path, sizes: Mapping[str, Any], scale: float, n_threads: int, seed: int) -> Figures:
    """Train some steps between two measurements of the peak; the higher one counts."""
    from benchmarks.speed.flops import record_calls
    from haxmlnet import HAXMLNet, PreparedCorpus

    # Neither validation nor the linear part is a part of a step.
    model = HAXMLNet(linear=False, validation_fraction=0.0, n_jobs=n_threads, random_state=seed, **sizes)
    peaks = [measure_matmul(SIZE, n_threads)["gigaflops"]]
    with record_calls() as calls, suppress(Enough):
        clock = StepClock(lambda: len(calls), WARM_UP + max(round(STEPS * min(scale, 1.0)), MIN_STEPS))
        model.fit_prepared(PreparedCorpus.open(directory), progress=clock)
    peaks.append(measure_matmul(SIZE, n_threads)["gigaflops"])
    seconds, timed = clock.after(WARM_UP)
    figures = compute_rates(calls[timed], seconds)
    share = figures["useful_gigaflops_per_second"] / max(peaks)
    dtype = dtype_of(sizes.get("precision", "auto"))
    return {"share": share, "dtype": dtype, "peak_gigaflops_per_second": peaks, **figures}


def dtype_of(precision: str) -> str:
    """Name the dtype that a setting chooses for matmuls here."""
    from haxmlnet.training.hardware import choose_device, choose_dtype

    return str(choose_dtype(precision, choose_device("auto"))).removeprefix("torch.")


def compute_rates(calls: Sequence[Call], seconds: Sequence[float]) -> Figures:
    """Count what some steps did, and divide it by their seconds."""
    from benchmarks.speed.flops import FORMULA, FORWARD_AND_BACKWARD, EncoderCall, HeadCall, count_operations

    operations, passed, n_steps = count_operations(calls), sum(seconds), len(seconds)
    useful = FORWARD_AND_BACKWARD * operations.total / 1e9
    lengths = [call.lengths for call in calls if isinstance(call, EncoderCall)]
    n_documents, n_words = sum(map(len, lengths)), sum(int(of_part.sum()) for of_part in lengths)
    return {
        "useful_gigaflops_per_second": useful / passed,
        "useful_gigaflop_per_step": useful / n_steps,
        "parts": {name: part / operations.total for name, part in asdict(operations).items()},
        "seconds_per_step": passed / n_steps,
        "median_seconds": float(np.median(seconds)),
        "documents_per_second": n_documents / passed,
        "words_per_second": n_words / passed,
        "real_words_share": n_words / sum(len(of_part) * int(of_part.max()) for of_part in lengths),
        "steps": n_steps,
        "documents_per_step": n_documents / n_steps,
        "level_sizes": sorted({call.n_nodes for call in calls if isinstance(call, HeadCall)}),
        "formula": FORMULA,
    }


class Enough(Exception):
    """Enough steps were timed."""


class StepClock(Progress):
    """Notes when each step of a training ends and what was counted by then, and stops it after some steps."""

    def __init__(self, counted: Callable[[], int], n_steps: int) -> None:
        self.counted, self.n_steps = counted, n_steps
        self.ends: list[tuple[float, int]] = []

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Time the steps of a network; other stages pass by."""
        yield self._advance if unit == "batches" else lambda n, note="": None

    def _advance(self, n: int, note: str = "") -> None:
        self.ends.append((time.perf_counter(), self.counted()))
        if len(self.ends) > self.n_steps:  # the first call tells that training begins
            raise Enough

    def after(self, warm_up: int) -> tuple[list[float], slice]:
        """Return the seconds of each step after some, and which of what was counted belongs to these."""
        timed = self.ends[min(warm_up, len(self.ends) - 2) :]
        seconds = np.diff([end for end, _ in timed]).tolist()
        return seconds, slice(timed[0][1], timed[-1][1])
