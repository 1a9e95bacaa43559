"""Label-wise attention: each node looks at the words that speak for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from haxmlnet.data.shapes import few_counts
from haxmlnet.network.products import add_product, linear, on_processor, product

# Up to this many weights (B, C, T) the plain formula is faster than the fused kernel, and small enough to hold.
MAX_PLAIN_WEIGHTS = 2**23
# With so many operations for the scores of a document, products of single documents are faster than those of a batch.
LEAST_OF_A_DOCUMENT = 4_000_000
# Fewer documents are not worth the programs that oneDNN compiles for a new shape.
LEAST_DOCUMENTS = 8


def label_attention(
    queries: nn.Embedding,
    candidates: Tensor | None,
    states: Tensor,
    values: Tensor,
    lengths: Tensor,
    n_present: Sequence[int] | None = None,
) -> Tensor:
    """Give sum_t softmax_t(h_t . w_j) v_t for every query w_j: (B, C, V).

    Queries are a table (N, H), of which each document has all rows, or those of its candidates (B, C); states h are
    (B, T, H), values v are (B, T, V). Padding takes no part. Sums of candidates after the first `n_present` of a
    document may be anything. On a processor, sums have 32 bits, and products are of the kind of states and values;
    elsewhere autocast decides.
    """
    if not goes_by_document(queries, candidates, states, values):
        return attention(rows_of(queries, candidates), states, values, lengths)
    rows, counts = rows_of(queries, candidates), _counts(queries, candidates, len(states), n_present)
    sums: Tensor = _ByDocument.apply(rows, states, values, lengths.tolist(), counts)  # type: ignore[no-untyped-call]
    return sums


def goes_by_document(queries: nn.Embedding, candidates: Tensor | None, states: Tensor, values: Tensor) -> bool:
    """Say whether one document after the other is faster than all of them at once."""
    n_queries = n_queries_of(queries, candidates)
    is_large = 2 * states.shape[1] * n_queries * states.shape[-1] >= LEAST_OF_A_DOCUMENT
    return is_large and len(states) >= LEAST_DOCUMENTS and on_processor(states, values)


def sums_of_documents(
    queries: nn.Embedding,
    candidates: Tensor | None,
    states: Tensor,
    values: Tensor,
    lengths: Tensor,
    n_present: Sequence[int] | None = None,
) -> Iterator[Tensor]:
    """Give what `label_attention` gives, without gradients, one document after the other.

    Absent candidates may be left out. What is done with the sums (C, V) of a document finds them in the cache.
    """
    counts = _counts(queries, candidates, len(states), n_present)
    shared = queries.weight.to(states.dtype) if candidates is None else None
    for row, (length, count) in enumerate(zip(lengths.tolist(), counts, strict=True)):
        own = shared
        if candidates is not None:
            own = queries.weight.index_select(0, candidates[row, :count]).to(states.dtype)
        assert own is not None
        yield product(_weights_of_document(own, states[row], length), values[row].T).float()


def _counts(
    queries: nn.Embedding, candidates: Tensor | None, n_documents: int, n_present: Sequence[int] | None
) -> list[int]:
    """Say how many candidates of each document are looked at, one of few numbers."""
    n_queries = n_queries_of(queries, candidates)
    return [n_queries] * n_documents if n_present is None else [min(few_counts(n), n_queries) for n in n_present]


def n_queries_of(queries: nn.Embedding, candidates: Tensor | None) -> int:
    """Count the rows of a table that each document has: all, or those of its candidates (B, C)."""
    return queries.num_embeddings if candidates is None else candidates.shape[1]


def rows_of(table: nn.Embedding, candidates: Tensor | None) -> Tensor:
    """Give all rows of a table (N, H), or those of the candidates (B, C) of each document."""
    return table.weight if candidates is None else table(candidates)


def attention(queries: Tensor, states: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Do the same for all documents at once; queries are (N, H), the same for all documents, or (B, C, H)."""
    if states.device.type != "cpu":  # there autocast decides
        return _attention(queries, states, values, lengths)
    return _attention(queries.to(states.dtype), states, values, lengths).float()


def _attention(queries: Tensor, states: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
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


def _put_sums(sums: Tensor, count: int, weights: Tensor, values: Tensor) -> None:
    """Put the sums of the first candidates of a document where they belong; those of absent ones are zero."""
    product(weights, values.T, out=sums[:count])
    if count < len(sums):
        sums[count:] = 0


def _weights_of_document(queries: Tensor, states: Tensor, length: int) -> Tensor:
    """Give the weights (C, T) of the words of one document, whose states are (T, H)."""
    scores = product(queries, states)
    if length < len(states):  # with padding there are fewer different shapes
        scores[:, length:] = -torch.inf
    return scores.softmax(dim=-1)


def _of_document(queries: Tensor, row: int, count: int) -> Tensor:
    return queries if queries.dim() == 2 else queries[row, :count]


class _ByDocument(Function):
    """Attention in one document after the other: what a product needs is still in the cache.

    Weights that are too many to hold are worked out again on the way back.
    """

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, states: Tensor, values: Tensor, lengths: list[int], counts: list[int]
    ) -> Tensor:
        n_queries = queries.shape[-2]
        queries = queries.to(states.dtype)
        sums = torch.empty(len(states), n_queries, values.shape[-1])
        kept = []
        for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
            weights = _weights_of_document(_of_document(queries, row, count), states[row], length)
            _put_sums(sums[row], count, weights, values[row])
            if len(states) * states.shape[1] * n_queries <= MAX_PLAIN_WEIGHTS:
                kept.append(weights)
        ctx.lengths, ctx.counts = lengths, counts
        ctx.save_for_backward(queries, states, values, *kept)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        queries, states, values, *kept = ctx.saved_tensors
        # The same queries may have a part of every document: these are added up in 32 bits.
        of_queries = torch.zeros(queries.shape)
        of_states, of_values = torch.empty_like(states), torch.empty_like(values)
        for row, (length, count) in enumerate(zip(ctx.lengths, ctx.counts, strict=True)):
            wanted, words, own = _of_document(queries, row, count), states[row], gradient[row, :count].to(states.dtype)
            weights = kept[row] if kept else _weights_of_document(wanted, words, length)  # (C, T)
            of_scores = torch._softmax_backward_data(product(own, values[row]), weights, 1, weights.dtype)
            product(weights.T, own.T, out=of_values[row])
            product(of_scores.T, wanted.T, out=of_states[row])
            add_product(_of_document(of_queries, row, count), of_scores, words.T)
        return of_queries, of_states, of_values, None, None


def _widened(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def padding_mask(lengths: Tensor, width: int) -> Tensor:
    """Say which positions (B, T) hold words."""
    return torch.arange(width, device=lengths.device) < lengths[:, None]
