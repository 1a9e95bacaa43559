"""Adam with lazy updates of the word and label tables, its step size, and adaptive gradient clipping."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from haxmlnet.training.hardware import Map, lazy_adam


class Optimizer:
    """Adam for the dense weights, and lazy Adam for each table of which a batch touches few rows."""

    def __init__(
        self, network: nn.Module, sparse: Iterable[Tensor], learning_rate: float, row_moments: bool = False
    ) -> None:
        lazy = {id(weight): weight for weight in sparse if weight.requires_grad}
        self.dense = [weight for weight in network.parameters() if weight.requires_grad and id(weight) not in lazy]
        self.learning_rate = learning_rate
        self.weights = [*self.dense, *lazy.values()]
        """In the order in which gradients are given."""
        # Threads that differentiate parts of a batch would else make the autograd node of a weight at each step: one
        # that holds the weight's lock and wants the GIL, and one that holds the GIL and wants the lock, wait forever.
        self.nodes = [get_gradient_edge(weight).node for weight in self.weights]
        self.adam = torch.optim.Adam(self.dense, lr=learning_rate)
        self.tables = [lazy_adam(table, row_moments) for table in lazy.values()]
        self.mean_norm = 0.0

    def step(self, gradients: Sequence[Sequence[Tensor | None]], scale: float, clip: float, run: Map = map) -> None:
        """Update the weights with a fraction of the learning rate.

        Gradients come in parts, each with one entry for each of `weights`; they are added up. What can be done side
        by side is given to `run`.
        """
        parts = [[part for part in parts if part is not None] for parts in zip(*gradients, strict=True)]
        of_dense, of_tables = parts[: len(self.dense)], parts[len(self.dense) :]
        touched = [(table, own) for table, own in zip(self.tables, of_tables, strict=True) if own]
        jobs: list[Callable[[], Any]] = [partial(self._set_gradients, of_dense)]
        for table, own in touched:
            jobs += table.sums.jobs(own)
        norms = list(run(operator.call, jobs))

        shrink = self.clip(math.hypot(*norms), clip) if clip > 0 else 1.0
        rate = self.learning_rate * scale
        jobs = [partial(self._step_dense, rate, shrink)]
        for table, _ in touched:
            jobs += table.step_jobs(rate, shrink)
        list(run(operator.call, jobs))
        for table in self.tables:
            table.sums.clear()

    def _set_gradients(self, parts: Sequence[Sequence[Tensor]]) -> float:
        """Add the parts of the dense gradients up, and return their norm."""
        norms = [0.0]
        for weight, own in zip(self.dense, parts, strict=True):
            weight.grad = sum(own[1:], start=own[0]) if own else None
            if weight.grad is not None:
                norms.append(float(weight.grad.norm()))
        return math.hypot(*norms)

    def clip(self, norm: float, factor: float) -> float:
        """Adaptive clipping: give by how much to shorten gradients above `factor` times the running mean of norms."""
        limit = factor * self.mean_norm
        shrink = limit / norm if self.mean_norm > 0 and norm > limit else 1.0
        norm *= shrink
        self.mean_norm = norm if self.mean_norm == 0 else 0.95 * self.mean_norm + 0.05 * norm
        return shrink

    def _step_dense(self, rate: float, shrink: float) -> None:
        for weight in self.dense:
            if shrink != 1 and weight.grad is not None:
                weight.grad = weight.grad * shrink  # not in place: the biases of an LSTM may share their gradient
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def forget(self) -> None:
        """Let go of the moments: no step comes after this."""
        self.adam.state.clear()
        self.tables.clear()

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state as named tensors, for a checkpoint."""
        state = {"mean_norm": torch.tensor(self.mean_norm, dtype=torch.float64)}
        for i, values in self.adam.state_dict()["state"].items():
            state |= {f"0.{i}.{name}": value for name, value in values.items()}
        for p, table in enumerate(self.tables, 1):
            state |= {f"{p}.0.{name}": torch.as_tensor(value) for name, value in table.state().items()}
        return state

    def load_tensors(self, state: dict[str, Tensor]) -> None:
        """Restore what `tensors` returned."""
        self.mean_norm = float(state["mean_norm"])
        parts: dict[int, dict[int, dict[str, Tensor]]] = {}
        for key, value in state.items():
            if key != "mean_norm":
                part, index, name = key.split(".")
                parts.setdefault(int(part), {}).setdefault(int(index), {})[name] = value
        self.adam.load_state_dict({**self.adam.state_dict(), "state": parts.get(0, {})})
        for p, table in enumerate(self.tables, 1):
            if p in parts:
                table.load(parts[p][0])


def scale_learning_rate(step: int, n_steps: int, warmup: float, final: float) -> float:
    """Return the fraction of the learning rate at a step: a linear rise, then a linear fall."""
    n_warmup = int(warmup * n_steps)
    if step < n_warmup:
        return (step + 1) / (n_warmup + 1)
    progress = (step - n_warmup) / max(n_steps - n_warmup, 1)
    return 1 - (1 - final) * progress
