"""`LabelAttentionNetwork`: one class for every level of the tree, alone or several on one encoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from haxmlnet.network.attention import goes_by_document, label_attention, n_queries_of, rows_of, sums_of_documents
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.logits import write_logits
from haxmlnet.network.products import linear
from haxmlnet.network.workers import Map


class Layer(nn.Linear):
    """A linear layer by our own products."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to the last axis."""
        return linear(x, self.weight, self.bias)


class LabelHead(nn.Module):
    """States in, logits out: for all N nodes of one level, or for the candidates of each document.

    The shared layers turn a node's document vector m_j into one logit. With `own_outputs`, each node adds
    a last layer of its own: the logit gains u_j . r_j + b_j, where r_j is what the shared layers see last.
    """

    def __init__(
        self, state_size: int, n_nodes: int, mlp_sizes: Sequence[int], own_outputs: bool, sparse_nodes: bool
    ) -> None:
        super().__init__()
        self.queries = _new_table(n_nodes, state_size, sparse_nodes)
        if not self.queries.weight.is_meta:  # drawing numbers that nobody keeps would import half of torch
            nn.init.normal_(self.queries.weight, std=state_size**-0.5)
        self.first = Layer(state_size, mlp_sizes[0])
        self.middle = nn.Sequential(nn.ReLU(), *_hidden_layers(mlp_sizes))
        self.last = nn.Linear(mlp_sizes[-1], 1)
        self.outputs: nn.Embedding | None = None
        if own_outputs:
            self.outputs = _new_table(n_nodes, mlp_sizes[-1] + 1, sparse_nodes)
            nn.init.zeros_(self.outputs.weight)

    @property
    def n_nodes(self) -> int:
        """Nodes of the level."""
        return self.queries.num_embeddings

    def forward(
        self,
        states: Tensor,
        lengths: Tensor,
        candidates: Tensor | None = None,
        n_present: Sequence[int] | None = None,
    ) -> Tensor:
        """Give logits (B, N), or (B, C) for candidates (B, C) of node ids, from states (B, T, H).

        Logits of candidates after the first `n_present` of a document mean nothing.
        """
        # Attention averages, and the first shared layer is linear: applied to the words instead of to
        # every node's average it gives the same numbers for a fraction of the work.
        values = self.first(states)
        if not torch.is_grad_enabled() and goes_by_document(self.queries, candidates, states, values):
            return self._logits_by_document(states, values, lengths, candidates, n_present)
        sums = label_attention(self.queries, candidates, states, values, lengths, n_present)
        hidden = self.middle(sums)  # (B, C, M)
        logits = self.last(hidden).squeeze(-1)
        if self.outputs is None:
            return logits
        own: Tensor = _OwnLogits.apply(hidden, rows_of(self.outputs, candidates))  # type: ignore[no-untyped-call]
        return logits + own

    def _logits_by_document(
        self,
        states: Tensor,
        values: Tensor,
        lengths: Tensor,
        candidates: Tensor | None,
        n_present: Sequence[int] | None,
    ) -> Tensor:
        """Give the same logits where nothing is learned: what comes after attention would wait for memory."""
        width = n_queries_of(self.queries, candidates)
        nodes = np.arange(width)[None].repeat(len(states), 0) if candidates is None else candidates.numpy()
        logits, layers = torch.zeros(len(states), width), list(self.middle)[:-1]
        last, bias = self.last.weight.detach().numpy()[0], np.float32(self.last.bias.item())
        own = np.zeros((0, 0), np.float32) if self.outputs is None else self.outputs.weight.detach().numpy()
        found = sums_of_documents(self.queries, candidates, states, values, lengths, n_present)
        for row, hidden in enumerate(found):
            for layer in layers:
                hidden = layer(hidden)
            write_logits(hidden.numpy(), last, bias, own, nodes[row], logits[row].numpy())
        return logits

    def start_bias(self, rate: float) -> None:
        """Start the last bias at the log-odds of the mean label rate.

        Without it the network spends epochs learning that labels are rare.
        """
        rate = min(max(rate, 1e-6), 1 - 1e-6)
        nn.init.constant_(self.last.bias, math.log(rate / (1 - rate)))

    def start_queries(self, vectors: Tensor, strength: float) -> None:
        """Let each node (N, W) attend from the start to words whose vectors, the end of a state, are like its own."""
        with torch.no_grad():
            self.queries.weight[:, -vectors.shape[1] :] += strength * vectors.to(self.queries.weight.device)


class LabelAttentionNetwork(nn.Module):
    """An encoder and the heads of one or more consecutive levels, which all read its states."""

    def __init__(self, encoder: BiLSTMEncoder, heads: Sequence[LabelHead], first_level: int = 0) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleList(heads)
        self.first_level = first_level

    @property
    def levels(self) -> range:
        """The levels of the tree that this network scores."""
        return range(self.first_level, self.first_level + len(self.heads))

    @property
    def device(self) -> torch.device:
        """Where the network lives."""
        return self.encoder.words.weight.device

    def head(self, level: int) -> LabelHead:
        """Give the head of a level of the tree."""
        head = self.heads[level - self.first_level]
        assert isinstance(head, LabelHead)
        return head

    def autocast(self) -> torch.autocast:
        """Let a graphics card multiply numbers of 16 bits, if it should; on a processor, the encoder sees to that."""
        device = self.device.type
        return torch.autocast(device, torch.bfloat16, enabled=device == "cuda" and self.encoder.kind == torch.bfloat16)

    def encode(self, tokens: Tensor, lengths: Tensor, generator: Generator | None = None, run: Map = map) -> Tensor:
        """Give the states (B, T, H) that the heads read; the generator decides what is dropped in training."""
        states: Tensor = self.encoder(tokens, lengths, generator, run)
        return states

    def start_from(self, above: LabelAttentionNetwork) -> None:
        """Take over the encoder and the shared layers of the level above."""
        self.encoder.load_state_dict(above.encoder.state_dict())
        for head in self.heads:
            for part in ("first", "middle", "last"):
                getattr(head, part).load_state_dict(getattr(above.heads[-1], part).state_dict())


class _OwnLogits(Function):
    """u . r + b for each r (B, C, M) and its u and b in one row, (N, M + 1) or (B, C, M + 1).

    Slices in a plain formula would fill and add whole arrays on the way back.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, own: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, own)
        return (hidden * own[..., :-1]).sum(-1) + own[..., -1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        hidden, own = ctx.saved_tensors
        of_own = torch.empty_like(own)
        if own.dim() == 2:
            of_own[:, :-1] = torch.bmm(gradient.T[:, None, :], hidden.transpose(0, 1).to(gradient.dtype))[:, 0]
            of_own[:, -1] = gradient.sum(dim=0)
        else:
            torch.mul(hidden, gradient[..., None], out=of_own[..., :-1])
            of_own[..., -1] = gradient
        return gradient[..., None] * own[..., :-1], of_own


def _hidden_layers(sizes: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for size, next_size in pairwise(sizes):
        layers += [Layer(size, next_size), nn.ReLU()]
    return layers


def _new_table(n_rows: int, width: int, sparse: bool) -> nn.Embedding:
    return nn.Embedding(n_rows, width, sparse=sparse, _weight=torch.empty(n_rows, width))
