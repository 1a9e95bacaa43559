"""The head of a level: states in, one logit per node out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from haxmlnet.network.attention import label_attention


class LabelHead(nn.Module):
    """Attention and the layers that all nodes of a level share: z_j = f(m_j), a logit for node j.

    With `own_outputs`, which the paper does not have, each node adds a last layer of its own: the logit gains
    u_j . r_j + b_j, where r_j is what the last shared layer sees.
    """

    def __init__(
        self, state_size: int, n_nodes: int, mlp_sizes: Sequence[int], own_outputs: bool, sparse_nodes: bool
    ) -> None:
        super().__init__()
        self.queries = make_table(n_nodes, state_size, sparse_nodes)  # w_j
        if not self.queries.weight.is_meta:  # initializing meta tensors would import much of torch
            nn.init.normal_(self.queries.weight, std=state_size**-0.5)
        self.first = nn.Linear(state_size, mlp_sizes[0])
        self.middle = nn.Sequential(nn.ReLU())
        for size, next_size in pairwise(mlp_sizes):
            self.middle.extend([nn.Linear(size, next_size), nn.ReLU()])
        self.last = nn.Linear(mlp_sizes[-1], 1)
        self.outputs: nn.Embedding | None = None  # u_j and b_j, side by side
        if own_outputs:
            self.outputs = make_table(n_nodes, mlp_sizes[-1] + 1, sparse_nodes)
            nn.init.zeros_(self.outputs.weight)

    @property
    def n_nodes(self) -> int:
        """Nodes of the level."""
        return self.queries.num_embeddings

    def forward(
        self, states: Tensor, lengths: Tensor, candidates: Tensor | None = None, values: Tensor | None = None
    ) -> Tensor:
        """Return logits (B, N) of all nodes, or (B, C) of candidates (B, C), from states (B, T, H).

        `values` are those of an earlier call with the same states, from `project`.

        Candidates are node ids; -1 may stand for absent ones at the end of a row, whose logits mean nothing.
        """
        if candidates is not None:  # absent ones repeat a document's first, so that no other node is touched
            candidates = candidates.where(candidates >= 0, candidates[:, :1].clamp(min=0))

        values = self.project(states) if values is None else values  # (B, T, M)
        vectors = label_attention(look_up(self.queries, candidates), states, values, lengths)  # (B, C, M)
        hidden = self.middle(vectors)  # r_j
        logits: Tensor = self.last(hidden).squeeze(-1)
        if self.outputs is not None:
            own = look_up(self.outputs, candidates)
            logits = logits + (hidden * own[..., :-1]).sum(-1) + own[..., -1]
        return logits

    def project(self, states: Tensor) -> Tensor:
        """Apply the first layer to the states: the values (B, T, M) of attention.

        It is linear and attention averages, so W m_j = sum_t a_tj (W h_t): applied to the words instead of to every
        node's average, it gives the same for a fraction of the work.
        """
        values: Tensor = self.first(states)
        return values

    def start_bias(self, rate: float) -> None:
        """Start the last bias at the log-odds of the mean label rate.

        Without it the network spends epochs learning that labels are rare.
        """
        rate = min(max(rate, 1e-6), 1 - 1e-6)
        nn.init.constant_(self.last.bias, math.log(rate / (1 - rate)))

    def start_queries(self, vectors: Tensor, strength: float) -> None:
        """Add each node's word vector (N, W), times `strength`, to its query, which so attends to similar words."""
        with torch.no_grad():
            self.queries.weight[:, -vectors.shape[1] :] += strength * vectors.to(self.queries.weight.device)


def look_up(table: nn.Embedding, candidates: Tensor | None) -> Tensor:
    """Return all rows of a table (N, ...), or those of the candidates of each document (B, C, ...)."""
    rows: Tensor = table.weight if candidates is None else table(candidates)
    return rows


def make_table(n_rows: int, width: int, sparse: bool) -> nn.Embedding:
    """Make a table with a row for each node, to be filled."""
    return nn.Embedding(n_rows, width, sparse=sparse, _weight=torch.empty(n_rows, width))
