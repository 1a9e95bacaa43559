"""What the benchmark of preparation measures: each part runs in a process of its own, whose memory is watched."""

from __future__ import annotations

import gc
import json
import multiprocessing as mp
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.synthetic import SyntheticData
from haxmlnet import PreparedCorpus, prepare
from haxmlnet.data import Document, iterate_documents
from haxmlnet.models.corpus_features import CorpusFeatures
from haxmlnet.progress import Progress
from haxmlnet.settings import Settings

Figures = dict[str, Any]
SAMPLING_SECONDS = 0.02
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
    n_words = corpus.vocabulary_limit(Settings().vocabulary_size, Settings().min_document_frequency)
    features = CorpusFeatures(corpus, n_words, np.arange(len(corpus)), progress)
    tfidf, by_label = features.tfidf(), features.by_label()
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
    sizes = [_memory_bytes()]
    started = time.perf_counter()
    corpus = PreparedCorpus.open(directory)
    seconds = time.perf_counter() - started
    sizes.append(_memory_bytes())
    tokens, rows = corpus.tokens, np.random.default_rng(0).permutation(len(corpus))[:DOCUMENTS_USED]
    n_words = sum(len(np.array(tokens.ids[tokens.starts[row] : tokens.ends[row]])) for row in rows)
    sizes.append(_memory_bytes())
    greatest = int(np.asarray(tokens.ids).max(initial=0))
    sizes.append(_memory_bytes())
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


class StageClock(Progress):
    """Adds up the seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.units: dict[str, str] = {}
        self._inner: list[float] = []

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Time a stage, without the stages within it."""
        started = time.perf_counter()
        self.units[name] = unit
        self._inner.append(0.0)
        try:
            yield lambda n, note="": None
        finally:
            seconds = time.perf_counter() - started
            self.seconds[name] += seconds - self._inner.pop()
            if self._inner:
                self._inner[-1] += seconds


def run_alone(part: Callable[..., Figures], *arguments: object) -> Figures:
    """Run a part in a new process; add its peak memory, with and without pages that are mapped from files."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_send_figures, args=(theirs, part, arguments))
    process.start()
    theirs.close()
    with MemoryWatch(process.pid or 0) as watch:
        try:
            figures: Figures = ours.recv()
        except EOFError:
            process.join()
            raise SystemExit(f"{part.__name__} ended with exit code {process.exitcode}.") from None
    process.join()
    return {**figures, "peak_anonymous_bytes": watch.peaks.get("", Memory(0, 0)).own}


def _send_figures(connection: Connection, part: Callable[..., Figures], arguments: tuple[object, ...]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures = part(*arguments)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    connection.send({**figures, "peak_bytes": peak * unit, "bytes_at_start": before * unit})
    connection.close()


class Memory(NamedTuple):
    """Bytes of memory that a process is in, and those that belong to it alone; 0 where the system does not tell."""

    resident: int
    own: int


class MemoryWatch(threading.Thread):
    """Samples the memory of a process while a block runs, and keeps the peak of each stage."""

    def __init__(self, pid: int | str = "self", stage: Callable[[], str] = lambda: "") -> None:
        super().__init__(daemon=True)
        self.peaks: dict[str, Memory] = {}
        self._pid, self._stage, self._ended = pid, stage, threading.Event()

    def run(self) -> None:
        """Sample until the block ends."""
        while not self._ended.wait(SAMPLING_SECONDS):
            stage, (own, mapped) = self._stage(), _memory_bytes(self._pid)
            before = self.peaks.get(stage, Memory(0, 0))
            self.peaks[stage] = Memory(max(before.resident, own + mapped), max(before.own, own))

    def __enter__(self) -> MemoryWatch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def _memory_bytes(pid: int | str = "self") -> tuple[int, int]:
    """Give the memory that a process has for itself, and what it has mapped from files; 0 where it is not told."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if name in RSS}
    return kilobytes.get(RSS[0], 0) * 1024, sum(kilobytes.get(name, 0) for name in RSS[1:]) * 1024


RSS = ("RssAnon", "RssFile", "RssShmem")


def round_figures(figures: Figures) -> Figures:
    """Shorten numbers for the line of JSON."""
    shortened: Figures = json.loads(json.dumps(figures), parse_float=lambda number: float(f"{float(number):.4g}"))
    return shortened
