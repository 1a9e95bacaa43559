"""The neural peer: AttentionXML of LibMultiLabel, an epoch of training and prediction, with sizes like ours.

Both get the same texts, word vectors (of random numbers, not trained), words a document, states, hidden layer, groups
of labels, candidates a document and documents a batch. The peer trains two networks one after the other, one for each
level and each with an encoder of its own; its epoch is one of each. Ours is one pass that trains both levels on one
encoder, which is how HAXMLNet trains. Predictions are made in turn, and the median of the ratios counts: a machine may
be a third faster or slower in the next minute. Where the default is bfloat16, ours in float32, as the peer's, takes its
turn, too. How fast ours is with an encoder for each level, and with all that the default network has and the peer's has
not, is in the details. Neither tokenization nor clustering, nor validation, nor the search for candidates between two
levels is timed.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Figures, StageClock, run_alone
from benchmarks.peers.exchange import N_BEST, Task
from benchmarks.speed.documents import first_documents, texts_of, write_jsonl
from benchmarks.speed.row import NEURAL_PEERS_PYTHON, ROOT, Row, Run, Unavailable, at_least, needed
from benchmarks.speed.training import FLOAT32, dtype_of
from haxmlnet import PreparedCorpus, prepare
from haxmlnet.data import Document

DATA = "eurlex57k"
LEAST_RATIO = 5.0
TRAINED, PREDICTED, VALIDATED = 2_000, 1_000, 64
WORDS, WORD_SIZE, HIDDEN_SIZE, LAYER = 200, 100, 128, 128
GROUP_SIZE, BEAM = 16, 16
BATCH, PREDICTION_BATCH = 64, 128
"""Ours predicts up to 128 documents at once."""
WORD_DROPOUT, STATE_DROPOUT, LEARNING_RATE = 0.2, 0.5, 1e-3
WORDS_WITH_VECTORS = 5_000
WARM_UP_STEPS = 2
OWN_EPOCHS = 3
"""Ours takes a few seconds for one, so that the median of some counts."""

PEER_SETTINGS: dict[str, Any] = {
    "max_seq_length": WORDS, "cluster_size": GROUP_SIZE, "beam_width": BEAM, "batch_size": BATCH,
    "eval_batch_size": PREDICTION_BATCH, "epochs": 1, "patience": 10, "learning_rate": LEARNING_RATE,
    "network_config": {
        "embed_dropout": WORD_DROPOUT, "post_encoder_dropout": STATE_DROPOUT, "rnn_layers": 1,
        "rnn_dim": 2 * HIDDEN_SIZE, "linear_size": [LAYER], "freeze_embed_training": True,
    },
}  # fmt: skip
OWN_SETTINGS: dict[str, Any] = {
    "max_length": WORDS, "batch_size": BATCH, "epochs": 1, "learning_rate": LEARNING_RATE,
    "hidden_size": HIDDEN_SIZE, "mlp_sizes": (LAYER,), "word_dropout": WORD_DROPOUT, "state_dropout": STATE_DROPOUT,
    "train_word_vectors": False, "attend_words": False, "own_outputs": False, "linear": False,
    "validation_fraction": 0.0,
}  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "same_network": {},
    "encoder_for_each_level": {"shared_encoder": False},
    "default_network": {"train_word_vectors": True, "attend_words": True, "own_outputs": True},
}


def neural_peer(run: Run) -> Iterator[Row]:
    """Train an epoch and predict: documents a second over those of LibMultiLabel's AttentionXML."""
    n_trained, n_predicted = (max(round(n * run.scale), BATCH) for n in (TRAINED, PREDICTED))
    train = first_documents(run, DATA, "train", n_trained)
    judged = first_documents(run, DATA, "test", n_predicted)
    needed(NEURAL_PEERS_PYTHON)
    with tempfile.TemporaryDirectory(prefix="neural-", dir=run.folder("documents")) as folder:
        inputs = Path(folder)
        write_inputs(inputs, train, judged, run.seed)
        ours = run_alone(measure_variants, inputs, run.threads, run.seed)
        compared = run_alone(compare, inputs, _peer_task(inputs, run), run.threads, run.seed, run.rounds)
    if "unavailable" in compared:
        raise Unavailable(compared["unavailable"])
    details = {**ours, **compared, "documents": len(train), "predicted": len(judged)}
    for step in ("training", "prediction"):
        ratio = details[f"{step}_ratio"]
        what = f"neural_peer: {step} over LibMultiLabel's AttentionXML"
        yield at_least(what, ratio, "x", LEAST_RATIO, details)
        if FLOAT32 in details:
            ratio = details[FLOAT32][f"{step}_ratio"]
            yield at_least(f"{what}, float32", ratio, "x", LEAST_RATIO, details[FLOAT32])


def write_inputs(folder: Path, train: list[Document], judged: list[Document], seed: int) -> None:
    """Write what both sides are given, in the form of the bench."""
    # The peer cannot train without validation; the time it takes is left out.
    for name, documents in {"train": train, "judged": judged, "dev": train[:VALIDATED]}.items():
        write_jsonl(documents, folder / f"{name}.jsonl")
    labels = sorted({label for document in train for label in document.labels})
    (folder / "labels.json").write_text(json.dumps(labels), "utf-8")
    counts = Counter(word for document in train for word in re.findall(r"\w+", document.text.lower()))
    words = [word for word, _ in counts.most_common(WORDS_WITH_VECTORS)]
    vectors = np.random.default_rng(seed).standard_normal((len(words), WORD_SIZE)) / math.sqrt(WORD_SIZE)
    with gzip.open(folder / "vectors.txt.gz", "wt", encoding="utf-8", compresslevel=1) as file:
        for word, vector in zip(words, vectors, strict=True):
            file.write(f"{word} {' '.join(f'{number:.4f}' for number in vector)}\n")


