"""Label-wise attention in one document after the other: what a matmul needs is still in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from haxmlnet.cpu.bfloat16 import round_to_bfloat16
from haxmlnet.cpu.lstm_inference import MIN_BATCH
from haxmlnet.cpu.matmul import add_matmul, linear, matmul
from haxmlnet.network.head import look_up

# Up to this many weights (B, C, T) are held for backward; more are worked out again.
MAX_HELD_WEIGHTS = 2**23
# With so many operations for the scores of a document, a matmul for each document is faster than one for the batch.
MIN_OPERATIONS = 4_000_000


def goes_by_document(states: Tensor, n_queries: int) -> bool:
    """Return whether one document after the other is faster, or takes less memory, than all of them at once."""
    n_documents, n_words, state_size = states.shape
    is_faster = n_documents >= MIN_BATCH and 2 * n_words * n_queries * state_size >= MIN_OPERATIONS
    return is_faster or n_documents * n_words * n_queries > MAX_HELD_WEIGHTS


def attend_by_document(
    queries: Tensor, states: Tensor, values: Tensor, lengths: Tensor, counts: Sequence[int]
) -> Tensor:
    """Return what `label_attention` gives, in float32, with gradients.

    Queries are (N, H) or (B, C, H); sums of all but the first `counts` of a document are zero.
    """
    sums: Tensor = _ByDocument.apply(queries, states, values, lengths.tolist(), counts)  # type: ignore[no-untyped-call]
    return sums


def attend_at_once(queries: Tensor, states: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Return what `label_attention` gives for small documents, in float32, with gradients."""
    # Adding minus infinity passes gradients on as they are; filling in would copy scores and gradients.
    padding = None
    if not bool((lengths == states.shape[1]).all()):
        positions = torch.arange(states.shape[1])
        padding = torch.zeros(states.shape[:2], dtype=states.dtype)  # (B, T)
        padding.masked_fill_(positions >= lengths[:, None], -torch.inf)
    if queries.dim() == 2:
        scores = linear(states, queries)  # (B, T, C): one matmul for the whole batch
        if padding is not None:
            scores += padding[:, :, None]
        # Over any axis but the last one, torch would add bfloat16 up in bfloat16.
        weights = scores.softmax(dim=1, dtype=torch.float32).to(scores.dtype).transpose(1, 2)
    else:
        scores = queries.to(states.dtype) @ states.mT  # (B, C, T)
        if padding is not None:
            scores += padding[:, None, :]
        weights = scores.softmax(dim=-1)
    return (weights @ values).float()


def sums_of_documents(
    queries: nn.Embedding,
    candidates: Tensor | None,
    states: Tensor,
    values: Tensor,
    lengths: Tensor,
    counts: Sequence[int],
) -> Iterator[Tensor]:
    """Return the sums (C, V) of the first `counts` candidates of one document after the other, without gradients.

    What is done with the sums of a document finds them in the cache.
    """
    form = sum_in_batch if len(states) >= MIN_BATCH else sum_alone
    for row, (length, count) in enumerate(zip(lengths.tolist(), counts, strict=True)):
        own = look_up(queries, None if candidates is None else candidates[row, :count])
        yield form(own, states[row], values[row], length)


def sum_in_batch(queries: Tensor, states: Tensor, values: Tensor, length: int) -> Tensor:
    """Return the sums (C, V) of one document among many: padding leaves fewer shapes to compile a matmul for."""
    weights = _document_weights(queries.to(states.dtype), states, length)
    return matmul(weights, values.T).float()


def sum_alone(queries: Tensor, states: Tensor, values: Tensor, length: int) -> Tensor:
    """Return the same for one document among few, whose shapes are too many to compile a bfloat16 matmul for each.

    It is multiplied in float32, and rounded wherever it would be in a batch.
    """
    if states.dtype == torch.float32:
        return F.linear(F.linear(queries, states[:length]).softmax(dim=-1), values[:length].T)
    queries = round_to_bfloat16(queries.clone())
    scores = round_to_bfloat16(F.linear(queries, states[:length].float()))
    weights = round_to_bfloat16(scores.softmax(dim=-1))
    return round_to_bfloat16(F.linear(weights, values[:length].float().T))


class _ByDocument(Function):
    """Attention in one document after the other; weights that are too many to hold are worked out again."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, states: Tensor, values: Tensor, lengths: list[int], counts: Sequence[int]
    ) -> Tensor:
        n_queries = queries.shape[-2]
        queries = queries.to(states.dtype)
        sums = torch.empty(len(states), n_queries, values.shape[-1])
        held = []
        for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
            weights = _document_weights(_of_document(queries, row, count), states[row], length)
            matmul(weights, values[row].T, out=sums[row, :count])
            sums[row, count:] = 0
            if len(states) * states.shape[1] * n_queries <= MAX_HELD_WEIGHTS:
                held.append(weights)
        ctx.lengths, ctx.counts = lengths, counts
        ctx.save_for_backward(queries, states, values, *held)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, states, values, *held = ctx.saved_tensors
        # The same queries may have a part of every document: these are added up in float32.
        of_queries = torch.zeros(queries.shape)
        of_states, of_values = torch.empty_like(states), torch.empty_like(values)
        for row, (length, count) in enumerate(zip(ctx.lengths, ctx.counts, strict=True)):
            own, words = _of_document(queries, row, count), states[row]
            of_sums = gradient[row, :count].to(states.dtype)
            weights = held[row] if held else _document_weights(own, words, length)  # (C, T)
            of_scores = torch._softmax_backward_data(matmul(of_sums, values[row]), weights, 1, weights.dtype)
            matmul(weights.T, of_sums.T, out=of_values[row])
            matmul(of_scores.T, own.T, out=of_states[row])
            add_matmul(_of_document(of_queries, row, count), of_scores, words.T)
        return of_queries, of_states, of_values, None, None


def _document_weights(queries: Tensor, states: Tensor, length: int) -> Tensor:
    """Return the weights (C, T) of the words of one document, whose states are (T, H)."""
    scores = matmul(queries, states)
    if length < len(states):
        scores[:, length:] = -torch.inf
    return scores.softmax(dim=-1)


def _of_document(queries: Tensor, row: int, count: int) -> Tensor:
    return queries if queries.dim() == 2 else queries[row, :count]
