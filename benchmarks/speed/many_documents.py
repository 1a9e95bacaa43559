"""Many documents: all test documents of cve_products at once, against libpecos' XR-Linear.

Ours goes from texts to labels. The peer is given TF-IDF, and only its own call is timed; what it takes together with
TF-IDF by scikit-learn, as in the bench, is in the details.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.configurations import CONFIGURATIONS
from benchmarks.inputs import FEATURES_SUMMARY, SUMMARY, write_documents, write_features
from benchmarks.peers.exchange import N_BEST, Task
from benchmarks.preparation_parts import Figures, run_alone
from benchmarks.speed.documents import part_of, texts_of
from benchmarks.speed.models import keep_model
from benchmarks.speed.row import PEERS_PYTHON, Row, Run, at_least, needed, run_command

DATA = "cve_products"
PEER, PEER_MODULE = "libpecos XR-Linear", "benchmarks.peers.pecos_xrlinear"
LEAST_RATIO = 1.0
WARM_UP = 200


def many_documents(run: Run) -> Iterator[Row]:
    """Predict all test documents: LinearTree from texts over libpecos from features, and HAXMLNet if there is one."""
    source = part_of(run, DATA)
    needed(PEERS_PYTHON)
    inputs = run.folder(f"inputs-{DATA}-{run.scale:g}")
    tfidf_ms = run_alone(_write_inputs, source, inputs)["batch_ms"]
    ours, theirs = _own_model(run, "LinearTree"), run.work / f"model-libpecos-{DATA}-{run.scale:g}-{run.seed}"
    if not ours.exists():
        run_alone(_train, inputs, run.threads, run.seed, ours)
    task = _trained_peer(run, inputs, theirs)
    yield _compared(run, inputs, ours, task, tfidf_ms)
    neural = _own_model(run, "HAXMLNet")
    if neural.exists():
        figures = run_alone(predict_all, neural, inputs / "judged.jsonl", run.threads)
        rate = figures["documents"] / figures["seconds"]
        yield Row(f"many_documents: HAXMLNet, {figures['documents']:,} documents", rate, "/s", details=figures)


def _compared(run: Run, inputs: Path, ours: Path, task: Path, tfidf_ms: float) -> Row:
    own_seconds, peer_seconds = [], []
    for _ in range(run.rounds):
        figures = run_alone(predict_all, ours, inputs / "judged.jsonl", run.threads)
        own_seconds.append(figures["seconds"])
        peer = run_command([PEERS_PYTHON, "-m", "benchmarks.speed.pecos_predict", task])
        peer_seconds.append(json.loads(peer)["seconds"])
    n, tfidf_seconds = figures["documents"], tfidf_ms * figures["documents"] / 1000
    pairs = list(zip(own_seconds, peer_seconds, strict=True))
    details = {
        "documents": n,
        "documents_per_second": n / statistics.median(own_seconds),
        "libpecos_documents_per_second": n / statistics.median(peer_seconds),
        "libpecos_with_tfidf_documents_per_second": n / (statistics.median(peer_seconds) + tfidf_seconds),
        "ratio_with_tfidf": statistics.median((peer + tfidf_seconds) / own for own, peer in pairs),
        "seconds": own_seconds,
        "libpecos_seconds": peer_seconds,
        "tfidf_seconds": tfidf_seconds,
    }
    ratio = statistics.median(peer / own for own, peer in pairs)
    return at_least("many_documents: LinearTree over libpecos from features", ratio, "x", LEAST_RATIO, details)


def _write_inputs(source: Path, inputs: Path) -> Figures:
    """Write what both are given; TF-IDF is made anew, so that its time is one of this run."""
    if not (inputs / SUMMARY).exists():
        write_documents(source, "test", inputs)
    write_features(inputs)
    figures: Figures = json.loads((inputs / FEATURES_SUMMARY).read_text("utf-8"))
    return figures


def _own_model(run: Run, method: str) -> Path:
    return run.work / f"model-{method}-{DATA}-{run.scale:g}-{run.seed}"


def _train(inputs: Path, n_threads: int, seed: int, directory: Path) -> Figures:
    from haxmlnet.methods.linear_tree import LinearTree

    with open(inputs / "train.jsonl", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    model = LinearTree(n_jobs=n_threads, random_state=seed)
    model.fit([document["text"] for document in documents], [document["labels"] for document in documents])
    keep_model(model, directory)
    return {}


def _trained_peer(run: Run, inputs: Path, out: Path) -> Path:
    """Train the peer as the bench does; its last file tells that all is there."""
    out.mkdir(exist_ok=True)
    task = out / "task.json"
    Task(inputs, out, dict(CONFIGURATIONS[PEER].settings), run.seed, run.threads).write(task)
    if not (out / "train.json").exists():
        run_command([PEERS_PYTHON, "-m", PEER_MODULE, "train", task])
    return task


def predict_all(directory: Path, judged: Path, n_threads: int) -> Figures:
    """Time all documents at once after a warm-up."""
    import haxmlnet

    texts = texts_of(judged)
    model: Any = haxmlnet.load_model(directory)
    model.n_jobs = n_threads
    model.predict(texts[:WARM_UP], k=N_BEST)
    started = time.perf_counter()
    model.predict(texts, k=N_BEST)
    return {"seconds": time.perf_counter() - started, "documents": len(texts)}
