"""The head on a CPU: attention by document, and in eval mode all that follows it as well."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from haxmlnet.cpu.document_attention import attend_at_once, attend_by_document, goes_by_document, sums_of_documents
from haxmlnet.cpu.lstm_inference import MIN_BATCH
from haxmlnet.cpu.matmul import linear, matmul_without_compiling
from haxmlnet.data.shapes import round_count
from haxmlnet.network.head import LabelHead, look_up


class FastHead(LabelHead):
    """A `LabelHead` that multiplies in the dtype of the states; in eval mode no gradients pass through."""

    def forward(
        self, states: Tensor, lengths: Tensor, candidates: Tensor | None = None, values: Tensor | None = None
    ) -> Tensor:
        """Return logits (B, N) of all nodes, or (B, C) of candidates (B, C), from states (B, T, H)."""
        counts = [self.n_nodes] * len(states)
        if candidates is not None:
            candidates, counts = fill_absent(candidates)
            if self.training or len(states) >= MIN_BATCH:  # few different numbers have few shapes to compile
                counts = [min(round_count(count), candidates.shape[1]) for count in counts]
        values = self.project(states) if values is None else values
        if self.training:
            return self._forward_training(states, values, lengths, candidates, counts)
        with torch.no_grad():
            return self._forward_inference(states, values, lengths, candidates, counts)

    def project(self, states: Tensor) -> Tensor:
        """Return the values (B, T, M) of attention."""
        if self.training or len(states) >= MIN_BATCH:
            return linear(states, self.first.weight, self.first.bias)
        with torch.no_grad():
            weight, bias = (x.to(states.dtype) for x in (self.first.weight, self.first.bias))
            return matmul_without_compiling(states, weight, bias)

    def _forward_training(
        self, states: Tensor, values: Tensor, lengths: Tensor, candidates: Tensor | None, counts: list[int]
    ) -> Tensor:
        queries = look_up(self.queries, candidates)
        if goes_by_document(states, queries.shape[-2]):
            vectors = attend_by_document(queries, states, values, lengths, counts)
        else:
            vectors = attend_at_once(queries, states, values, lengths)
        hidden = self.middle(vectors)  # (B, C, M)
        logits: Tensor = self.last(hidden).squeeze(-1)
        if self.outputs is None:
            return logits
        own: Tensor = _OwnLogits.apply(hidden, look_up(self.outputs, candidates))  # type: ignore[no-untyped-call]
        return logits + own

    def _forward_inference(
        self, states: Tensor, values: Tensor, lengths: Tensor, candidates: Tensor | None, counts: list[int]
    ) -> Tensor:
        width = self.n_nodes if candidates is None else candidates.shape[1]
        if len(states) >= MIN_BATCH and not goes_by_document(states, width):
            return self._forward_training(states, values, lengths, candidates, counts)

        # What comes after attention would wait for memory: it is done for one document after the other as well.
        nodes = np.arange(width)[None].repeat(len(states), 0) if candidates is None else candidates.numpy()
        logits, layers = torch.zeros(len(states), width), list(self.middle)[:-1]
        last, last_bias = self.last.weight.numpy()[0], np.float32(self.last.bias.item())
        own = np.zeros((0, 0), np.float32) if self.outputs is None else self.outputs.weight.numpy()
        for row, hidden in enumerate(sums_of_documents(self.queries, candidates, states, values, lengths, counts)):
            for layer in layers:
                hidden = layer(hidden)
            write_logits(hidden.numpy(), last, last_bias, own, nodes[row], logits[row].numpy())
        return logits


def fill_absent(candidates: Tensor) -> tuple[Tensor, list[int]]:
    """Let absent candidates (B, C) repeat the first of their row; return how many there are up to the last present."""
    ids = candidates.numpy()
    present = ids >= 0
    if present.all():
        return candidates, [ids.shape[1]] * len(ids)
    counts = (present * np.arange(1, ids.shape[1] + 1, dtype=np.int32)).max(axis=1, initial=0)
    return torch.from_numpy(np.where(present, ids, np.maximum(ids[:, :1], 0))), counts.tolist()


class _OwnLogits(Function):
    """u . r + b for each r (B, C, M) and its u and b in one row, (N, M + 1) or (B, C, M + 1).

    Slices in a plain formula would fill and add whole arrays in backward.
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
            of_own[:, :-1] = torch.bmm(gradient.T[:, None, :], hidden.transpose(0, 1))[:, 0]
            of_own[:, -1] = gradient.sum(dim=0)
        else:
            torch.mul(hidden, gradient[..., None], out=of_own[..., :-1])
            of_own[..., -1] = gradient
        return gradient[..., None] * own[..., :-1], of_own


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def write_logits(sums, last, bias, own, nodes, logits):  # type: ignore[no-untyped-def]
    """Write the logits of nodes whose hidden numbers (C, M), before they are cut off at zero, are known.

    `last` (M,) and `bias` are shared, `own` (N, M + 1) are those of each node, or (0, 0).
    """
    zero, n_units = np.float32(0), len(last)
    for place in range(len(sums)):
        total = bias
        if len(own) == 0:
            for unit in range(n_units):
                total += max(sums[place, unit], zero) * last[unit]
        else:
            weights = own[np.uint64(nodes[place])]
            for unit in range(n_units):
                total += max(sums[place, unit], zero) * (last[unit] + weights[unit])
            total += weights[n_units]
        logits[place] = total
