"""Lazy Adam of large tables on a CPU: columns side by side, and moments in bfloat16 where memory counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from haxmlnet.cpu import adam_kernels as kernels
from haxmlnet.cpu.bfloat16 import array_of

DECAYS = 0.9, 0.999
EPSILON = 1e-8
# Columns of a table that are worked on at once: threads share a table by its columns.
COLUMNS = 128
# Numbers of a table from which on its moments have bfloat16: a quarter of a gigabyte of weights.
LARGE_TABLE = 2**26


def has_bfloat16_moments(n_numbers: int) -> bool:
    """Return whether Adam's moments of a table have bfloat16."""
    return n_numbers >= LARGE_TABLE


class FastRowSums:
    """The gradients of a batch for the rows of a table, added up column by column."""

    def __init__(self, table: Tensor) -> None:
        self.n_columns = table.shape[1]
        self._slots = np.full(len(table), -1, np.int32)
        self.clear()

    def clear(self) -> None:
        """Let go of the gradients."""
        self.rows, self.sums = torch.empty(0, dtype=torch.int64), torch.empty(0)

    def jobs(self, parts: Sequence[Tensor]) -> list[Callable[[], float]]:
        """Return the work of adding sparse gradients up, in jobs that each give a norm."""
        ids = [part._indices()[0].numpy() for part in parts]
        values = [part._values().contiguous().numpy() for part in parts]
        n_ids = sum(map(len, ids))
        rows, places, is_first = np.empty(n_ids, np.int64), np.empty(n_ids, np.int32), np.empty(n_ids, np.bool_)
        n_rows = kernels.number_rows(np.concatenate(ids), self._slots, rows, places, is_first)
        self.rows, self.sums = torch.from_numpy(rows[:n_rows]), torch.empty(n_rows, self.n_columns)
        bounds = np.cumsum([len(part) for part in ids])[:-1]
        split = list(zip(values, np.split(places, bounds), np.split(is_first, bounds), strict=True))

        def add_up(first: int, last: int) -> float:
            sums = self.sums.numpy()
            for part in split:
                kernels.add_rows(*part, sums, first, last)
            return math.sqrt(kernels.squared_length(sums, first, last))

        return [partial(add_up, *block) for block in self.column_blocks()]

    def column_blocks(self) -> list[tuple[int, int]]:
        """Divide the columns among jobs, always in the same way."""
        return [(first, min(first + COLUMNS, self.n_columns)) for first in range(0, self.n_columns, COLUMNS)]


class FastTableAdam:
    """`TableAdam` by compiled loops; moments of a large table are bfloat16, half the memory beside the weights."""

    def __init__(self, table: Tensor) -> None:
        self.table, self.n_steps, self.sums = table, 0, FastRowSums(table)
        dtype = torch.bfloat16 if has_bfloat16_moments(table.numel()) else torch.float32
        self.means, self.squares = (lazy_zeros(table.shape, dtype=dtype) for _ in range(2))

    def step_jobs(self, rate: float, shrink: float) -> list[Callable[[], None]]:
        """Return the work of a step along the gradients times `shrink`, in jobs."""
        self.n_steps += 1
        return [partial(self._step, rate, shrink, *block) for block in self.sums.column_blocks()]

    def _step(self, rate: float, shrink: float, first: int, last: int) -> None:
        decay, square_decay = DECAYS
        size = rate * math.sqrt(1 - square_decay**self.n_steps) / (1 - decay**self.n_steps)
        numbers = [np.float32(number) for number in (decay, square_decay, size, EPSILON)]
        gradients = (self.sums.rows.numpy(), self.sums.sums.numpy(), np.float32(shrink))
        arrays = (self.table.detach().numpy(), array_of(self.means), array_of(self.squares))
        if self.means.dtype == torch.float32:
            kernels.update_rows(*gradients, *arrays, first, last, *numbers)
        else:
            arguments = (*gradients, *arrays, first, last, *numbers, self.n_steps)
            kernels.update_rows_in_bfloat16(*arguments)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint needs, as `TableAdam` does; of bfloat16 moments, their bits."""
        moments = [m.view(torch.int16) if m.dtype == torch.bfloat16 else m for m in (self.means, self.squares)]
        return {"step": self.n_steps, "exp_avg": moments[0], "exp_avg_sq": moments[1]} if self.n_steps else {}

    def load(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned, here or on another device."""
        self.n_steps = int(state["step"])
        for moments, saved in ((self.means, state["exp_avg"]), (self.squares, state["exp_avg_sq"])):
            moments.copy_(saved.view(torch.bfloat16) if saved.dtype == torch.int16 else saved)


def lazy_zeros(shape: Sequence[int], *, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """Return zeros of which those that are never touched take no memory."""
    n_bytes = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
    return torch.from_numpy(np.zeros(n_bytes, np.uint8)).view(dtype).view(*shape)
