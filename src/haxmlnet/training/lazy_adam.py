"""Adam for tables of which a batch touches few rows: their gradients are added up, and only these rows change.

`TableAdam` is torch's SparseAdam; `RowAdam` needs a quarter of its memory. Work is given in jobs, so that a form for a
processor can do some of it side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

DECAYS = 0.9, 0.999
EPSILON = 1e-8
MIN_SQUARE = 1e-30  # of a row without gradient


class Sums(Protocol):
    """The gradients of a batch for the rows of a table, added up."""

    rows: Tensor  # (R,)
    sums: Tensor  # (R, columns)

    def jobs(self, parts: Sequence[Tensor]) -> list[Callable[[], float]]:
        """Return the work of adding sparse gradients up, in jobs that each give a norm."""

    def clear(self) -> None:
        """Let go of the gradients."""


class LazyAdam(Protocol):
    """Adam for the rows of a table that have a gradient; the other rows stay as they are."""

    @property
    def sums(self) -> Sums:
        """The gradients of a batch."""

    def step_jobs(self, rate: float, shrink: float) -> list[Callable[[], None]]:
        """Return the work of a step along the gradients times `shrink`, in jobs."""

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""


class RowSums:
    """`Sums` in one job, on any device."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Let go of the gradients."""
        self.rows, self.sums = torch.empty(0, dtype=torch.int64), torch.empty(0)

    def jobs(self, parts: Sequence[Tensor]) -> list[Callable[[], float]]:
        """Return the work of adding sparse gradients up."""

        def add_up() -> float:
            total: Tensor = sum(parts[1:], start=parts[0]).coalesce()
            self.rows, self.sums = total.indices()[0], total.values()
            return float(self.sums.norm())

        return [add_up]


class TableAdam:
    """Adam with a first and a second moment for each number of the table."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.n_steps, self.sums = table, 0, RowSums()
        self.means, self.squares = torch.zeros_like(table), torch.zeros_like(table)

    def step_jobs(self, rate: float, shrink: float) -> list[Callable[[], None]]:
        """Return the work of a step along the gradients times `shrink`."""
        self.n_steps += 1
        return [partial(self._step, rate, shrink)]

    @torch.no_grad()
    def _step(self, rate: float, shrink: float) -> None:
        rows, values, (decay, square_decay) = self.sums.rows, self.sums.sums * shrink, DECAYS
        means = self.means[rows].mul_(decay).add_(values, alpha=1 - decay)
        squares = self.squares[rows].mul_(square_decay).addcmul_(values, values, value=1 - square_decay)
        self.means[rows], self.squares[rows] = means, squares
        size = rate * math.sqrt(1 - square_decay**self.n_steps) / (1 - decay**self.n_steps)
        self.table.index_add_(0, rows, means.div_(squares.sqrt_().add_(EPSILON)), alpha=-size)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint needs, by the names that torch's optimizers use."""
        return {"step": self.n_steps, "exp_avg": self.means, "exp_avg_sq": self.squares} if self.n_steps else {}

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned, here or on another device."""
        self.n_steps = int(state["step"])
        self.means.copy_(from_bits(state["exp_avg"]))
        self.squares.copy_(from_bits(state["exp_avg_sq"]))


class RowAdam:
    """Adam in a quarter of the memory beside the weights: rows share second moments, and so do columns.

    The second moment of a number is the product of one of its row and one of its column; first moments are bfloat16.
    """

    def __init__(self, table: Tensor, sums: Sums, zeros: Callable[..., Tensor] = torch.zeros) -> None:
        self.table, self.n_steps, self.sums = table, 0, sums
        (n_rows, n_columns), device = table.shape, table.device
        self.means = zeros((n_rows, n_columns), dtype=torch.bfloat16, device=device)
        self.squares = zeros((n_rows,), dtype=torch.float32, device=device)
        self.shares = zeros((n_columns,), dtype=torch.float32, device=device)
        """How much larger the squares of a column are than those of its row on average."""

    def step_jobs(self, rate: float, shrink: float) -> list[Callable[[], None]]:
        """Return the work of a step along the gradients times `shrink`: one job, as all rows share the columns."""
        self.n_steps += 1
        return [partial(self._step, rate, shrink)]

    @torch.no_grad()
    def _step(self, rate: float, shrink: float) -> None:
        rows, values, (decay, square_decay) = self.sums.rows, self.sums.sums.mul_(shrink), DECAYS
        means = self.means[rows].float().mul_(decay).add_(values, alpha=1 - decay)
        squares = values.square_()
        of_rows = squares.mean(dim=1)
        of_columns = squares.div_(of_rows.clamp_min(MIN_SQUARE)[:, None]).mean(dim=0)
        self.shares.mul_(square_decay).add_(of_columns, alpha=1 - square_decay)
        of_rows = self.squares[rows].mul_(square_decay).add_(of_rows, alpha=1 - square_decay)
        self.means[rows], self.squares[rows] = means.to(torch.bfloat16), of_rows
        corrected = (1 - square_decay**self.n_steps) ** 0.5
        steps = means.div_((of_rows.sqrt_() / corrected).add_(EPSILON)[:, None])
        steps.div_((self.shares.sqrt() / corrected).add_(EPSILON))
        self.table.index_add_(0, rows, steps, alpha=-rate / (1 - decay**self.n_steps))

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint needs, in dtypes that every format of files knows."""
        if not self.n_steps:
            return {}
        means = self.means.view(torch.int16)
        return {"step": self.n_steps, "means": means, "squares": self.squares, "shares": self.shares}

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.n_steps = int(state["step"])
        self.means.copy_(from_bits(state["means"]))
        self.squares.copy_(state["squares"])
        self.shares.copy_(state["shares"])


def from_bits(moments: Tensor) -> Tensor:
    """Return moments that were saved as the bits of bfloat16."""
    return moments.view(torch.bfloat16) if moments.dtype == torch.int16 else moments
