"""What the benchmark of preparation measures; each part runs in a process of its own."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.measuring import Figures, StageClock, memory_bytes
from benchmarks.synthetic import SyntheticData
from haxmlnet import PreparedCorpus, prepare
from haxmlnet.config import haxmlnet_config
from haxmlnet.data import Document, iterate_documents
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.training_set import TrainingSet
from haxmlnet.settings import Settings, resolve_settings, settings_of

DOCUMENTS_USED = 1_000
WARM_UP_DOCUMENTS = 200
QUICK_ROUNDS = 3
"""Rounds of what takes less than a second for each round of what takes many."""


class Seconds(NamedTuple):
    """How long something took, and how long processors worked on it."""

    passed: float
    worked: float


def write_text(name: str, scale: float, seed: int, path: Path) -> Figures:
    """Write the synthetic training documents."""
    started = time.perf_counter()
    data = SyntheticData.of(name, scale, seed)
    n_words = data.write("train", path)
    seconds = time.perf_counter() - started
    return {"documents": data.n_documents("train"), "tokens": n_words, "seconds": seconds, "bytes": path.stat().st_size}


def prepare_everything(path: Path, directory: Path) -> Figures:
    """Go from the text file to word ids, TF-IDF and label features, and time each stage."""
    progress = StageClock()
    started = time.perf_counter()
    corpus = prepare(path, directory, progress=progress)
    config = haxmlnet_config(resolve_settings(settings_of(Settings()), len(corpus), corpus.n_labels), corpus.n_labels)
    whole = TrainingSet.of_corpus(corpus, config.text.vocabulary_size, config.text.min_document_frequency, progress)
    fold = Fold(whole, config, np.arange(len(corpus)), None, np.random.default_rng(0))
    tfidf, by_label = whole.features, fold.label_features
    return {
        "seconds": time.perf_counter() - started,
        "stages": dict(progress.seconds),
        "documents": len(corpus),
        "tokens": len(corpus.tokens.ids),
        "words": corpus.n_words - 2,
        "labels": corpus.n_labels,
        "tfidf_entries": tfidf.nnz,
        "label_feature_entries": by_label.nnz,
    }


def open_prepared(directory: Path) -> Figures:
    """Open a prepared corpus and use its documents, watching how memory grows: its own, and pages mapped from files."""
    sizes = [memory_bytes()]
    started = time.perf_counter()
    corpus = PreparedCorpus.open(directory)
    seconds = time.perf_counter() - started
    sizes.append(memory_bytes())
    tokens, rows = corpus.tokens, np.random.default_rng(0).permutation(len(corpus))[:DOCUMENTS_USED]
    n_words = sum(len(np.array(tokens.ids[tokens.starts[row] : tokens.ends[row]])) for row in rows)
    sizes.append(memory_bytes())
    greatest = int(np.asarray(tokens.ids).max(initial=0))
    sizes.append(memory_bytes())
    own, mapped = np.diff(np.array(sizes), axis=0).T.tolist()
    return {"seconds": seconds, "words_used": n_words, "greatest": greatest, "own_bytes": own, "mapped_bytes": mapped}


def compare_tokenizing(path: Path, folder: Path, n_rounds: int) -> Figures:
    """Measure text file to memory-mapped ids against scikit-learn on texts that are in memory already, in turns."""
    from sklearn.feature_extraction.text import CountVectorizer

    _warm_up(path, folder)
    texts = [document.text for document in iterate_documents(path, with_labels=False)]
    ours: list[Seconds] = []
    theirs: list[Seconds] = []
    for i in range(n_rounds):
        with _timed(ours):
            corpus = prepare(path, folder / f"round{i}")
        with _timed(theirs):
            counts = CountVectorizer().fit_transform(texts)
    n_tokens = len(corpus.tokens.ids)
    assert int(counts.sum()) == n_tokens, "the two tokenizers must find the same words"
    return _rates("tokens", n_tokens, ours, theirs)


def compare_reading(path: Path, folder: Path, n_rounds: int) -> Figures:
    """Measure reading JSON lines against pyarrow and a Python loop over its rows, in turns."""
    ours: list[Seconds] = []
    theirs: list[Seconds] = []
    n_documents = 0
    for _ in range(QUICK_ROUNDS * n_rounds):
        with _timed(ours):
            n_documents = sum(1 for _ in iterate_documents(path, with_labels=True))
        with _timed(theirs):
            n_rows = _loop_over_arrow(path)
        assert n_rows == n_documents
    return _rates("documents", n_documents, ours, theirs)


def _loop_over_arrow(path: Path) -> int:
    """Make the same documents of the rows as our reader does, without looking at what is in them."""
    import pyarrow.json

    n_rows = 0
    for batch in pyarrow.json.read_json(path).to_batches():
        for number, row in enumerate(batch.to_pylist(), n_rows + 1):
            Document(str(row.get("id", number)), row["text"], tuple(row["labels"]))
        n_rows += batch.num_rows
    return n_rows


@contextmanager
def _timed(rounds: list[Seconds]) -> Iterator[None]:
    gc.collect()
    started, worked = time.perf_counter(), time.process_time()
    yield
    rounds.append(Seconds(time.perf_counter() - started, time.process_time() - worked))


def _rates(unit: str, n: int, ours: list[Seconds], theirs: list[Seconds]) -> Figures:
    """Compare the best of several rounds each."""
    return {
        unit: n,
        "ours_seconds": [seconds.passed for seconds in ours],
        "theirs_seconds": [seconds.passed for seconds in theirs],
        "ours_processor_seconds": [seconds.worked for seconds in ours],
        "theirs_processor_seconds": [seconds.worked for seconds in theirs],
        f"ours_{unit}_per_second": n / min(ours).passed,
        f"theirs_{unit}_per_second": n / min(theirs).passed,
        "ratio": min(theirs).passed / min(ours).passed,
    }


def _warm_up(path: Path, folder: Path) -> None:
    """Compile, or load what was compiled, before anything is measured."""
    small = folder / "small.jsonl"
    copy_lines(path, small, WARM_UP_DOCUMENTS)
    prepare(small, folder / "small")


def copy_lines(path: Path, copy: Path, n_lines: int) -> None:
    """Copy the first lines of a file."""
    with path.open("rb") as source, copy.open("wb") as target:
        target.writelines(islice(source, n_lines))
