"""Many documents: all test documents of cve_products at once, against libpecos' XR-Linear.

In the first row, ours is given the same TF-IDF as the peer and is what the peer is: linear classifiers over a tree, and
nothing else. In the second one it is LinearTree as recommended, from texts to labels, with names, similar documents and
the fusion. Of the peer only its own call is timed; what it takes together with TF-IDF by scikit-learn, as in the
bench, is in the details.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import scipy.sparse as sp

from benchmarks.configurations import CONFIGURATIONS
from benchmarks.inputs import FEATURES_SUMMARY, SUMMARY, write_documents, write_features
from benchmarks.measuring import Figures, run_alone
from benchmarks.peers.exchange import N_BEST, Task
from benchmarks.speed.documents import part_of, texts_of
from benchmarks.speed.row import PEERS_PYTHON, Row, Run, at_least, needed, run_command

DATA = "cve_products"
PEER, PEER_MODULE = "libpecos XR-Linear", "benchmarks.peers.pecos_xrlinear"
LEAST_RATIO = 1.0
WARM_UP = 200
TREE_ALONE = {"fusion": False, "names": False, "neighbours": False, "hard_negatives": 0}


def many_documents(run: Run) -> Iterator[Row]:
    """Predict all test documents: linear trees over libpecos, and HAXMLNet if there is one."""
    source = part_of(run, DATA)
    needed(PEERS_PYTHON)
    inputs = run.folder(f"inputs-{DATA}-{run.scale:g}")
    tfidf_ms = run_alone(_write_inputs, source, inputs)["batch_ms"]
    ours, theirs = _own_model(run, "LinearTree"), run.work / f"model-libpecos-{DATA}-{run.scale:g}-{run.seed}"
    if not ours.exists():
        run_alone(_train, inputs, run.threads, run.seed, ours)
    peer, alone = Peer(_train_peer(run, inputs, theirs), inputs, tfidf_ms), _own_model(run, "tree-alone")
    if not alone.exists():
        run_alone(_train_on_features, inputs, run.threads, run.seed, alone)
    what = "many_documents: {} over libpecos from features"
    yield compare(run, what.format("the tree alone"), predict_features, alone, peer)
    yield compare(run, what.format("LinearTree from texts"), predict_all, ours, peer)
    neural = _own_model(run, "HAXMLNet")
    if neural.exists():
        figures = run_alone(predict_all, neural, inputs / "judged.jsonl", run.threads)
        rate = figures["documents"] / figures["seconds"]
        yield Row(f"many_documents: HAXMLNet, {figures['documents']:,} documents", rate, "/s", details=figures)


class Peer(NamedTuple):
    """The trained peer, what both are given, and what its TF-IDF takes for a document."""

    task: Path
    inputs: Path
    tfidf_ms: float


def compare(run: Run, what: str, predict: Callable[..., Figures], ours: Path, peer: Peer) -> Row:
    """Predict with both in turn; the median of the ratios counts."""
    own_seconds, peer_seconds = [], []
    for _ in range(run.rounds):
        figures = run_alone(predict, ours, peer.inputs / "judged.jsonl", run.threads)
        own_seconds.append(figures["seconds"])
        answer = run_command([PEERS_PYTHON, "-m", "benchmarks.speed.pecos_predict", peer.task])
        peer_seconds.append(json.loads(answer)["seconds"])
    n, tfidf_seconds = figures["documents"], peer.tfidf_ms * figures["documents"] / 1000
    own_tfidf_seconds = tfidf_seconds if predict is predict_features else 0.0
    pairs = list(zip(own_seconds, peer_seconds, strict=True))
    details = {
        "documents": n,
        "documents_per_second": n / statistics.median(own_seconds),
        "libpecos_documents_per_second": n / statistics.median(peer_seconds),
        "libpecos_with_tfidf_documents_per_second": n / (statistics.median(peer_seconds) + tfidf_seconds),
        "ratio_with_tfidf": statistics.median(
            (theirs + tfidf_seconds) / (own + own_tfidf_seconds) for own, theirs in pairs
        ),
        "seconds": own_seconds,
        "libpecos_seconds": peer_seconds,
        "tfidf_seconds": tfidf_seconds,
    }
    ratio = statistics.median(theirs / own for own, theirs in pairs)
    return at_least(what, ratio, "x", LEAST_RATIO, details)


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
    from haxmlnet import LinearTree

    with open(inputs / "train.jsonl", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    model = LinearTree(n_jobs=n_threads, random_state=seed)
    model.fit([document["text"] for document in documents], [document["labels"] for document in documents])
    model.save(directory)
    return {}


def _train_on_features(inputs: Path, n_threads: int, seed: int, directory: Path) -> Figures:
    from haxmlnet import LinearTree

    features, targets = (sp.csr_array(sp.load_npz(inputs / f"{name}_train.npz")) for name in ("features", "labels"))
    names = json.loads((inputs / "labels.json").read_text("utf-8"))
    model = LinearTree(n_jobs=n_threads, random_state=seed, **TREE_ALONE)
    model.fit(features, targets, label_names=names).save(directory)
    return {}


def _train_peer(run: Run, inputs: Path, out: Path) -> Path:
    """Train the peer as the bench does; its last file tells that all is there."""
    out.mkdir(exist_ok=True)
    task = out / "task.json"
    Task(inputs, out, dict(CONFIGURATIONS[PEER].settings), run.seed, run.threads).write(task)
    if not (out / "train.json").exists():
        run_command([PEERS_PYTHON, "-m", PEER_MODULE, "train", task])
    return task


def predict_all(directory: Path, judged: Path, n_threads: int) -> Figures:
    """Time all texts at once after a warm-up."""
    texts = texts_of(judged)
    return _time_prediction(directory, texts, len(texts), n_threads)


def predict_features(directory: Path, judged: Path, n_threads: int) -> Figures:
    """Time the TF-IDF of all texts at once after a warm-up."""
    features = sp.csr_array(sp.load_npz(judged.with_name("features_judged.npz")))
    return _time_prediction(directory, features, features.shape[0], n_threads)


def _time_prediction(directory: Path, documents: Any, n_documents: int, n_threads: int) -> Figures:
    import haxmlnet

    model: Any = haxmlnet.load_model(directory)
    model.n_jobs = n_threads
    model.predict(documents[:WARM_UP], k=N_BEST)
    started = time.perf_counter()
    model.predict(documents, k=N_BEST)
    return {"seconds": time.perf_counter() - started, "documents": n_documents}
