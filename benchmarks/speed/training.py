"""Training: useful operations a second of whole steps, embedding to optimizer, over the sgemm peak of the same process.

The steps are those of `HAXMLNet.fit` with its defaults on EURLEX57K: its batches of similar length, its levels, its
candidates below true and best wrong nodes. What counts as useful is in `flops.py`. Where the defaults multiply numbers
of 16 bits, the figure with numbers of 32 stands beside; the peak is that of numbers of 32 bits for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.datasets import source_files
from benchmarks.preparation_parts import Figures, run_alone
from benchmarks.speed.documents import part_of
from benchmarks.speed.machine import PRODUCTS, SIZE, multiply
from benchmarks.speed.row import Row, Run, at_least
from haxmlnet.progress import Progress
from haxmlnet.settings import Settings, check_settings, resolve_settings, settings_of
from haxmlnet.text.prepare import prepare

if TYPE_CHECKING:  # torch stays out of the memory of processes that do not train
    from benchmarks.speed.flops import Call

DATA = "eurlex57k"
TARGETS = {(100, 128): 40.0, (300, 256): 60.0}
"""Percent of the peak by the size of word vectors and of the states of a direction."""
LONG = "float32"
WARM_UP, STEPS, LEAST_STEPS = 5, 40, 2


def training(run: Run) -> Iterator[Row]:
    """Train some batches of EURLEX57K, and compare their useful operations with the sgemm peak."""
    source = source_files(part_of(run, DATA))["train"]
    corpus = run.work / f"corpus-{DATA}-{run.scale:g}"
    run_alone(_prepare, source, corpus)
    for (word_size, hidden_size), percent in TARGETS.items():
        sizes = {"word_size": word_size, "hidden_size": hidden_size}
        what = f"training: {word_size} -> 2 x {hidden_size}, part of the sgemm peak"
        figures = run_alone(measure, corpus, sizes, run.scale, run.threads, run.seed)
        yield at_least(what, 100 * figures.pop("share"), "%", percent, figures)
        if figures["numbers"] != LONG:
            figures = run_alone(measure, corpus, {**sizes, "precision": LONG}, run.scale, run.threads, run.seed)
            yield at_least(f"{what}, numbers of 32 bits", 100 * figures.pop("share"), "%", percent, figures)


def _prepare(source: Path, directory: Path) -> Figures:
    return {"documents": len(prepare(source, directory))}


def measure(directory: Path, sizes: Mapping[str, Any], scale: float, n_threads: int, seed: int) -> Figures:
    """Train some steps between two measurements of the peak; the higher one counts."""
    from benchmarks.speed.flops import recorded_calls
    from haxmlnet.training.hardware import training_threads

    with training_threads(n_threads), recorded_calls() as calls:
        peaks = [multiply(SIZE, PRODUCTS, n_threads)["gigaflops"]]
        n_steps = max(round(STEPS * min(scale, 1.0)), LEAST_STEPS)
        clock = StepClock(lambda: len(calls), WARM_UP + n_steps)
        train_some_steps(directory, sizes, scale, n_threads, seed, clock)
        peaks.append(multiply(SIZE, PRODUCTS, n_threads)["gigaflops"])
    seconds, timed = clock.after(WARM_UP)
    figures = rates(calls[timed], seconds)
    share = figures["useful_gigaflops_per_second"] / max(peaks)
    numbers = numbers_of(sizes.get("precision", "auto"))
    return {"share": share, "numbers": numbers, "peak_gigaflops_per_second": peaks, **figures}


def numbers_of(precision: str) -> str:
    """Name the numbers that a setting lets the network multiply here."""
    from haxmlnet.training.hardware import choose_device, choose_dtype

    return str(choose_dtype(precision, choose_device("auto"))).removeprefix("torch.")


def rates(calls: Sequence[Call], seconds: Sequence[float]) -> Figures:
    """Count what some steps did, and divide it by their seconds."""
    from benchmarks.speed.flops import FORMULA, FORWARD_AND_BACKWARD, total_operations
    from haxmlnet.network.head import LabelHead

    operations, passed, n_steps = total_operations(calls), sum(seconds), len(seconds)
    useful = FORWARD_AND_BACKWARD * operations.total / 1e9
    heads = {id(call.module): call.module.n_nodes for call in calls if isinstance(call.module, LabelHead)}
    lengths = [call.lengths for call in calls if not isinstance(call.module, LabelHead)]
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
        "level_sizes": sorted(heads.values()),
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
        """Give the seconds of each step after some, and which of what was counted belongs to these."""
        kept = self.ends[min(warm_up, len(self.ends) - 2) :]
        seconds = np.diff([end for end, _ in kept]).tolist()
        return seconds, slice(kept[0][1], kept[-1][1])


def train_some_steps(
    directory: Path, sizes: Mapping[str, Any], scale: float, n_threads: int, seed: int, clock: StepClock
) -> None:
    """Train as `HAXMLNet.fit` does with its defaults for the whole data set, until the clock says enough."""
    from haxmlnet.data.prepared import PreparedCorpus
    from haxmlnet.models.preparation import prepare_training, vocabulary
    from haxmlnet.models.tree_model import train_tree

    corpus = PreparedCorpus.open(directory)
    # Neither validation nor the linear part is a part of a step.
    chosen = Settings(linear=False, validation_fraction=0.0, n_jobs=n_threads, random_state=seed)
    n_documents = round(len(corpus) / min(scale, 1.0))
    settings = resolve_settings(check_settings(settings_of(chosen)), n_documents, corpus.n_labels)
    prepared = prepare_training(corpus, vocabulary(corpus, settings), None, settings, Progress())
    if sizes["word_size"] != settings["word_size"]:
        shape = (len(prepared.word_vectors), sizes["word_size"])
        vectors = np.random.default_rng(seed).standard_normal(shape, np.float32)
        prepared = replace(prepared, word_vectors=vectors / np.sqrt(sizes["word_size"], dtype=np.float32))
    with suppress(Enough):
        train_tree(prepared, {**settings, **sizes}, 0, None, clock)
