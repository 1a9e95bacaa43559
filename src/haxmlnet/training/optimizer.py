"""Adam with lazy updates of the word and label tables, its step size, and adaptive gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from haxmlnet.network.workers import Map


class RowAdam:
    """Adam for a table of which a batch touches few rows, in a quarter of the memory beside the weights.

    There is one second moment a row, the mean of those of its numbers, and first moments have 16 bits.
    """

    def __init__(self, table: Tensor, learning_rate: float, decays: tuple[float, float] = (0.9, 0.999)) -> None:
        self.table, self.decays = table, decays
        self.param_groups: list[dict[str, Any]] = [{"params": [table], "lr": learning_rate}]
        self.n_steps = 0
        self.means = torch.zeros_like(table, dtype=torch.bfloat16, requires_grad=False)
        self.squares = torch.zeros(len(table), dtype=torch.float32, device=table.device)

    @torch.no_grad()
    def step(self) -> None:
        """Update the rows that have a gradient."""
        if self.table.grad is None:
            return
        rows, values = self.table.grad._indices()[0], self.table.grad._values()
        first, second = self.decays
        self.n_steps += 1
        means = self.means[rows].float().mul_(first).add_(values, alpha=1 - first)
        squares = self.squares[rows].mul_(second).add_(values.square().mean(dim=1), alpha=1 - second)
        self.means[rows], self.squares[rows] = means.to(torch.bfloat16), squares
        sizes = (squares / (1 - second**self.n_steps)).sqrt_().add_(1e-8)
        rate = self.param_groups[0]["lr"] / (1 - first**self.n_steps)
        self.table.index_add_(0, rows, means.div_(sizes[:, None]), alpha=-rate)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradient."""
        self.table.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Give the state in the form of torch's optimizers, with numbers that every format of files knows."""
        bits = self.means.view(torch.int16)
        return {"state": {0: {"step": self.n_steps, "means": bits, "squares": self.squares}}}

    def load_state_dict(self, whole: dict[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        state = whole["state"][0]
        self.n_steps = int(state["step"])
        self.means.copy_(state["means"].view(torch.bfloat16))
        self.squares.copy_(state["squares"])


class Optimizer:
    """Adam for the dense weights, and for each table of which a batch touches few rows SparseAdam or RowAdam."""

    def __init__(
        self, network: nn.Module, sparse: Iterable[Tensor], learning_rate: float, row_moments: bool = False
    ) -> None:
        lazy = {id(weight): weight for weight in sparse if weight.requires_grad}
        dense = [weight for weight in network.parameters() if weight.requires_grad and id(weight) not in lazy]
        self.learning_rate = learning_rate
        self.weights = [*dense, *lazy.values()]
        self.parts: list[torch.optim.Optimizer | RowAdam] = [torch.optim.Adam(dense, lr=learning_rate)]
        for table in lazy.values():
            part = RowAdam(table, learning_rate) if row_moments else torch.optim.SparseAdam([table], lr=learning_rate)
            self.parts.append(part)
        self.mean_norm = 0.0

    def step(self, gradients: Sequence[Sequence[Tensor | None]], scale: float, clip: float, run: Map = map) -> None:
        """Update the weights with a fraction of the learning rate.

        Gradients come in parts, each with one entry for each of `weights`; they are added up. What can be done side
        by side is given to `run`.
        """
        norms = list(run(_set_gradient, zip(self.weights, zip(*gradients, strict=True), strict=True)))
        shrink = self._shrink(math.hypot(*norms), clip) if clip > 0 else 1.0

        def update(part: torch.optim.Optimizer | RowAdam) -> None:
            for group in part.param_groups:
                group["lr"] = self.learning_rate * scale
                _shorten(group["params"], shrink)
            part.step()
            part.zero_grad(set_to_none=True)

        list(run(update, self.parts))

    def _shrink(self, norm: float, factor: float) -> float:
        """Say by how much gradients of this length are shortened, and learn how long they usually are."""
        limit = factor * self.mean_norm
        shrink = limit / norm if self.mean_norm > 0 and norm > limit else 1.0
        norm *= shrink
        self.mean_norm = norm if self.mean_norm == 0 else 0.95 * self.mean_norm + 0.05 * norm
        return shrink

    def tensors(self) -> dict[str, Tensor]:
        """Give the whole state as named tensors, for a checkpoint."""
        state = {"mean_norm": torch.tensor(self.mean_norm, dtype=torch.float64)}
        for p, part in enumerate(self.parts):
            for i, values in part.state_dict()["state"].items():
                for name, value in values.items():
                    state[f"{p}.{i}.{name}"] = torch.as_tensor(value)
        return state

    def load_tensors(self, state: dict[str, Tensor]) -> None:
        """Take back what `tensors` gave."""
        self.mean_norm = float(state["mean_norm"])
        for p, part in enumerate(self.parts):
            whole = part.state_dict()
            for key, value in state.items():
                owner, _, rest = key.partition(".")
                if owner == str(p):
                    index, name = rest.split(".")
                    whole["state"].setdefault(int(index), {})[name] = _as_saved(part, value)
            part.load_state_dict(whole)


def _set_gradient(of: tuple[Tensor, Sequence[Tensor | None]]) -> float:
    """Add the parts of a weight's gradient up, and give its length."""
    weight, parts = of
    weight.grad = None
    for part in parts:
        if part is not None:
            weight.grad = part if weight.grad is None else weight.grad + part
    if weight.grad is None:
        return 0.0
    if weight.grad.is_sparse:
        weight.grad = weight.grad.coalesce()
    return float(_numbers(weight.grad).norm())


def _shorten(weights: Iterable[Tensor], factor: float) -> None:
    for weight in weights:
        if factor != 1 and weight.grad is not None:
            _numbers(weight.grad).mul_(factor)


def _numbers(gradient: Tensor) -> Tensor:
    return gradient._values() if gradient.is_sparse else gradient


def _as_saved(part: torch.optim.Optimizer | RowAdam, value: Tensor) -> Tensor | int:
    # Adam counts its steps in a tensor, the others in a plain number.
    return value if isinstance(part, torch.optim.Adam) or value.dim() > 0 else int(value)


def step_scale(step: int, n_steps: int, warmup: float, final: float) -> float:
    """Give the fraction of the learning rate at a step: a linear rise, then a linear fall."""
    n_warmup = int(warmup * n_steps)
    if step < n_warmup:
        return (step + 1) / (n_warmup + 1)
    progress = (step - n_warmup) / max(n_steps - n_warmup, 1)
    return 1 - (1 - final) * progress
