"""The stages that `benchmarks.scale` runs: each gives the seconds of its parts and what it counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.measuring import Figures, MemoryWatch, StageClock
from benchmarks.speed.models import has_linear_part
from benchmarks.synthetic import Statistics, SyntheticData
from haxmlnet import PreparedCorpus, prepare
from haxmlnet.data import iterate_documents

SINGLE_DOCUMENTS = 20
STAGE_NAMES = {"vectors": "word vectors", "tf-idf": "TF-IDF"}
REST, SAVE = "the rest of training", "save"


class Clock:
    """The seconds of each part of a stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part."""
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started


def write_text(statistics: Statistics, seed: int, train: Path, judged: Path) -> Figures:
    """Write the synthetic documents."""
    clock, data = Clock(), SyntheticData(statistics, seed)
    with clock.part("train"):
        n_words = data.write("train", train)
    with clock.part("test"):
        data.write("test", judged)
    return {"seconds": clock.seconds, "tokens": n_words, "bytes": train.stat().st_size}


def prepare_corpus(text: Path, directory: Path) -> Figures:
    """Turn the text into word ids and label ids."""
    clock = Clock()
    with clock.part("read, split, number"):
        corpus = prepare(text, directory)
    return {"seconds": clock.seconds, "documents": len(corpus), "labels": corpus.n_labels, "words": corpus.n_words}


def train_and_save(directory: Path, model_directory: Path, settings: Figures) -> Figures:
    """Train all levels and save the model; the parts are the stages of training, and what is in none of them."""
    from haxmlnet import HAXMLNet  # here, so that torch is in no memory but that of the stages that use it

    clock, progress, model = Clock(), TrainingClock(), HAXMLNet(**settings)
    corpus = PreparedCorpus.open(directory)
    with MemoryWatch(stage=lambda: progress.current) as watch:
        with clock.part("training, all stages"):
            # As 'haxmlnet fit' does it: with checkpoints, which hold the best weights so far.
            model.fit_prepared(corpus, checkpoint_dir=model_directory.with_name("training"), progress=progress)
        stages = dict(progress.seconds)
        with clock.part(SAVE), progress.stage(SAVE, None, ""):
            model.save(model_directory)
    whole, save = clock.seconds.values()
    return {
        "seconds": {**stages, REST: whole - sum(stages.values()), SAVE: save},
        "memory": {name: peak._asdict() for name, peak in watch.peaks.items()},
        "seconds_of_training": whole,
        "seconds_of_a_step": progress.median_step(),
        "planned_bytes": model.plan(corpus).describe()["training_peak_bytes"],
        "level_sizes": [level["nodes"] for level in model.describe()["levels"]],
        "has_linear_part": has_linear_part(model_directory),
        "model_bytes": sum(file.stat().st_size for file in model_directory.rglob("*") if file.is_file()),
    }


class TrainingClock(StageClock):
    """Adds up the seconds of each stage, knows the current one, and notes when each step of the networks ends."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[float] = []
        self._begun = [REST]

    @property
    def current(self) -> str:
        """Name the stage that has begun and not ended; of those within others, the innermost."""
        return self._begun[-1]

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Time a stage; one of batches is the training of a network."""
        is_network = unit == "batches"
        ends: list[float] = []
        own = f"networks, {name}" if is_network else STAGE_NAMES.get(name, name)
        self._begun.append(own)
        try:
            with super().stage(own, total, unit) as advance:
                yield (lambda n, note="": ends.append(time.perf_counter())) if is_network else advance
        finally:
            self._begun.pop()
        # The first end is the start, and the last step ends with validation.
        self.steps += np.diff(ends[:-1]).tolist()

    def median_step(self) -> float | None:
        """Return the seconds of a step; None where no network had two of them."""
        return float(np.median(self.steps)) if self.steps else None


def load_and_judge(model_directory: Path, judged: Path) -> Figures:
    """Load the model, predict one document and all, and compare with their labels."""
    from haxmlnet import HAXMLNet

    clock = Clock()
    documents = list(iterate_documents(judged, with_labels=True))
    texts, labels = [document.text for document in documents], [list(document.labels) for document in documents]
    with clock.part("load"):
        model = HAXMLNet.load(model_directory)
    with clock.part("first prediction"):
        model.predict(texts[:1])
    with clock.part(f"{SINGLE_DOCUMENTS} documents one by one"):
        for text in texts[:SINGLE_DOCUMENTS]:
            model.predict([text])
    with clock.part("predict all and evaluate"):
        report = model.evaluate(texts, labels)
    return {"seconds": clock.seconds, "documents": len(texts), "metrics": report.values}
