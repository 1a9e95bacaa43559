"""Label-wise attention: each node looks at the words that speak for it."""

from __future__ import annotations

import torch
from torch import Tensor


def label_attention(queries: Tensor, states: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    """Return one vector per document and node, m_j = sum_t a_tj v_t (eq. 1): (B, C, V).

    In the paper the values v_t are the states h_t themselves; `LabelHead` says why they may be others. On a CPU, a
    faster implementation stands in for this one; with `USE_CPU_ROOM = False` in `training/hardware.py` it does not.
    """
    return attention_weights(queries, states, lengths) @ values


def attention_weights(queries: Tensor, states: Tensor, lengths: Tensor) -> Tensor:
    """Return a_tj = softmax_t(h_t . w_j) (eq. 1): (B, C, T).

    Queries w_j are (C, H), the same for all documents, or (B, C, H); states h_t are (B, T, H). Padding has no weight.
    """
    scores = queries @ states.mT  # (B, C, T)
    padding = torch.arange(states.shape[1], device=states.device) >= lengths[:, None]  # (B, T)
    return scores.masked_fill(padding[:, None], -torch.inf).softmax(dim=-1)
