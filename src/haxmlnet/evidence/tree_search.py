"""Beam search down the label tree: each level scores the children of the best nodes above it (eq. 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from haxmlnet.data.shapes import round_count
from haxmlnet.data.tokens import TokenArray, length_sorted_batches
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT, Ranking, rank
from haxmlnet.training.hardware import kept_memory, workers
from haxmlnet.tree import LabelTree, ancestors_of, children_of, marked_in_rows, values_in_rows

# Elements of the largest array of a batch, (B, C, H): 64 MB of float32 for each thread.
MAX_ELEMENTS = 2**24
# With more documents and tokens matmuls are no faster.
MAX_BATCH = 128
MAX_TOKENS = 25_600
# Batches are made smaller than these limits, but not than this, so that every thread has one.
MIN_DOCUMENTS_OF_BATCH = 16

R = TypeVar("R")


@dataclass(frozen=True)
class LevelScores:
    """The nodes of a level that were scored for B documents."""

    nodes: NDArray[np.int32]  # (B, C)
    logits: NDArray[np.float32]  # (B, C), of P(node | parent)
    scores: NDArray[np.float32]  # (B, C), products of the probabilities along the path

    def best(self, width: int, n_nodes: int) -> Ranking:
        """Rank the best nodes."""
        return rank(self.nodes, self.scores, width, None, n_nodes)


@dataclass(frozen=True)
class BatchSearch:
    """What one network found for a batch of documents; it keeps the states, so that further nodes can be scored."""

    network: LabelAttentionNetwork
    tree: LabelTree
    states: Tensor  # (B, T, H)
    lengths: Tensor  # (B,)
    levels: list[LevelScores]
    values: dict[int, Tensor] = field(default_factory=dict)
    """What the head of a level makes of the states, for further nodes."""

    @classmethod
    @torch.inference_mode()
    def run(
        cls, network: LabelAttentionNetwork, tree: LabelTree, batch: tuple[Tensor, Tensor], above: Ranking | None,
        beam: int,
    ) -> BatchSearch:  # fmt: skip
        """Encode the tokens (B, T) of a batch, of given lengths (B,), and search from the best nodes above."""
        tokens, lengths = (array.to(network.device) for array in batch)
        with network.autocast():
            states = network.encode(tokens, lengths)
        return cls(network, tree, states, lengths, []).search(above, beam)

    @torch.inference_mode()
    def search(self, above: Ranking | None, beam: int) -> BatchSearch:
        """Score all nodes of level 0, or the children of the best `beam` nodes above (10 in the paper), and so on."""
        levels: list[LevelScores] = []
        for level in self.network.levels:
            best = levels[-1].best(beam, self.tree.level_sizes[level - 1]) if levels else above
            if best is None:
                shape = len(self.states), self.tree.level_sizes[level]
                nodes = np.broadcast_to(np.arange(shape[1], dtype=np.int32), shape)
                logits = self.score(level, None)
                scores = sigmoid(logits)
            else:
                nodes, parent_scores = children_of(self.tree, level - 1, best.ids, best.scores)
                logits = self.score(level, nodes)
                scores = sigmoid(logits) * parent_scores  # P(node) = P(node | parent) P(parent)  (eq. 3)
            levels.append(LevelScores(nodes, logits, scores))
        return replace(self, levels=levels)

    def best(self, k: int) -> Ranking:
        """Rank the k best nodes of the network's last level."""
        return self.levels[-1].best(k, self.tree.level_sizes[self.network.levels[-1]])

    @torch.inference_mode()
    def score(self, level: int, nodes: NDArray[np.int32] | None) -> NDArray[np.float32]:
        """Return the logits of nodes (B, C) of a level; None: of all."""
        candidates = None
        if nodes is not None:
            # More than one document: one of few widths, as matmuls are compiled for each.
            n_padding = round_count(nodes.shape[1]) - nodes.shape[1] if len(nodes) > 1 else 0
            padded = np.pad(nodes, ((0, 0), (0, n_padding)), constant_values=ABSENT)
            candidates = torch.from_numpy(padded.astype(np.int64)).to(self.network.device)
        head = self.network.head(level)
        with self.network.autocast():
            if level not in self.values:
                self.values[level] = head.project(self.states)
            logits = head(self.states, self.lengths, candidates, self.values[level])
        scored: NDArray[np.float32] = logits.float().cpu().numpy()
        return scored if nodes is None else scored[:, : nodes.shape[1]]

    def path_logits(self, level: int, labels: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the logits of the ancestors of labels (B, C) on a level, scoring those the search missed."""
        wanted, known = ancestors_of(self.tree, labels, level), self.levels[level - self.network.first_level]
        nodes, logits = known.nodes, known.logits
        missing = np.sort(np.where(marked_in_rows(wanted, nodes), ABSENT, wanted), axis=1)
        missing[:, 1:][missing[:, 1:] == missing[:, :-1]] = ABSENT
        missing = np.sort(missing, axis=1)[:, ::-1]  # absent ones come last
        missing = np.ascontiguousarray(missing[:, (missing != ABSENT).any(axis=0)])
        if missing.shape[1]:
            nodes = np.concatenate([nodes, missing], axis=1)
            logits = np.concatenate([logits, self.score(level, missing)], axis=1)
        return values_in_rows(nodes, logits, wanted)


def search_network(
    network: LabelAttentionNetwork,
    tree: LabelTree,
    tokens: TokenArray,
    above: Ranking | None,
    beam: int,
    advance: Callable[[int], None] = lambda n: None,
) -> Ranking:
    """Rank the best `beam` nodes of a network's last level for many documents, batch by batch, in threads."""
    n_nodes = tree.level_sizes[network.levels[-1]]
    ids = np.full((len(tokens), min(beam, n_nodes)), ABSENT, np.int32)
    scores = np.zeros(ids.shape, np.float32)

    def search_batch(rows: NDArray[np.int64]) -> Ranking:
        own = None if above is None else Ranking(above.ids[rows], above.scores[rows], None, above.n_ids)
        return BatchSearch.run(network, tree, pad_batch(tokens, rows), own, beam).best(beam)

    was_training = network.training
    network.eval()
    try:
        limit = batch_limit(network, tree, beam)
        n_threads = torch.get_num_threads() if network.device.type == "cpu" else 1
        most_tokens = balance_tokens(tokens.lengths, n_threads, MAX_TOKENS)
        batches = list(length_sorted_batches(tokens.lengths, limit, most_tokens))
        for rows, best in map_in_threads(search_batch, batches, n_threads, network.device):
            ids[rows, : best.ids.shape[1]] = best.ids
            scores[rows, : best.ids.shape[1]] = best.scores
            advance(len(rows))
    finally:
        network.train(was_training)
    return Ranking(ids, scores, None, n_nodes)


def map_in_threads(
    work: Callable[[NDArray[np.int64]], R],
    blocks: Sequence[NDArray[np.int64]],
    n_threads: int,
    device: torch.device,
) -> Iterator[tuple[NDArray[np.int64], R]]:
    """Apply work to blocks of documents, each in one thread; return the rows and the result of each, in order."""
    n_workers = min(n_threads, len(blocks))
    with kept_memory(device) if len(blocks) > 1 else nullcontext(), workers(n_workers) as run:
        yield from zip(blocks, run(work, blocks), strict=True)


def pad_batch(tokens: TokenArray, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Return padded tokens (B, T) and lengths (B,) of some documents."""
    ids, lengths = tokens.pad(rows)
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return probabilities; scipy's expit takes a tenth of a second to import."""
    probabilities: NDArray[np.float32] = torch.from_numpy(logits).sigmoid().numpy()
    return probabilities


def balance_tokens(lengths: NDArray[np.int64], n_threads: int, most_tokens: int) -> int:
    """Bound the tokens of a batch so that all threads get equally many batches, of up to so many tokens each."""
    if len(lengths) < n_threads * MIN_DOCUMENTS_OF_BATCH:
        return most_tokens
    n_tokens = int(lengths.sum())
    rounds = -(-n_tokens // (most_tokens * n_threads))
    # Room for one more document, so that the last batch does not spill over.
    return min(most_tokens, -(-n_tokens // max(rounds * n_threads, 1)) + int(lengths.max()) - 1)


def batch_limit(network: LabelAttentionNetwork, tree: LabelTree, beam: int) -> int:
    """Return how many documents a network searches at once."""
    most = tree.level_sizes[0]
    for level in network.levels:
        if level > 0:
            n_parents = min(beam, tree.level_sizes[level - 1])
            most = max(most, n_parents * int(np.diff(tree.children(level - 1)[0]).max()))
    first = network.head(network.first_level).first
    return documents_per_batch(most, max(network.encoder.state_size, first.out_features))


def documents_per_batch(n_candidates: int, width: int) -> int:
    """Bound the documents of a batch, so that what is looked up for their candidates, (B, C, width), stays small."""
    return max(min(MAX_BATCH, MAX_ELEMENTS // (n_candidates * width)), 1)
