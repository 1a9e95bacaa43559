"""Label-wise attention: each node looks at the words that speak for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from haxmlnet.network.products import fits, linear, product

# Up to this many weights (B, C, T) the plain formula is faster than the fused kernel, and small enough to hold.
MAX_PLAIN_WEIGHTS = 2**23
# With so many operations for the scores of a document, products of single documents are faster than those of a batch.
LEAST_OF_A_DOCUMENT = 4_000_000


def label_attention(
    queries: nn.Embedding, candidates: Tensor | None, states: Tensor, values: Tensor, lengths: Tensor
) -> Tensor:
    """Give sum_t softmax_t(h_t . w_j) v_t for every query w_j: (B, C, V).

    Queries are a table (N, H), of which each document has all rows, or those of its candidates (B, C); states h are
    (B, T, H), values v are (B, T, V). Padding takes no part.
    """
    n_queries = queries.num_embeddings if candidates is None else candidates.shape[1]
    n_operations = 2 * states.shape[1] * n_queries * states.shape[-1]
    by_document = n_operations >= LEAST_OF_A_DOCUMENT and fits(states, values)
    if by_document and not torch.is_grad_enabled():
        # Looked up for one document after the other, they stay in the cache.
        return _sums_by_document(queries.weight, candidates, states, values, lengths.tolist())
    rows = queries.weight if candidates is None else queries(candidates)
    if by_document:
        sums: Tensor = _ByDocument.apply(rows, states, values, lengths.tolist())  # type: ignore[no-untyped-call]
        return sums
    return attention(rows, states, values, lengths)


def attention(queries: Tensor, states: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Do the same for all documents at once; queries are (N, H), the same for all documents, or (B, C, H)."""
    n_weights = states.shape[0] * states.shape[1] * queries.shape[-2]
    if queries.dim() == 2 or n_weights <= MAX_PLAIN_WEIGHTS:
        return attention_weights(queries, states, lengths) @ values
    return _fused_attention(queries, states, values, lengths)


def attention_weights(queries: Tensor, states: Tensor, lengths: Tensor) -> Tensor:
    """Give the weights (B, C, T) of the words themselves."""
    padding = _padding_scores(lengths, states)  # (B, T)
    if queries.dim() == 2:
        scores = linear(states, queries)  # one matrix product for the whole batch
        if padding is not None:
            scores += padding[:, :, None]
        return scores.softmax(dim=1).transpose(1, 2)
    scores = queries @ states.transpose(1, 2)
    if padding is not None:
        scores += padding[:, None, :]
    return scores.softmax(dim=-1)


def _padding_scores(lengths: Tensor, states: Tensor) -> Tensor | None:
    """Give what is added to the scores (B, T): nothing for words, minus infinity for padding; None: no padding.

    Adding passes gradients on as they are; filling in would copy scores and gradients.
    """
    width = states.shape[1]
    if lengths.device.type == "cpu" and bool((lengths == width).all()):
        return None
    scores = torch.zeros(len(lengths), width, dtype=states.dtype, device=states.device)
    return scores.masked_fill_(~padding_mask(lengths, width), -torch.inf)


def _fused_attention(queries: Tensor, states: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    # The fused kernel never holds the weights. It wants an axis of heads and one width for all three, and
    # zeros at the end change neither a product of queries and states nor the other values.
    width = max(states.shape[-1], values.shape[-1])
    q, k, v = (_widened(x, width)[:, None] for x in (queries, states, values))
    mask = padding_mask(lengths, states.shape[1])[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)[:, 0, :, : values.shape[-1]]


def _sums_by_document(
    queries: Tensor, candidates: Tensor | None, states: Tensor, values: Tensor, lengths: Sequence[int]
) -> Tensor:
    n_queries = len(queries) if candidates is None else candidates.shape[1]
    sums = values.new_empty(len(states), n_queries, values.shape[-1])
    for row, length in enumerate(lengths):
        own = queries if candidates is None else queries.index_select(0, candidates[row])
        _attend(own, states[row, :length], values[row, :length], sums[row])
    return sums


def _attend(queries: Tensor, states: Tensor, values: Tensor, sums: Tensor) -> Tensor:
    """Put the sums (C, V) of one document (T, H) where they belong, and give the weights (C, T)."""
    weights = product(queries, states).softmax(dim=-1)
    sums.copy_(product(weights, values.T))
    return weights


def _of_document(queries: Tensor, row: int) -> Tensor:
    return queries if queries.dim() == 2 else queries[row]


class _ByDocument(Function):
    """Attention in one document after the other: what a product needs is still in the cache, and padding costs nothing.

    Weights that are too many to hold are worked out again on the way back.
    """

    @staticmethod
    def forward(ctx: Any, queries: Tensor, states: Tensor, values: Tensor, lengths: list[int]) -> Tensor:
        n_queries = queries.shape[-2]
        sums = values.new_empty(len(states), n_queries, values.shape[-1])
        kept = []
        for row, length in enumerate(lengths):
            weights = _attend(_of_document(queries, row), states[row, :length], values[row, :length], sums[row])
            if len(states) * states.shape[1] * n_queries <= MAX_PLAIN_WEIGHTS:
                kept.append(weights)
        ctx.lengths = lengths
        ctx.save_for_backward(queries, states, values, *kept)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, states, values, *kept = ctx.saved_tensors
        of_queries, of_states, of_values = (torch.zeros_like(x) for x in (queries, states, values))
        for row, length in enumerate(ctx.lengths):
            wanted, words, own = _of_document(queries, row), states[row, :length], gradient[row]
            weights = kept[row] if kept else product(wanted, words).softmax(dim=-1)  # (C, T)
            of_weights = product(own, values[row, :length])
            of_scores = torch._softmax_backward_data(of_weights, weights, 1, weights.dtype)
            of_values[row, :length] = product(weights.T, own.T)
            of_states[row, :length] = product(of_scores.T, wanted.T)
            _of_document(of_queries, row).add_(product(of_scores, words.T))
        return of_queries, of_states, of_values, None


def _widened(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def padding_mask(lengths: Tensor, width: int) -> Tensor:
    """Say which positions (B, T) hold words."""
    return torch.arange(width, device=lengths.device) < lengths[:, None]
