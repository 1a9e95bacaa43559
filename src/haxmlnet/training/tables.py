"""Adam for tables of which a batch touches few rows: their gradients are added up, and only these rows change."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from haxmlnet.training import table_kernels as kernels

DECAYS = 0.9, 0.999
EPSILON = 1e-8
LEAST_SQUARE = 1e-30  # of a row without gradient
# Columns of a table that are worked on at once: threads share a table by its columns.
COLUMNS = 128
# Numbers of a table from which on its moments have 16 bits: a quarter of a gigabyte of weights.
LARGE_TABLE = 2**26


class RowGradients:
    """The gradients of a batch for the rows of a table, added up."""

    def __init__(self, table: Tensor, parts: Sequence[Tensor], slots: NDArray[np.int32] | None) -> None:
        self.n_columns = table.shape[1]
        if slots is None:
            total: Tensor = sum(parts[1:], start=parts[0]).coalesce()
            self.rows, self.sums = total._indices()[0], total._values()
            self.values: list[NDArray[np.float32]] = []
            return
        ids = [part._indices()[0].numpy() for part in parts]
        self.values = [part._values().contiguous().numpy() for part in parts]
        n_ids = sum(map(len, ids))
        rows, places, is_first = np.empty(n_ids, np.int64), np.empty(n_ids, np.int32), np.empty(n_ids, np.bool_)
        n_rows = kernels.number_rows(np.concatenate(ids), slots, rows, places, is_first)
        bounds = np.cumsum([len(part) for part in ids])[:-1]
        self.places, self.is_first = np.split(places, bounds), np.split(is_first, bounds)
        self.rows, self.sums = torch.from_numpy(rows[:n_rows]), torch.empty(n_rows, self.n_columns)

    def column_blocks(self) -> list[tuple[int, int]]:
        """Divide the columns among jobs, always in the same way."""
        if not self.values:
            return [(0, self.n_columns)]
        return [(first, min(first + COLUMNS, self.n_columns)) for first in range(0, self.n_columns, COLUMNS)]

    def add_up(self, first: int, last: int) -> float:
        """Add the parts up in some columns; give their length."""
        if not self.values:
            return float(self.sums[:, first:last].norm())
        sums = self.sums.numpy()
        for values, places, is_first in zip(self.values, self.places, self.is_first, strict=True):
            kernels.add_rows(values, places, is_first, sums, first, last)
        return math.sqrt(kernels.squared_length(sums, first, last))


class TableAdam:
    """Adam for the rows that have a gradient; the other rows stay as they are.

    On a processor, the moments of a large table have 16 bits, which halves the memory beside the weights.
    """

    columns_are_independent = True

    def __init__(self, table: Tensor) -> None:
        self.table, self.n_steps = table, 0
        self._slots = np.full(len(table), -1, np.int32) if table.device.type == "cpu" else None
        self.gradients: RowGradients | None = None
        self._make_moments()

    def _make_moments(self) -> None:
        kind = torch.bfloat16 if _has_short_moments(self.table) else torch.float32
        self.means, self.squares = (_zeros(self.table.shape, kind, self.table.device) for _ in range(2))

    def jobs_of_gradients(self, parts: Sequence[Tensor | None]) -> list[Callable[[], float]]:
        """Give the work of adding the gradients up, in jobs that each give a length."""
        present = [part for part in parts if part is not None]
        self.gradients = RowGradients(self.table.detach(), present, self._slots) if present else None
        if self.gradients is None:
            return []
        return [partial(self.gradients.add_up, *columns) for columns in self.gradients.column_blocks()]

    def jobs_of_step(self, rate: float, shrink: float) -> list[Callable[[], None]]:
        """Give the work of a step along the gradients times `shrink`, in jobs."""
        if self.gradients is None:
            return []
        self.n_steps += 1
        if self._slots is None or not self.columns_are_independent:
            return [partial(self._step, self.gradients, rate, shrink)]
        return [partial(self._step_in, self.gradients, rate, shrink, *c) for c in self.gradients.column_blocks()]

    def _step_in(self, gradients: RowGradients, rate: float, shrink: float, first: int, last: int) -> None:
        decay, square_decay = DECAYS
        size = rate * math.sqrt(1 - square_decay**self.n_steps) / (1 - decay**self.n_steps)
        numbers = [np.float32(number) for number in (decay, square_decay, size, EPSILON)]
        of_batch = (gradients.rows.numpy(), gradients.sums.numpy(), np.float32(shrink), self.table.detach().numpy())
        if self.means.dtype == torch.float32:
            kernels.update_rows(*of_batch, self.means.numpy(), self.squares.numpy(), first, last, *numbers)
        else:
            moments = [_bits_of(moments).numpy().view(np.uint16) for moments in (self.means, self.squares)]
            arguments = (*of_batch, *moments, first, last, *numbers, self.n_steps)
            kernels.update_rows_with_short_moments(*arguments)

    @torch.no_grad()
    def _step(self, gradients: RowGradients, rate: float, shrink: float) -> None:
        rows, values, (decay, square_decay) = gradients.rows, gradients.sums * shrink, DECAYS
        means = self.means[rows].mul_(decay).add_(values, alpha=1 - decay)
        squares = self.squares[rows].mul_(square_decay).addcmul_(values, values, value=1 - square_decay)
        self.means[rows], self.squares[rows] = means, squares
        size = rate * math.sqrt(1 - square_decay**self.n_steps) / (1 - decay**self.n_steps)
        self.table.index_add_(0, rows, means.div_(squares.sqrt_().add_(EPSILON)), alpha=-size)

    def state(self) -> dict[str, Any]:
        """Give what a checkpoint needs, by the names that torch's optimizers use."""
        if not self.n_steps:
            return {}
        return {"step": self.n_steps, "exp_avg": _bits_of(self.means), "exp_avg_sq": _bits_of(self.squares)}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` gave, here or on another device."""
        self.n_steps = int(state["step"])
        self.means.copy_(_of_bits(state["exp_avg"]))
        self.squares.copy_(_of_bits(state["exp_avg_sq"]))


class RowAdam(TableAdam):
    """The same in a quarter of the memory beside the weights.

    Second moments are products of one a row and one a column, and first moments have 16 bits.
    """

    columns_are_independent = False

    def _make_moments(self) -> None:
        n_rows, n_columns = self.table.shape
        device = self.table.device
        self.means = _zeros((n_rows, n_columns), torch.bfloat16, device)
        self.squares = _zeros((n_rows,), torch.float32, device)
        self.shares = _zeros((n_columns,), torch.float32, device)
        """How much larger the squares of a column are than those of its row on average."""

    @torch.no_grad()
    def _step(self, gradients: RowGradients, rate: float, shrink: float) -> None:
        rows, values, (decay, square_decay) = gradients.rows, gradients.sums.mul_(shrink), DECAYS
        means = self.means[rows].float().mul_(decay).add_(values, alpha=1 - decay)
        squares = values.square_()
        of_rows = squares.mean(dim=1)
        of_columns = squares.div_(of_rows.clamp_min(LEAST_SQUARE)[:, None]).mean(dim=0)
        self.shares.mul_(square_decay).add_(of_columns, alpha=1 - square_decay)
        of_rows = self.squares[rows].mul_(square_decay).add_(of_rows, alpha=1 - square_decay)
        self.means[rows], self.squares[rows] = means.to(torch.bfloat16), of_rows
        corrected = (1 - square_decay**self.n_steps) ** 0.5
        steps = means.div_((of_rows.sqrt_() / corrected).add_(EPSILON)[:, None])
        steps.div_((self.shares.sqrt() / corrected).add_(EPSILON))
        self.table.index_add_(0, rows, steps, alpha=-rate / (1 - decay**self.n_steps))

    def state(self) -> dict[str, Any]:
        """Give what a checkpoint needs, with numbers that every format of files knows."""
        if not self.n_steps:
            return {}
        return {"step": self.n_steps, "means": _bits_of(self.means), "squares": self.squares, "shares": self.shares}

    def load(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.n_steps = int(state["step"])
        self.means.copy_(_of_bits(state["means"]))
        self.squares.copy_(state["squares"])
        self.shares.copy_(state["shares"])


def _has_short_moments(table: Tensor) -> bool:
    """Say whether Adam's moments of a table have 16 bits."""
    return table.device.type == "cpu" and table.numel() >= LARGE_TABLE


def _bits_of(moments: Tensor) -> Tensor:
    """Give moments as numbers that every format of files knows."""
    return moments.view(torch.int16) if moments.dtype == torch.bfloat16 else moments


def _of_bits(numbers: Tensor) -> Tensor:
    return numbers.view(torch.bfloat16) if numbers.dtype == torch.int16 else numbers


def _zeros(shape: Sequence[int], kind: torch.dtype, device: torch.device) -> Tensor:
    """Give zeros; on a processor, those of rows that no batch touches take no memory."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=kind, device=device)
    bytes_each = torch.empty(0, dtype=kind).element_size()
    return torch.from_numpy(np.zeros(math.prod(shape) * bytes_each, np.uint8)).view(kind).view(*shape)
