"""The encoder: word ids to one state per word, by word vectors and a BiLSTM."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from haxmlnet.network.dropout import ByteDropout
from haxmlnet.network.reading import read_documents
from haxmlnet.network.workers import Map


class BiLSTMEncoder(nn.Module):
    """Words to states (B, T, state_size): the BiLSTM's two directions and, if asked, the word vector itself.

    On a processor, `kind` is that of the states and of what is multiplied: numbers of 32 or of 16 bits.
    """

    def __init__(
        self,
        word_vectors: Tensor,
        hidden_size: int,
        word_dropout: float,
        state_dropout: float,
        attend_words: bool,
        sparse_words: bool,
        kind: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        n_words, word_size = word_vectors.shape
        self.attend_words, self.kind = attend_words, kind
        self.state_size = 2 * hidden_size + (word_size if attend_words else 0)
        self.words = nn.Embedding(n_words, word_size, sparse=sparse_words, _weight=word_vectors)
        self.forward_lstm = nn.LSTM(word_size, hidden_size)
        self.backward_lstm = nn.LSTM(word_size, hidden_size)
        self.word_dropout = ByteDropout(word_dropout)
        self.state_dropout = ByteDropout(state_dropout)

    def forward(self, tokens: Tensor, lengths: Tensor, generator: Generator | None = None, run: Map = map) -> Tensor:
        """Encode tokens (B, T), padded on the right, of the given lengths (B,); states beyond them are noise.

        The two directions are given to `run`.
        """
        if not self.training and not torch.is_grad_enabled() and self._on_processor:
            both = (self.forward_lstm, self.backward_lstm)
            return read_documents(tokens, lengths, self.words, both, self.attend_words, self.kind, run)
        # Inside, all documents' first words come first, then their second ones: an LSTM reads them like that.
        words = self.word_dropout(self.words(tokens.T), generator)  # (T, B, W)
        if self._on_processor:
            words = words.to(self.kind)
        # A packed BiLSTM gives the same numbers at a fifth of the speed on a CPU, where oneDNN skips it.
        order = reversed_rows(lengths, tokens.shape[1])  # (T x B)
        directions = (self.forward_lstm, words), (self.backward_lstm, turned(words, order))
        forward, backward = run(_read, directions)
        shape = (*words.shape[:2], 2 * forward.shape[-1])
        factors = self.state_dropout.factors(shape, words.device, generator, words.dtype)
        states: Tensor = _States.apply(forward, backward, words if self.attend_words else None, order, factors)  # type: ignore[no-untyped-call]
        return states

    @property
    def _on_processor(self) -> bool:
        weight = self.words.weight
        return weight.device.type == "cpu" and weight.dtype == torch.float32


def _read(direction: tuple[nn.LSTM, Tensor]) -> Tensor:
    lstm, words = direction
    is_short = words.device.type == "cpu" and words.dtype == torch.bfloat16
    # The weights have 32 bits. What is kept of them would be kept for all threads.
    with torch.autocast("cpu", torch.bfloat16, enabled=is_short, cache_enabled=False):
        states: Tensor = lstm(words)[0]
    return states


def reversed_rows(lengths: Tensor, width: int) -> Tensor:
    """Give the rows (T x B) that turn each document's words (T, B) around and leave its padding in place."""
    positions = torch.arange(width, device=lengths.device)[:, None]
    mirrored = lengths - 1 - positions  # (T, B)
    documents = torch.arange(len(lengths), device=lengths.device)
    return (torch.where(mirrored >= 0, mirrored, positions) * len(lengths) + documents).flatten()


def turned(words: Tensor, order: Tensor) -> Tensor:
    """Turn the words (T, B, W) of each document around, by the rows that `reversed_rows` gives."""
    result: Tensor = _Turned.apply(words, order)  # type: ignore[no-untyped-call]
    return result


def _rows_taken(x: Tensor, rows: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1]).index_select(0, rows).view(x.shape)


def _put(target: Tensor, part: Tensor, factors: Tensor | None) -> Tensor:
    return target.copy_(part) if factors is None else torch.mul(part, factors, out=target)


class _Turned(Function):
    # Turning around twice changes nothing, so the way back is the way forth: no rows have to be added up.

    @staticmethod
    def forward(ctx: Any, words: Tensor, order: Tensor) -> Tensor:
        ctx.save_for_backward(order)
        return _rows_taken(words, order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _rows_taken(gradient, *ctx.saved_tensors), None


class _States(Function):
    """Both directions (T, B, h), dropped out, and the words themselves (T, B, W): (B, T, 2 h + W) in one array.

    The same by products and concatenation takes twice as many copies on each way.
    """

    @staticmethod
    def forward(
        ctx: Any, forward: Tensor, backward: Tensor, words: Tensor | None, order: Tensor, factors: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(order, *(() if factors is None else (factors,)))
        parts = [forward, _rows_taken(backward, order), *(() if words is None else (words,))]
        n_words, n_documents, hidden_size = forward.shape
        ctx.hidden_size = hidden_size
        kind = torch.promote_types(forward.dtype, parts[-1].dtype)  # of cuDNN, states may have 16 bits and words 32
        states = forward.new_empty((n_documents, n_words, sum(part.shape[-1] for part in parts)), dtype=kind)
        columns = torch.split(states.transpose(0, 1), [part.shape[-1] for part in parts], dim=-1)
        kept = [None, None] if factors is None else torch.split(factors, hidden_size, dim=-1)
        for target, part, own in zip(columns, parts, [*kept, None], strict=False):
            _put(target, part, own)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        order, *factors = ctx.saved_tensors
        h = ctx.hidden_size
        columns = gradient.transpose(0, 1)  # (T, B, 2 h + W)
        directions = []
        for start in (0, h):
            own = columns[..., start : start + h]
            target = torch.empty(own.shape, dtype=own.dtype, device=own.device)
            directions.append(_put(target, own, factors[0][..., start : start + h] if factors else None))
        words = columns[..., 2 * h :].contiguous() if ctx.needs_input_grad[2] else None
        return directions[0], _rows_taken(directions[1], order), words, None, None
