"""The stages of the way that `benchmarks.scale` goes: each gives the seconds of its parts and what it counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from haxmlnet.models.corpus_features import CorpusFeatures
from haxmlnet.models.preparation import held_out_size, split_at_random, split_documents
from numpy.typing import NDArray

from benchmarks.preparation_parts import Figures, MemoryWatch, StageClock
from benchmarks.synthetic import Statistics, SyntheticData
from haxmlnet.data import iterate_documents
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.progress import Progress
from haxmlnet.settings import Settings, check_settings, resolve_settings, settings_of
from haxmlnet.text.prepare import prepare
from haxmlnet.tree import build_label_tree, choose_level_sizes

SINGLE_DOCUMENTS = 20
MAX_FAN_OUT = 16
"""That of `haxmlnet.models.tree_model`, which would bring torch into the memory of the stage of the tree."""
UNTOLD = {
    "build_label_tree": "tree", "node_vectors": "start of the networks", "fit_fusion": "rule of fusion",
    "label_features": "label features of all documents",
}  # fmt: skip
"""Functions that training calls, and the stages that their seconds belong to."""
STAGE_NAMES = {"vectors": "word vectors", "tf-idf": "TF-IDF"}
REST, SAVE = "the rest of training", "save"


def decided(settings: Figures, corpus: PreparedCorpus) -> Figures:
    """Give all settings of a training, with those that follow from the size of the data."""
    chosen = check_settings(settings_of(Settings(**settings)))
    return resolve_settings(chosen, len(corpus), corpus.n_labels)


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
    """Read the text into word ids and label ids."""
    clock = Clock()
    with clock.part("read, split, number"):
        corpus = prepare(text, directory)
    return {"seconds": clock.seconds, "documents": len(corpus), "labels": corpus.n_labels, "words": corpus.n_words}


def build_tree(directory: Path, settings: Figures) -> Figures:
    """Make TF-IDF and label features, which training finds again, and a tree of them, as training does."""
    clock, corpus = Clock(), PreparedCorpus.open(directory)
    chosen = decided(settings, corpus)
    n_words = corpus.vocabulary_limit(chosen["vocabulary_size"], chosen["min_document_frequency"])
    features = CorpusFeatures(corpus, n_words, _training_rows(corpus, chosen), Progress())
    with clock.part("TF-IDF"):
        features.tfidf()
    with clock.part("label features"):
        by_label = features.by_label()
    sizes = chosen["level_sizes"]
    if sizes is None:
        sizes = choose_level_sizes(corpus.n_labels, chosen["group_size"], chosen["max_first_level"], MAX_FAN_OUT)
    with clock.part("tree"):
        tree = build_label_tree(by_label, sizes, np.random.default_rng([chosen["random_state"], 0]))
    return {"seconds": clock.seconds, "level_sizes": tree.level_sizes, "entries": int(by_label.nnz)}


def _training_rows(corpus: PreparedCorpus, chosen: Figures) -> NDArray[np.int64]:
    """Choose the documents that training does not hold out."""
    rng = np.random.default_rng([chosen["random_state"]])
    n_held_out = held_out_size(len(corpus), chosen)
    if chosen["linear"]:
        return split_at_random(len(corpus), n_held_out, rng)[0]
    return split_documents(corpus.targets, n_held_out, rng)[0]


def train_and_save(directory: Path, model_directory: Path, settings: Figures) -> Figures:
    """Train all levels and save the model; training is told by its stages, and what is in none of them."""
    from haxmlnet import HAXMLNet  # here, so that torch is in no memory but that of the stages that use it

    clock, progress, model = Clock(), TrainingClock(), HAXMLNet(**settings)
    corpus = PreparedCorpus.open(directory)
    with MemoryWatch(stage=lambda: progress.current) as watch:
        with clock.part("training, all stages"), untold_stages(progress):
            # As 'haxmlnet fit' does it: with checkpoints, which hold the best weights so far.
            model.fit_prepared(corpus, checkpoint_dir=model_directory.with_name("training"), progress=progress)
        stages = dict(progress.seconds)
        with clock.part(SAVE), progress.stage(SAVE, None, ""):
            model.save(model_directory)
    whole, save = clock.seconds.values()
    seconds = {**stages, REST: whole - sum(stages.values()), SAVE: save}
    size = sum(file.stat().st_size for file in model_directory.rglob("*") if file.is_file())
    return {
        "seconds": seconds,
        "memory": {name: peak._asdict() for name, peak in watch.peaks.items()},
        "seconds_of_training": whole,
        "seconds_of_a_step": progress.median_step(),
        "planned_bytes": planned_bytes(corpus, settings),
        "level_sizes": model.trees_[0].tree.level_sizes,
        "has_linear_part": model.trees_[0].linear is not None,
        "model_bytes": size,
    }


def planned_bytes(corpus: PreparedCorpus, settings: Figures) -> int:
    """Give the peak memory that `haxmlnet plan` expects of the training."""
    from haxmlnet.planning.model_shape import ModelShape
    from haxmlnet.planning.sizes import DataSizes
    from haxmlnet.planning.training_memory import Memory

    return Memory(ModelShape(DataSizes.of_corpus(corpus), decided(settings, corpus))).training_peak


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
        """Give the seconds of a step; None where no network had two of them."""
        return float(np.median(self.steps)) if self.steps else None


@contextmanager
def untold_stages(progress: Progress) -> Iterator[None]:
    """Make stages of what training does without telling its progress."""
    from haxmlnet.linear.neighbours import Neighbours

    from haxmlnet.models import tree_model

    def in_stage(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            with progress.stage(name, None, ""):
                return function(*arguments, **named)

        return timed

    with ExitStack() as stack:
        for name, stage in UNTOLD.items():
            stack.enter_context(patch.object(tree_model, name, in_stage(stage, getattr(tree_model, name))))
        candidates = in_stage("candidates of the rule", tree_model.TreeModel.candidates)
        stack.enter_context(patch.object(tree_model.TreeModel, "candidates", candidates))
        compared = in_stage("documents to compare with", Neighbours.of)
        stack.enter_context(patch.object(Neighbours, "of", compared))
        yield


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
