"""The stages of the way that `benchmarks.scale` goes: each gives the seconds of its parts and what it counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.preparation_parts import Figures, StageClock
from benchmarks.synthetic import Statistics, SyntheticData
from haxmlnet.data import iterate_documents
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.methods.corpus_features import CorpusFeatures
from haxmlnet.progress import Progress
from haxmlnet.settings import Settings
from haxmlnet.text.prepare import prepare
from haxmlnet.tree import build_label_tree, choose_level_sizes

LEAF_SIZE = 100
SINGLE_DOCUMENTS = 20


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


def build_tree(directory: Path, seed: int) -> Figures:
    """Make TF-IDF and label features, which training finds again, and a tree of them."""
    clock, corpus, settings = Clock(), PreparedCorpus.open(directory), Settings()
    n_words = corpus.vocabulary_limit(settings.vocabulary_size, settings.min_document_frequency)
    features = CorpusFeatures(corpus, n_words, np.arange(len(corpus)), Progress())
    with clock.part("TF-IDF"):
        features.tfidf()
    with clock.part("label features"):
        by_label = features.by_label()
    sizes = choose_level_sizes(corpus.n_labels, LEAF_SIZE, settings.max_first_level, 8)
    with clock.part("tree"):
        tree = build_label_tree(by_label, sizes, np.random.default_rng(seed))
    return {"seconds": clock.seconds, "level_sizes": tree.level_sizes, "entries": int(by_label.nnz)}


def train_and_save(directory: Path, model_directory: Path, steps: int, seed: int) -> Figures:
    """Train all levels and save the model."""
    from haxmlnet import HAXMLNet  # here, so that torch is in no memory but that of the stages that use it

    clock, progress, model = Clock(), StageClock(), HAXMLNet(max_steps=steps, random_state=seed)
    with clock.part("train"):
        model.fit_prepared(PreparedCorpus.open(directory), progress=progress)
    with clock.part("save"):
        model.save(model_directory)
    size = sum(file.stat().st_size for file in model_directory.rglob("*") if file.is_file())
    return {"seconds": clock.seconds, "training": dict(progress.seconds), "model_bytes": size}


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
