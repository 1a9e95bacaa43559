"""One document: how long a user waits for the labels of a text, in a process that has the model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Figures, run_alone
from benchmarks.speed.models import LARGE, METHODS, SMALL, Size, has_linear_part, model_of, texts_of_length
from benchmarks.speed.row import Row, Run, at_most

MOST_MILLISECONDS, MOST_TIMES_SLOWER = 10.0, 2.0
WORDS, TEXTS, WARM_UP = 300, 500, 30
K = 5


def one_document(run: Run) -> Iterator[Row]:
    """Predict texts of 300 words one by one, by models of 60,000 and of 670,000 labels; HAXMLNet has targets."""
    for method in METHODS:
        limit = MOST_MILLISECONDS
        for size in (SMALL, LARGE):
            figures = _measure(run, method, size)
            median, slowest = figures.pop("median_ms"), figures.pop("slowest_ms")
            what = f"one_document: {method}, {figures['labels']:,} labels"
            # Trained on few documents, a network has no linear part beside it, and is faster than a default one.
            if method == "HAXMLNet" and figures["has_linear_part"]:
                yield at_most(f"{what}, median", median, "ms", limit, figures)
            else:
                yield Row(f"{what}, median", median, "ms", details=figures)
            yield Row(f"{what}, 99th percentile", slowest, "ms", details={"texts": figures["texts"]})
            limit = round(MOST_TIMES_SLOWER * median, 2)


def _measure(run: Run, method: str, size: Size) -> Figures:
    directory = model_of(run, method, size)
    statistics = size.statistics.scaled(run.scale)
    file = run.folder("documents") / f"{directory.name}-texts.jsonl"
    texts = texts_of_length(statistics, run.seed, TEXTS + WARM_UP, WORDS, file)
    return run_alone(predict_one_by_one, directory, texts, run.threads)


def predict_one_by_one(directory: Path, texts: list[str], n_threads: int) -> Figures:
    """Time texts one by one after a warm-up."""
    import haxmlnet

    model: Any = haxmlnet.load_model(directory)
    model.n_jobs = n_threads
    for text in texts[:WARM_UP]:
        model.predict([text], k=K)
    times = []
    for text in texts[WARM_UP:]:
        started = time.perf_counter()
        model.predict([text], k=K)
        times.append(1000 * (time.perf_counter() - started))
    return {
        "median_ms": float(np.median(times)),
        "slowest_ms": float(np.percentile(times, 99)),
        "texts": len(times),
        "labels": len(model.label_index_),
        "level_sizes": [level["nodes"] for level in model.describe().get("levels", [])],
        "has_linear_part": has_linear_part(directory),
    }
