"""Floating-point operations that a network needs for what it is given: only products, and nothing for padding.

For a document of T words, W numbers a word, h states a direction and S numbers that are attended to:

    encoder    16 h (W T + h (T - 1))       both directions of the LSTM; before the first word there is no state
    attention  2 T C (S + V)                scores and weighted sums of C scored nodes, V numbers wide
    layers     2 S M T  or  2 S M C         the first shared layer (M wide): before the sums, V = M, or after, V = S
               + 2 C (products of neighbouring widths + last width x (1, or 2 with outputs of the nodes' own))

Attention and layers are those of each level. Of the two places of the first layer, the one that needs less counts,
document by document. The way back needs twice as much as the way forth. Absent candidates, with which the others of
a batch are filled up, count as little as padding; neither do softmax, dropout, activations, loss and optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
class Call:
    """What an encoder or a head was given, without the states: those would keep the memory of a step."""

    module: BiLSTMEncoder | LabelHead
    lengths: Tensor
    candidates: Tensor | None = None

    def operations(self) -> Operations:
        """Count the operations of the way forth."""
        if isinstance(self.module, BiLSTMEncoder):
            lstm = self.module.forward_lstm
            return encoder_operations(self.lengths, lstm.input_size, lstm.hidden_size)
        head = self.module
        n_scored = torch.full_like(self.lengths, head.n_nodes)
        if self.candidates is not None:
            n_scored = distinct_in_rows(self.candidates)
        widths = [layer.out_features for layer in (head.first, *head.middle) if isinstance(layer, nn.Linear)]
        return head_operations(self.lengths, n_scored, head.first.in_features, widths, head.outputs is not None)


def total_operations(calls: Sequence[Call]) -> Operations:
    """Add the operations of some calls up."""
    parts = [call.operations() for call in calls]
    return Operations(
        sum(part.encoder for part in parts), sum(part.attention for part in parts), sum(part.layers for part in parts)
    )


def encoder_operations(lengths: Tensor, word_size: int, hidden_size: int) -> Operations:
    """Count those of a BiLSTM for documents of some lengths (B,)."""
    n_inputs, n_recurrent = int(lengths.sum()), int((lengths - 1).sum())
    return Operations(encoder=16.0 * hidden_size * (word_size * n_inputs + hidden_size * n_recurrent))


def head_operations(
    lengths: Tensor, n_scored: Tensor, state_size: int, widths: Sequence[int], own_outputs: bool
) -> Operations:
    """Count those of a level for documents of some lengths (B,), each with so many scored nodes (B,)."""
    words, nodes, first = lengths.double(), n_scored.double(), widths[0]
    attention_before, layer_before = 2 * words * nodes * (state_size + first), 2 * state_size * first * words
    attention_after, layer_after = 4 * words * nodes * state_size, 2 * state_size * first * nodes
    before = attention_before + layer_before <= attention_after + layer_after
    rest = sum(width * next_width for width, next_width in pairwise(widths)) + widths[-1] * (2 if own_outputs else 1)
    return Operations(
        attention=float(torch.where(before, attention_before, attention_after).sum()),
        layers=float((torch.where(before, layer_before, layer_after) + 2 * nodes * rest).sum()),
    )


def distinct_in_rows(candidates: Tensor) -> Tensor:
    """Count the different nodes of each row (B, C), of which -1 is none."""
    ordered = candidates.sort(dim=1).values
    return (ordered.diff(dim=1) != 0).sum(dim=1) + (ordered[:, 0] >= 0)


@contextmanager
def recorded_calls() -> Iterator[list[Call]]:
    """Note what every encoder and head is given inside the block."""
    calls: list[Call] = []
    handle = register_module_forward_pre_hook(_noting(calls))
    try:
        yield calls
    finally:
        handle.remove()


def _noting(calls: list[Call]) -> Callable[[nn.Module, Any], None]:
    def note(module: nn.Module, inputs: Any) -> None:
        if isinstance(module, BiLSTMEncoder):
            calls.append(Call(module, inputs[1]))
        elif isinstance(module, LabelHead):
            calls.append(Call(module, inputs[1], inputs[2]))

    return note
