"""An epoch of libmultilabel's AttentionXML, in its own environment.

    python -m benchmarks.speed.libmultilabel_epoch TASK.json

Trains both levels for the epochs of the task and prints the seconds of the training batches of each level, without
validation and checkpoints. Then it predicts the judged documents each time it reads a line, and prints the seconds
without those of turning texts into word ids. What it prints for others is JSON, in lines of their own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from libmultilabel.nn import attentionxml  # type: ignore[import-not-found]
from libmultilabel.nn.data_utils import tokenize  # type: ignore[import-not-found]
from lightning.pytorch.callbacks import Callback  # type: ignore[import-not-found]

from benchmarks.peers.exchange import WARM_UP, Task
from benchmarks.peers.libmultilabel_attentionxml import (
    Loaded,
    fit,
    load,
    predict,
    read_queries,
    read_training,
    save,
)


class EpochClock(Callback):  # type: ignore[misc]
    """Times each epoch from its start to the end of its last batch; validation comes after that."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.started = self.ended = 0.0

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Start the clock."""
        self.started = time.perf_counter()

    def on_train_batch_end(self, *arguments: Any) -> None:
        """Note the end of a batch."""
        self.ended = time.perf_counter()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Keep the time of the epoch."""
        self.seconds.append(self.ended - self.started)


def with_clock(make_trainer: Callable[..., Any], clock: EpochClock) -> Callable[..., Any]:
    """Return what makes the library's trainers one more callback; the library has no way to ask for it."""

    def make(*arguments: Any, **settings: Any) -> Any:
        trainer = make_trainer(*arguments, **settings)
        trainer.callbacks.append(clock)
        return trainer

    return make


def prediction_seconds(loaded: Loaded, texts: list[str]) -> float:
    """Time the prediction of all judged documents, less the time their words take."""
    started = time.perf_counter()
    loaded.trainer.reformat_text([{"text": tokenize(text)} for text in texts])
    encoded = time.perf_counter()
    predict(loaded, texts)
    return time.perf_counter() - encoded - (encoded - started)


def main(path: str) -> None:
    """Train and print, then predict and print as often as asked."""
    task, clock = Task.read(Path(path)), EpochClock()
    attentionxml.init_trainer = with_clock(attentionxml.init_trainer, clock)
    data = read_training(task)
    task.model.mkdir(parents=True, exist_ok=True)
    save(task, fit(task, data))
    loaded, texts = load(task), read_queries(task)
    predict(loaded, texts[:WARM_UP])
    figures = {"training_seconds": clock.seconds, "trained": len(data["train"]), "predicted": len(texts)}
    print(json.dumps(figures), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"prediction_seconds": prediction_seconds(loaded, texts)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