def _peer_task(inputs: Path, run: Run) -> Path:
    out = inputs / "peer"
    out.mkdir()
    settings = {**PEER_SETTINGS, "vectors": str(inputs / "vectors.txt.gz")}
    Task(inputs, out, settings, run.seed, run.threads, use_dev=True).write(out / "task.json")
    return out / "task.json"


class Peer:
    """The peer in its own process: trained when it is made, it predicts when it is asked to."""

    def __init__(self, task: Path) -> None:
        command = [str(NEURAL_PEERS_PYTHON), "-m", "benchmarks.speed.libmultilabel_epoch", str(task)]
        self.log = task.with_name("log.txt")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.figures = self._answer()

    def predict(self) -> float:
        """Return the seconds of a prediction."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it ended: there is no answer, and its log says why
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        return float(self._answer()["prediction_seconds"])

    def close(self) -> int:
        """Let the process end, and return its exit code."""
        self.process.communicate()
        return self.process.returncode

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):  # the library prints as well
                answer: dict[str, Any] = json.loads(line)
                return answer
        code = self.close()
        lines = self.log.read_text("utf-8").strip().splitlines() or ["no message"]
        raise Unavailable(f"LibMultiLabel ended with {code}: {lines[-1]}")


def compare(inputs: Path, task: Path, n_threads: int, seed: int, rounds: int) -> Figures:
    """Train both with the same network, one after the other, and let them predict in turn.

    A peer that fails is `unavailable`: this runs in a process of its own, from which only figures come back.
    """
    corpus, texts, settings = prepare_ours(inputs, n_threads, seed)
    precisions = ["auto"] if dtype_of("auto") == FLOAT32 else ["auto", FLOAT32]
    ours = {
        name: [train_ours(corpus, texts, {**settings, "precision": name}) for _ in range(OWN_EPOCHS)]
        for name in precisions
    }
    try:
        peer = Peer(task)
        seconds = [(peer.predict(), *(ours[name][-1][1]() for name in precisions)) for _ in range(rounds)]
    except Unavailable as reason:
        return {"unavailable": str(reason)}
    peer.close()
    peer_training = peer.figures["trained"] / sum(peer.figures["training_seconds"])
    figures: Figures = {"libmultilabel": {**peer.figures, "documents_per_second": peer_training}}
    for number, name in enumerate(precisions, start=1):
        training = statistics.median(rate for rate, _ in ours[name])
        compared = {
            "training_ratio": training / peer_training,
            "prediction_ratio": statistics.median(taken[0] / taken[number] for taken in seconds),
            "seconds_of_predictions": [(taken[number], taken[0]) for taken in seconds],
            "training_documents_per_second": training,
        }
        figures |= compared if name == "auto" else {name: compared}
    return figures


def measure_variants(inputs: Path, n_threads: int, seed: int) -> Figures:
    """Train and predict with each variant; return documents a second."""
    corpus, texts, settings = prepare_ours(inputs, n_threads, seed)
    figures: Figures = {
        "labels": corpus.n_labels, "groups": settings["level_sizes"][0], "candidates": settings["candidates"],
    }  # fmt: skip
    for name, changes in VARIANTS.items():
        training, predict = train_ours(corpus, texts, {**settings, **changes})
        figures[name] = {"training": training, "prediction": len(texts) / predict()}
    return figures


def prepare_ours(inputs: Path, n_threads: int, seed: int) -> tuple[PreparedCorpus, list[str], dict[str, Any]]:
    """Return the corpus, the texts to predict, and the settings that make our network like the peer's."""
    corpus = prepare(inputs / "train.jsonl", inputs / "corpus")
    settings = {**OWN_SETTINGS, **candidate_settings(corpus.n_labels)}
    settings |= {"vectors": str(inputs / "vectors.txt.gz"), "n_jobs": n_threads, "random_state": seed}
    return corpus, texts_of(inputs / "judged.jsonl"), settings


def candidate_settings(n_labels: int) -> dict[str, Any]:
    """Return as many groups as the peer makes, and every document as many candidates as it takes.

    It takes as many as its beam holds in groups of the largest size; below twice as many groups there are enough.
    """
    n_groups = 2 ** max(math.ceil(math.log2(n_labels / GROUP_SIZE)), 1)
    n_parents = min(2 * BEAM, n_groups)
    candidates = min(BEAM, n_groups) * -(-n_labels // n_groups)
    return {
        "level_sizes": (n_groups,), "beam": n_parents, "hard_negatives": n_parents,
        "candidates": min(candidates, n_labels),
    }  # fmt: skip


def train_ours(
    corpus: PreparedCorpus, texts: list[str], settings: Mapping[str, Any]
) -> tuple[float, Callable[[], float]]:
    """Train; return documents a second, and what predicts all texts and gives the seconds this takes."""
    from haxmlnet import HAXMLNet

    HAXMLNet(**{**settings, "max_steps": WARM_UP_STEPS}).fit_prepared(corpus)
    clock = StageClock()
    model = HAXMLNet(**settings).fit_prepared(corpus, progress=clock)
    seconds = sum(taken for stage, taken in clock.seconds.items() if clock.units[stage] == "batches")
    model.beam = BEAM
    model.predict(texts[:BATCH], k=N_BEST)

    def predict() -> float:
        """Leave out the time of tokenization, as it is left out of the peer's."""
        started = time.perf_counter()
        model.tokenizer_.encode(texts)
        encoded = time.perf_counter()
        model.predict(texts, k=N_BEST)
        return time.perf_counter() - encoded - (encoded - started)

    return len(corpus) / seconds, predict
