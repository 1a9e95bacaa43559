"""Dropout that draws eight masks from one random number: on a processor, drawing is what dropout costs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn


class ByteDropout(nn.Module):
    """Zero each number with probability p, to the nearest 1/256, and scale the others up in training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.threshold = round(p * 256)

    def forward(self, x: Tensor, generator: Generator | None = None) -> Tensor:
        """Drop in training; otherwise do nothing. The generator decides on a processor, torch's own elsewhere."""
        if not self.training or self.threshold == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.threshold / 256)
        n_words = -(-x.numel() // 8)
        words = torch.empty(n_words, dtype=torch.int64).random_(-(2**63), None, generator=generator)
        kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.threshold
        return x * kept * (256 / (256 - self.threshold))
