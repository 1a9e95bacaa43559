"""The loss of a batch: every level of the network, from the candidates that the level above it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from haxmlnet.data.tokens import TokenArray
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT, Ranking
from haxmlnet.training.candidates import Candidates, CandidateSource


@dataclass(frozen=True)
class TrainingData:
    """What a network learns from: documents, and for each of its levels the true nodes and the candidates."""

    tokens: TokenArray
    targets: Sequence[sp.csr_array]
    """True nodes of each level, (documents x nodes)."""
    sources: Sequence[CandidateSource | None]
    """None: every document is compared with all nodes of the level."""
    predicted: Ranking | None
    """What the network above predicts on the level above the first one, best first."""
    hard_negatives: int
    """Best wrong nodes of a level whose children are candidates of the next."""

    def candidates(
        self, index: int, rows: NDArray[np.int64], wrong: NDArray[np.int32], rng: np.random.Generator
    ) -> Candidates:
        """Return the candidates and targets of some documents on one of the levels."""
        source = self.sources[index]
        if source is not None:
            return source.draw(rows, wrong, rng)
        targets = self.targets[index][rows].toarray()
        return Candidates(np.broadcast_to(np.arange(targets.shape[1]), targets.shape), targets)

    def predicted_above(self, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the best nodes (B, W) that the network above predicts; W is 0 where there are none."""
        if self.predicted is None:
            return np.zeros((len(rows), 0), np.int32)
        return self.predicted.ids[rows, : self.hard_negatives]

    def positive_rate(self, index: int, rows: NDArray[np.int64]) -> float:
        """Estimate from some documents the share of a level's candidates that are true."""
        rng = np.random.default_rng(0)
        wrong = self.predicted_above(rows)
        source = self.sources[index]
        if index > 0 and source is not None:
            n_parents = source.parents.shape[1]
            wrong = rng.integers(0, n_parents, (len(rows), min(self.hard_negatives, n_parents))).astype(np.int32)
        batch = self.candidates(index, rows, wrong, rng)
        return float(batch.targets.sum() / max((batch.ids != ABSENT).sum(), 1))


def batch_loss(network: LabelAttentionNetwork, data: TrainingData, rows: NDArray[np.int64], seed: int) -> Tensor:
    """Sum the losses of some documents, on each level the mean over the document's own candidates.

    All that is random follows from the seed.
    """
    rng, device = np.random.default_rng(seed), network.device
    generator = torch.Generator(device).manual_seed(seed)
    tokens, lengths = (torch.from_numpy(array).to(device) for array in data.tokens.pad(rows))
    wrong = data.predicted_above(rows)
    total = torch.zeros((), device=device)
    with network.autocast():
        states = network.encode(tokens, lengths, generator)
        for index, level in enumerate(network.levels):
            batch = data.candidates(index, rows, wrong, rng)
            candidates = None if data.sources[index] is None else torch.from_numpy(batch.ids).to(device)
            logits = network.head(level)(states, lengths, candidates).float()
            targets, present = (torch.from_numpy(x).to(device) for x in (batch.targets, batch.ids != ABSENT))
            total = total + document_losses(logits, targets, present).sum()
            if index < len(network.heads) - 1:
                wrong = find_best_wrong(logits.detach(), batch, targets, present, data.hard_negatives)
    return total


def document_losses(logits: Tensor, targets: Tensor, present: Tensor) -> Tensor:
    """Average the binary cross-entropy over each document's own candidates (eq. 2): (B,).

    L = -1/|C| sum_{j in C} y_j log p_j + (1 - y_j) log(1 - p_j), where p_j = sigmoid(z_j).
    """
    losses = F.binary_cross_entropy_with_logits(logits, targets, reduction="none") * present  # (B, C)
    return losses.sum(dim=1) / present.sum(dim=1).clamp(min=1)


def find_best_wrong(
    logits: Tensor, batch: Candidates, targets: Tensor, present: Tensor, n_wrong: int
) -> NDArray[np.int32]:
    """Return the wrong nodes (B, W) with the highest logits."""
    n_wrong = min(n_wrong, logits.shape[1])
    if n_wrong == 0:
        return np.zeros((len(logits), 0), np.int32)
    others = logits.masked_fill((targets > 0) | ~present, -torch.inf)
    values, columns = others.topk(n_wrong, dim=1, sorted=False)
    ids = np.take_along_axis(batch.ids, columns.cpu().numpy(), axis=1)
    return np.where(values.cpu().numpy() == -np.inf, ABSENT, ids).astype(np.int32)
