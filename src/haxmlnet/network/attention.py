"""Label-wise attention: each node looks at the words that speak for it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

# Up to this many weights (B, C, T) the plain formula is faster than the fused kernel, and small enough to hold.
MAX_PLAIN_WEIGHTS = 2**23


def label_attention(queries: Tensor, states: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Give sum_t softmax_t(h_t . w_j) v_t for every query w_j: (B, C, V).

    Queries are (N, H), the same for all documents, or (B, C, H); states h are (B, T, H), values v are (B, T, V).
    Padding takes no part.
    """
    n_weights = states.shape[0] * states.shape[1] * queries.shape[-2]
    if queries.dim() == 2 or n_weights <= MAX_PLAIN_WEIGHTS:
        return attention_weights(queries, states, lengths) @ values
    return _fused_attention(queries, states, values, lengths)


def attention_weights(queries: Tensor, states: Tensor, lengths: Tensor) -> Tensor:
    """Give the weights (B, C, T) of the words themselves."""
    padding = _padding_scores(lengths, states)  # (B, T)
    if queries.dim() == 2:
        scores = states @ queries.T  # one matrix product for the whole batch
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


def _widened(x: Tensor, width: int) -> Tensor:
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


def padding_mask(lengths: Tensor, width: int) -> Tensor:
    """Say which positions (B, T) hold words."""
    return torch.arange(width, device=lengths.device) < lengths[:, None]
