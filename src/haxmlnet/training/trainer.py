"""The trainer of a network: batches, validation, averaging, checkpoints."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from haxmlnet.config import TrainingConfig
from haxmlnet.data.tokens import similar_length_batches
from haxmlnet.errors import HaxmlnetError, TrainingInterrupted
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.progress import Progress
from haxmlnet.training.checkpoints import Checkpoints
from haxmlnet.training.hardware import Map, give_memory_back, kept_memory, uses_cpu_room, workers
from haxmlnet.training.loss import TrainingData, batch_loss
from haxmlnet.training.optimizer import Optimizer, scale_learning_rate

# Documents in one part of a batch: with fewer, matrices get too small to be multiplied fast.
MIN_PART = 16


@dataclass
class Trainer:
    """Trains a network in place and leaves the best validated weights in it."""

    network: LabelAttentionNetwork
    data: TrainingData
    config: TrainingConfig
    seed: tuple[int, ...]
    validate: Callable[[], float] | None
    """Gives nDCG@5 of the network as it is; None where there is no validation document."""
    name: str
    progress: Progress = field(default_factory=Progress)
    checkpoints: Checkpoints | None = None

    def __post_init__(self) -> None:
        self.map: Map = map
        self.step = 0
        self.best_score = -1.0
        self.n_worse = 0
        self.n_averaged = 0
        self.best_step = 0
        """After which step the best weights were there; 0: none are stored."""
        self.best: dict[str, Tensor] = {}
        self.average: dict[str, Tensor] = {}
        self.optimizer = Optimizer(
            self.network, find_sparse_tables(self.network), self.config.learning_rate, self.config.row_moments
        )
        self.batches_per_epoch = -(-len(self.data.tokens) // self.config.batch_size)
        all_steps = self.config.epochs * self.batches_per_epoch
        self.n_steps = min(all_steps, self.config.max_steps or all_steps)

    def run(self) -> float:
        """Train from the latest checkpoint, or from the start, to the end; return the best nDCG@5."""
        state = self.checkpoints.state(self.name) if self.checkpoints is not None else None
        if state is not None:
            self._load_state(state)
        device, patience = self.network.device, self.config.patience
        with (
            kept_memory(device),
            workers(n_parts(self.config.batch_size, device)) as self.map,
            self.progress.stage(self.name, self.n_steps, "batches") as advance,
            deferred_interrupt() as interrupted,
        ):
            advance(self.step)
            while self.step < self.n_steps and (patience is None or self.n_worse < patience):
                self._run_epoch(advance, interrupted)
        give_memory_back()
        if not self.best_step:
            return self.best_score

        self.optimizer.forget()  # room for the weights that are read
        if self.checkpoints is None:
            self.network.load_state_dict(self.best)
        else:
            own = self.network.state_dict()
            for name, array in self.checkpoints.weights(self.name, self.best_step):
                own[name].copy_(torch.from_numpy(array))
        return self.best_score

    def _run_epoch(self, advance: Callable[..., None], interrupted: Callable[[], bool]) -> None:
        epoch, done = divmod(self.step, self.batches_per_epoch)
        order = np.random.default_rng([*self.seed, 0, epoch])
        batches = similar_length_batches(self.data.tokens.lengths, self.config.batch_size, order)
        self.network.train()
        total = 0.0
        for n, rows in enumerate(batches[done : done + self.n_steps - self.step], 1):
            total += self._train_batch(rows)
            self.step += 1
            if self.step % self.batches_per_epoch == 0 or self.step == self.n_steps:
                self._end_epoch(epoch, total / n)
            note = f"loss {total / n:.4f}"
            advance(1, f"{note}  nDCG@5 {self.best_score:.2f}" if self.best_score >= 0 else note)

            is_stopped = interrupted()
            if self.checkpoints is not None and (is_stopped or self.checkpoints.due()):
                self.checkpoints.save_state(self.name, self._state(), self.best_step)
            if is_stopped:
                raise TrainingInterrupted(f"stopped in {self.name} after {self.step} of {self.n_steps} batches")

    def _train_batch(self, rows: NDArray[np.int64]) -> float:
        n = n_parts(len(rows), self.network.device)

        def differentiate(part: int) -> tuple[float, list[Tensor | None]]:
            # All randomness of a step follows from the seed and its number: a resumed run repeats it exactly.
            seed = int(np.random.default_rng((*self.seed, 1, self.step, part)).integers(2**62))
            loss = batch_loss(self.network, self.data, rows[part::n], seed) / len(rows)
            return float(loss.detach()), list(torch.autograd.grad(loss, self.optimizer.weights, allow_unused=True))

        losses, gradients = zip(*self.map(differentiate, range(n)), strict=True)
        value = sum(losses)
        if not math.isfinite(value):
            raise HaxmlnetError(f"{self.name}: the loss is {value} at batch {self.step}. Lower the learning rate.")
        scale = scale_learning_rate(self.step, self.n_steps, self.config.warmup, self.config.lr_final_ratio)
        self.optimizer.step(gradients, scale, self.config.adaptive_clip, self.map)
        return value

    def _end_epoch(self, epoch: int, loss: float) -> None:
        """Validate, with averaged weights towards the end, and store the best weights."""
        current = None
        if self.step > self.config.averaging_start * self.n_steps:
            # The network holds the average while it is validated; what it held is given back to train on.
            current = copy_tensors(self.network.state_dict())
            self.n_averaged += 1
            if self.n_averaged == 1:
                self.average = copy_tensors(current)
            for name, value in current.items():
                self.average[name] += (value - self.average[name]) / self.n_averaged
            self.network.load_state_dict(self.average)

        line = f"{self.name}: epoch {epoch + 1}/{self.config.epochs}, loss {loss:.4f}"
        is_last = is_best = self.step == self.n_steps
        if self.validate is not None:
            score = self.validate()
            line += f", validation nDCG@5 {score:.2f}"
            is_best = score > self.best_score
            self.n_worse = 0 if is_best else self.n_worse + 1
            self.best_score = max(score, self.best_score)
        self.progress.say(line)

        if is_best and is_last:
            self.best_step, self.best = 0, {}  # weights that stay in the network need no copy
            return
        if is_best:
            self.best_step = self.step
            if self.checkpoints is None:
                self.best = copy_tensors(self.network.state_dict())
            else:  # as checkpoints lie on disk anyway: a copy may be gigabytes
                self.checkpoints.keep_weights(self.name, self.step, numpy_arrays(self.network.state_dict()))
        if current is not None:
            self.network.load_state_dict(current)

    def _state(self) -> dict[str, NDArray[Any]]:
        numbers = [self.step, self.best_score, self.n_worse, self.n_averaged, self.best_step]
        parts: Mapping[str, Mapping[str, Tensor]] = {
            "network": self.network.state_dict(), "average": self.average, "optimizer": self.optimizer.tensors(),
        }  # fmt: skip
        tensors = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
        return {"numbers": np.array(numbers, np.float64), **numpy_arrays(tensors)}

    def _load_state(self, state: dict[str, NDArray[Any]]) -> None:
        step, self.best_score, n_worse, n_averaged, best_step = state.pop("numbers").tolist()
        self.step, self.n_worse, self.n_averaged = int(step), int(n_worse), int(n_averaged)
        self.best_step = int(best_step)
        parts: dict[str, dict[str, Tensor]] = {"network": {}, "average": {}, "optimizer": {}}
        for name, value in state.items():
            part, _, key = name.partition("/")
            parts[part][key] = torch.from_numpy(value)
        self.network.load_state_dict(parts["network"])
        self.average = {name: value.to(self.network.device) for name, value in parts["average"].items()}
        self.optimizer.load_tensors(parts["optimizer"])


def n_parts(n_documents: int, device: torch.device) -> int:
    """Return into how many parts a batch is split: one for each thread of the CPU, none too small."""
    return max(min(torch.get_num_threads(), n_documents // MIN_PART), 1) if uses_cpu_room(device) else 1


def find_sparse_tables(network: nn.Module) -> list[Tensor]:
    """Find the tables whose gradients are sparse."""
    return [m.weight for m in network.modules() if isinstance(m, nn.Embedding) and m.sparse]


def numpy_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Return tensors as arrays, which share their memory where they are on the CPU."""
    return {name: value.detach().cpu().numpy() for name, value in tensors.items()}


def copy_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy named tensors, so that further training does not change them."""
    return {name: value.detach().clone() for name, value in tensors.items()}


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a flag, so that a step is never cut in half; a second one stops at once."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def on_interrupt(number: int, frame: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
