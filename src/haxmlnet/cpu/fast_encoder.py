"""The encoder on a CPU: fewer copies in training, `lstm_inference` in eval mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from haxmlnet.cpu.byte_dropout import byte_dropout, dropout_factors
from haxmlnet.cpu.lstm_inference import encode_documents
from haxmlnet.network.encoder import BiLSTMEncoder, reverse_order


class FastEncoder(BiLSTMEncoder):
    """A `BiLSTMEncoder` whose states, and what is multiplied, are float32 or bfloat16.

    In eval mode no gradients pass through, and documents of fewer than a batch are encoded in two threads.
    """

    dtype: torch.dtype

    def forward(self, tokens: Tensor, lengths: Tensor, generator: Generator | None = None) -> Tensor:
        """Encode tokens (B, T), padded on the right, of documents of the given lengths (B,)."""
        if not self.training:
            return encode_documents(self, tokens, lengths, self.dtype)
        words = byte_dropout(self.words(tokens.T), self.word_dropout, generator).to(self.dtype)  # (T, B, W)
        positions, documents = reverse_order(lengths, len(words)), torch.arange(len(lengths))
        rows = (positions * len(lengths) + documents).flatten()  # of (T x B)
        forward = _run_lstm(self.forward_lstm, words)
        backward = _run_lstm(self.backward_lstm, _Reverse.apply(words, rows))  # type: ignore[no-untyped-call]
        shape = (*words.shape[:2], 2 * forward.shape[-1])
        factors = dropout_factors(shape, self.state_dropout, generator, words.dtype)
        states: Tensor = _JoinStates.apply(forward, backward, words if self.attend_words else None, rows, factors)  # type: ignore[no-untyped-call]
        return states


def _run_lstm(lstm: nn.LSTM, words: Tensor) -> Tensor:
    # The weights have float32. What autocast caches of them would be cached for all threads.
    with torch.autocast("cpu", torch.bfloat16, enabled=words.dtype == torch.bfloat16, cache_enabled=False):
        states: Tensor = lstm(words)[0]
    return states


def _take_rows(x: Tensor, rows: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1]).index_select(0, rows).view(x.shape)


class _Reverse(Function):
    # Reversing twice changes nothing, so backward is forward: no rows have to be added up.

    @staticmethod
    def forward(ctx: Any, words: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return _take_rows(words, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _take_rows(gradient, *ctx.saved_tensors), None


class _JoinStates(Function):
    """Both directions (T, B, h), dropped out, and the words themselves (T, B, W): (B, T, 2 h + W) in one array.

    Multiplication and concatenation would take twice as many copies, forward and backward.
    """

    @staticmethod
    def forward(
        ctx: Any, forward: Tensor, backward: Tensor, words: Tensor | None, rows: Tensor, factors: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(rows, *(() if factors is None else (factors,)))
        parts = [forward, _take_rows(backward, rows), *(() if words is None else (words,))]
        n_words, n_documents, ctx.hidden_size = forward.shape
        states = forward.new_empty((n_documents, n_words, sum(part.shape[-1] for part in parts)))
        columns = torch.split(states.transpose(0, 1), [part.shape[-1] for part in parts], dim=-1)
        dropped = [None, None] if factors is None else torch.split(factors, ctx.hidden_size, dim=-1)
        for target, part, own in zip(columns, parts, [*dropped, None], strict=False):
            _put(target, part, own)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, *factors = ctx.saved_tensors
        h = ctx.hidden_size
        columns = gradient.transpose(0, 1)  # (T, B, 2 h + W)
        directions = []
        for start in (0, h):
            own = columns[..., start : start + h]
            target = torch.empty(own.shape, dtype=own.dtype)
            directions.append(_put(target, own, factors[0][..., start : start + h] if factors else None))
        words = columns[..., 2 * h :].contiguous() if ctx.needs_input_grad[2] else None
        return directions[0], _take_rows(directions[1], rows), words, None, None


def _put(target: Tensor, part: Tensor, factors: Tensor | None) -> Tensor:
    return target.copy_(part) if factors is None else torch.mul(part, factors, out=target)
