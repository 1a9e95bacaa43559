"""Models of very many labels, trained on synthetic documents only as long as it takes to have them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measuring import Figures, run_alone
from benchmarks.speed.row import Run
from benchmarks.synthetic import Statistics, SyntheticData

METHODS = ("LinearTree", "HAXMLNet")
# Were every label on one document alone, the fusion could not be fitted and the linear part would be missing.
LABELS_TO_GIVE = 1.2
"""Labels on all documents together, for each label that is to be on one of them."""


def fewest_documents(n_labels: int, labels_per_document: float) -> int:
    """Return the number of documents that bring so many labels into training."""
    return math.ceil(LABELS_TO_GIVE * n_labels / labels_per_document)


@dataclass(frozen=True)
class Size:
    """As few and short documents as bring so many labels into training, and settings that make it short.

    The size of the model is that of the defaults.
    """

    statistics: Statistics
    settings: dict[str, dict[str, Any]]


SMALL = Size(
    Statistics(25_000, 100, 100_000, 60_000, 5.0, 50.0, 50.0),
    {"HAXMLNet": {"epochs": 1, "batch_size": 500, "checkpoint_seconds": 3600.0}},
)
LARGE = Size(
    Statistics(fewest_documents(670_000, 20.0), 100, 100_000, 670_000, 20.0, 60.0, 60.0), {"HAXMLNet": {"max_steps": 3}}
)


def model_of(run: Run, method: str, size: Size) -> Path:
    """Return the directory of a model, trained now or found from an earlier run."""
    statistics = size.statistics.scaled(run.scale)
    directory = run.work / f"model-{method}-{statistics.n_labels}-{run.seed}"
    if not directory.exists():
        text = run.folder("documents") / f"{directory.name}.jsonl"
        run_alone(_train, method, statistics, size.settings.get(method, {}), run.seed, text, directory)
    return directory


def has_linear_part(directory: Path) -> bool:
    """Tell from its files whether a model has linear classifiers."""
    return any(directory.glob("*classifiers*"))


def texts_of_length(statistics: Statistics, seed: int, n_texts: int, n_words: int, file: Path) -> list[str]:
    """Make up to so many texts of exactly this many words, of the vocabulary that a model of these statistics knows."""
    longer = replace(statistics, n_test=n_texts, words_test=3.0 * n_words)
    SyntheticData(longer, seed).write("test", file)
    words = [json.loads(line)["text"].split() for line in file.read_text("utf-8").splitlines()]
    file.unlink()
    return [" ".join(text[:n_words]) for text in words if len(text) >= n_words]


def training_documents(statistics: Statistics, seed: int, file: Path) -> tuple[list[str], list[list[str]]]:
    """Make synthetic texts and their labels; they stand in a file until they are read."""
    SyntheticData(statistics, seed).write("train", file)
    documents = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    file.unlink()
    return [document["text"] for document in documents], [document["labels"] for document in documents]


def _train(
    method: str, statistics: Statistics, settings: dict[str, Any], seed: int, text: Path, directory: Path
) -> Figures:
    import haxmlnet

    model = getattr(haxmlnet, method)(**settings, random_state=seed)
    model.fit(*training_documents(statistics, seed, text)).save(directory)
    return {"labels": len(model.label_index_)}
