"""Dropout that draws eight masks from one random number: on a CPU, drawing is what dropout costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor


def dropout_factors(
    shape: Sequence[int], p: float, generator: Generator | None, dtype: torch.dtype = torch.float32
) -> Tensor | None:
    """Draw what numbers of a shape are multiplied with; none: p, to the nearest 1/256, is zero."""
    threshold = round(p * 256)
    if threshold == 0:
        return None
    n_numbers = math.prod(shape)
    words = torch.empty(-(-n_numbers // 8), dtype=torch.int64).random_(-(2**63), None, generator=generator)
    kept = words.view(torch.uint8)[:n_numbers].view(shape) >= threshold
    return kept.to(dtype).mul_(256 / (256 - threshold))


def byte_dropout(x: Tensor, p: float, generator: Generator | None) -> Tensor:
    """Zero each number with probability p, to the nearest 1/256, and scale the others up."""
    factors = dropout_factors(x.shape, p, generator)
    return x if factors is None else x * factors
