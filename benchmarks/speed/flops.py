"""Floating-point operations that a network needs for what it is given: matmuls alone, and nothing for padding.

For a document of T tokens, word vectors of size W, h states a direction, S numbers that are attended to, C candidates:

    encoder    16 h (W T + h (T - 1))       both directions of the LSTM; before the first token there is no state
    attention  2 T C (S + V)                scores and weighted sums of C nodes, V wide
    layers     2 S M T  or  2 S M C         the first shared layer (M wide): before the sums, V = M, or after, V = S
               + 2 C (products of adjacent widths + last width x (1, or 2 with outputs of the nodes' own))

Attention and layers are those of each level. Of the two places of the first layer, the cheaper one counts, document by
document. Backward needs twice as much as forward. Candidates that only pad a batch count as little as other padding;
neither do softmax, dropout, activations, loss and optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead

FORWARD_AND_BACKWARD = 3
FORMULA = (
    "3 x (16 h (W T + h (T - 1)) + for each level: 2 T C (S + V) + first layer 2 S M T (V = M) or 2 S M C (V = S), "
    "whichever needs less + 2 C x layers after it), real words and candidates only"
)


@dataclass(frozen=True)
class Operations:
    """Operations of the parts of a network."""

    encoder: float = 0.0
    attention: float = 0.0
    layers: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return self.encoder + self.attention + self.layers


@dataclass(frozen=True)
class EncoderCall:
    """Documents of some lengths (B,) that an encoder was given."""

    lengths: Tensor
    word_size: int
    hidden_size: int

    def count(self) -> Operations:
        """Count the operations of forward."""
        words, states = self.word_size * int(self.lengths.sum()), self.hidden_size * int((self.lengths - 1).sum())
        return Operations(encoder=16.0 * self.hidden_size * (words + states))


@dataclass(frozen=True)
class HeadCall:
    """Documents of some lengths (B,) whose candidates (B, C) a level has scored; None: all of its nodes.

    The states are not kept: they would hold the memory of a step.
    """

    lengths: Tensor
    candidates: Tensor | None
    n_nodes: int
    state_size: int
    widths: Sequence[int]
    """Of the shared layers."""
    own_outputs: bool

    def n_scored(self) -> Tensor:
        """Count the different nodes of each document (B,), of which -1 is none."""
        if self.candidates is None:
            return torch.full_like(self.lengths, self.n_nodes)
        ordered = self.candidates.sort(dim=1).values
        return (ordered.diff(dim=1) != 0).sum(dim=1) + (ordered[:, 0] >= 0)

    def count(self) -> Operations:
        """Count the operations of forward."""
        tokens, nodes = self.lengths.double(), self.n_scored().double()
        size, first = self.state_size, self.widths[0]
        attention_before, layer_before = 2 * tokens * nodes * (size + first), 2 * size * first * tokens
        attention_after, layer_after = 4 * tokens * nodes * size, 2 * size * first * nodes
        before = attention_before + layer_before <= attention_after + layer_after
        rest = sum(width * next_width for width, next_width in pairwise(self.widths))
        rest += self.widths[-1] * (2 if self.own_outputs else 1)
        return Operations(
            attention=float(torch.where(before, attention_before, attention_after).sum()),
            layers=float((torch.where(before, layer_before, layer_after) + 2 * nodes * rest).sum()),
        )


Call = EncoderCall | HeadCall


def count_operations(calls: Sequence[Call]) -> Operations:
    """Add up the operations of some calls."""
    counts = [call.count() for call in calls]
    return Operations(*(sum(getattr(count, part) for count in counts) for part in ("encoder", "attention", "layers")))


@contextmanager
def record_calls() -> Iterator[list[Call]]:
    """Note what every encoder and head is given inside the block."""
    calls: list[Call] = []

    def note(module: nn.Module, inputs: Any) -> None:
        if isinstance(module, BiLSTMEncoder):
            lstm = module.forward_lstm
            calls.append(EncoderCall(inputs[1], lstm.input_size, lstm.hidden_size))
        elif isinstance(module, LabelHead):
            widths = [layer.out_features for layer in (module.first, *module.middle) if isinstance(layer, nn.Linear)]
            calls.append(
                HeadCall(
                    inputs[1], inputs[2], module.n_nodes, module.first.in_features, widths, module.outputs is not None
                )
            )

    handle = register_module_forward_pre_hook(note)
    try:
        yield calls
    finally:
        handle.remove()
