"""Dropout that draws eight masks from one random number: on a processor, drawing is what dropout costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn


class ByteDropout(nn.Module):
    """Zero each number with probability p, to the nearest 1/256, and scale the others up in training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.threshold = round(p * 256)

    def forward(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Drop in training; otherwise do nothing."""
        factors = self.factors(x.shape, x.device, generator)
        return x if factors is None else x * factors

    def factors(
        self,
        shape: Sequence[int],
        device: torch.device,
        generator: Generator | None = None,
        kind: torch.dtype = torch.float32,
    ) -> Tensor | None:
        """Draw what numbers of a shape are multiplied with in training; none: they stay as they are.

        The generator decides on a processor, torch's own elsewhere.
        """
        if not self.training or self.threshold == 0:
            return None
        if device.type != "cpu":
            return F.dropout(torch.ones(shape, dtype=kind, device=device), self.threshold / 256)
        n_numbers = math.prod(shape)
        words = torch.empty(-(-n_numbers // 8), dtype=torch.int64).random_(-(2**63), None, generator=generator)
        kept = words.view(torch.uint8)[:n_numbers].view(shape) >= self.threshold
        return kept.to(kind).mul_(256 / (256 - self.threshold))
