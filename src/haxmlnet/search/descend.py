"""The walk down the tree: each level scores the children of the best nodes above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from haxmlnet.data.shapes import few_counts
from haxmlnet.data.tokens import TokenArray, length_sorted_batches
from haxmlnet.network.network import LabelAttentionNetwork, path_probabilities
from haxmlnet.ranking import ABSENT, Ranking, rank
from haxmlnet.training.hardware import kept_memory, one_thread, side_by_side, workers
from haxmlnet.tree import LabelTree, ancestors_of, children_of, marked_in_rows, parents_of, values_in_rows

# Numbers in the largest array of a prediction batch, (B, C, H): 64 MB of float32 for each thread.
LARGEST_ARRAY = 2**24
# With more documents and words the products are no faster.
MAX_BATCH = 128
MAX_TOKENS = 25_600
LEAST_DOCUMENTS = 16
"""In a batch that is made smaller, so that every thread has one."""


@dataclass(frozen=True)
class Proposals:
    """Labels that another model proposes, (documents, width): made when they are needed, which may be in a thread."""

    make: Callable[[], NDArray[np.int32]]
    width: int


@dataclass(frozen=True)
class Paths(Ranking):
    """Ranked nodes, and what the networks said on their paths."""

    logits: NDArray[np.float32] = field(kw_only=True)  # (n, K, levels)


def search_tree(
    networks: Sequence[LabelAttentionNetwork],
    tree: LabelTree,
    tokens: TokenArray,
    beam: int,
    k: int,
    proposals: Proposals | None = None,
) -> Paths:
    """Rank the best k labels of each document; a label's score is the product along its path.

    Labels that another model proposes are scored on every level of their paths and kept as well, whether their groups
    are among the best or not.
    """
    paths: Paths | None = None
    for network in networks:
        paths = search_levels(network, tree, tokens, paths, beam, k, proposals)
    assert paths is not None
    return paths


def search_levels(
    network: LabelAttentionNetwork,
    tree: LabelTree,
    tokens: TokenArray,
    above: Paths | None,
    beam: int,
    k: int,
    proposals: Proposals | None = None,
    advance: Callable[[int], None] = lambda n: None,
) -> Paths:
    """Rank the nodes of a network's last level: the best `beam` of them, or the best k labels.

    The walk starts from the nodes ranked above the network's first level.
    """
    n_proposed = 0 if proposals is None else proposals.width
    kept_widths = [min(size, beam + n_proposed) for size in tree.level_sizes[:-1]] + [min(tree.n_labels, k)]
    ids = np.full((len(tokens), kept_widths[network.levels[-1]]), ABSENT, np.int32)
    scores = np.zeros(ids.shape, np.float32)
    logits = np.zeros((*ids.shape, network.levels[-1] + 1), np.float32)

    def search_batch(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], Paths]:
        given = None
        if above is not None:
            given = Paths(above.ids[rows], above.scores[rows], None, above.n_ids, logits=above.logits[rows])
        return rows, _search_batch(network, tree, tokens.padded(rows), given, beam, kept_widths, propose(rows))

    propose = _by_batch(proposals, len(tokens))

    was_training = network.training
    if was_training:  # visiting every module takes a millisecond
        network.eval()
    most_documents = _batch_limit(network, tree, beam, n_proposed)
    n_threads = torch.get_num_threads() if network.device.type == "cpu" else 1
    most_words = even_share(tokens.lengths, n_threads, MAX_TOKENS)
    batches = list(length_sorted_batches(tokens.lengths, most_documents, most_words))
    n_workers = min(n_threads, len(batches))
    try:
        with (
            kept_memory(network.device) if len(batches) > 1 else nullcontext(),
            workers(n_workers) as run,
        ):
            for rows, best in run(search_batch, batches):
                ids[rows, : best.ids.shape[1]] = best.ids
                scores[rows, : best.ids.shape[1]] = best.scores
                logits[rows, : best.ids.shape[1]] = best.logits
                advance(len(rows))
    finally:
        if was_training:
            network.train()
    return Paths(ids, scores, None, tree.level_sizes[network.levels[-1]], logits=logits)


@torch.inference_mode()
def _search_batch(
    network: LabelAttentionNetwork,
    tree: LabelTree,
    documents: tuple[NDArray[np.int64], NDArray[np.int64]],
    above: Paths | None,
    beam: int,
    widths: Sequence[int],
    propose: Callable[[], NDArray[np.int32] | None],
) -> Paths:
    device = network.device
    tokens, lengths = (torch.from_numpy(array).to(device) for array in documents)
    ranking: Ranking | None = above
    scored: list[tuple[NDArray[np.int32], NDArray[np.float32]]] = []
    if above is not None:
        scored = [(above.ids, above.logits[..., level]) for level in range(above.logits.shape[-1])]
    jobs: list[Callable[[], Any]] = [partial(network.encode, tokens, lengths), propose]
    states, proposed = side_by_side(jobs) if len(tokens) == 1 else [job() for job in jobs]
    with (
        network.autocast(),
        # Two threads on one document would wait for each other at every small matmul.
        one_thread() if len(tokens) == 1 and device.type == "cpu" else nullcontext(),
    ):
        for level in network.levels:
            nodes = np.broadcast_to(
                np.arange(tree.level_sizes[level], dtype=np.int32), (len(tokens), tree.level_sizes[level])
            )
            candidates, parent_scores = None, None
            kept = _ancestors(tree, proposed, level)
            if ranking is not None:
                nodes, above_scores = _candidates(tree, level, ranking, beam, kept)
                candidates = torch.from_numpy(nodes.astype(np.int64)).to(device)
                parent_scores = torch.from_numpy(above_scores)
            logits = network.head(level)(states, lengths, candidates).float().cpu().numpy()
            scored.append((nodes, logits))
            scores = path_probabilities(torch.from_numpy(logits), parent_scores).numpy()
            if kept is not None:
                nodes, scores = _best_and_kept(nodes, scores, kept, widths[level])
            ranking = rank(nodes, scores, widths[level], None, tree.level_sizes[level])
    assert ranking is not None
    on_path = _path_logits(tree, ranking.ids, scored, above)
    return Paths(ranking.ids, ranking.scores, None, ranking.n_ids, logits=on_path)


def _by_batch(
    proposals: Proposals | None, n_documents: int
) -> Callable[[NDArray[np.int64]], Callable[[], NDArray[np.int32] | None]]:
    """Give what makes the proposals for some documents; those for more than one document are made at once, for all."""
    if proposals is None:
        return lambda rows: lambda: None
    if n_documents == 1:
        return lambda rows: proposals.make
    labels = proposals.make()
    assert labels.shape[1] == proposals.width
    return lambda rows: lambda: labels[rows]


def _ancestors(tree: LabelTree, labels: NDArray[np.int32] | None, level: int) -> NDArray[np.int32] | None:
    return None if labels is None else ancestors_of(tree, labels, level)


def _path_logits(
    tree: LabelTree,
    nodes: NDArray[np.int32],
    scored: Sequence[tuple[NDArray[np.int32], NDArray[np.float32]]],
    above: Paths | None,
) -> NDArray[np.float32]:
    """Find what was said of nodes (B, K) and their ancestors on all levels: (B, K, levels).

    What came from above is known of the nodes of the level that was ranked there, not of their own ancestors.
    """
    n_above = 0 if above is None else above.logits.shape[-1]
    columns = []
    for level in reversed(range(len(scored))):
        columns.append(values_in_rows(*scored[level], nodes))
        if level > 0 and level >= n_above:
            nodes = parents_of(tree, level - 1, nodes)
    return np.stack(columns[::-1], axis=-1)


def _candidates(
    tree: LabelTree, level: int, above: Ranking, beam: int, kept: NDArray[np.int32] | None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Give the children of the best nodes above, and the nodes to be kept, with the scores of their parents above.

    There are as many for each document, absent ones among them; how many is one of few numbers, but for a document
    alone.
    """
    nodes, scores = _children_and_kept(tree, level, above, beam, kept)
    n_absent = few_counts(nodes.shape[1]) - nodes.shape[1] if len(nodes) > 1 else 0
    if n_absent == 0:
        return nodes, scores
    return np.pad(nodes, ((0, 0), (0, n_absent)), constant_values=ABSENT), np.pad(scores, ((0, 0), (0, n_absent)))


def _children_and_kept(
    tree: LabelTree, level: int, above: Ranking, beam: int, kept: NDArray[np.int32] | None
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    nodes, scores = children_of(tree, level - 1, above.ids[:, :beam], above.scores[:, :beam])
    if kept is None:
        return nodes, scores
    others = np.sort(np.where(marked_in_rows(kept, nodes), ABSENT, kept), axis=1)
    others[:, 1:][others[:, 1:] == others[:, :-1]] = ABSENT
    others = np.sort(others, axis=1)[:, ::-1]  # absent ones come last
    others = np.ascontiguousarray(others[:, (others != ABSENT).any(axis=0)])
    other_scores = values_in_rows(above.ids, above.scores, parents_of(tree, level - 1, others))
    return np.concatenate([nodes, others], axis=1), np.concatenate([scores, other_scores], axis=1)


def _best_and_kept(
    nodes: NDArray[np.int32], scores: NDArray[np.float32], kept: NDArray[np.int32], width: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    if nodes.shape[1] <= width:
        return nodes, scores
    keys = scores.astype(np.float64) + marked_in_rows(np.ascontiguousarray(nodes), kept)
    keys[nodes == ABSENT] = -1
    chosen = np.argpartition(-keys, width - 1, axis=1)[:, :width]
    return np.take_along_axis(nodes, chosen, 1), np.take_along_axis(scores, chosen, 1)


def even_share(lengths: NDArray[np.int64], n_threads: int, most_words: int) -> int:
    """Bound the words of a batch so that all threads get equally many batches, of up to so many words each."""
    if len(lengths) < n_threads * LEAST_DOCUMENTS:
        return most_words
    n_words = int(lengths.sum())
    rounds = -(-n_words // (most_words * n_threads))
    # A batch of the longest documents must not lack the last of them by less than one document.
    return min(most_words, -(-n_words // max(rounds * n_threads, 1)) + int(lengths.max()) - 1)


def _batch_limit(network: LabelAttentionNetwork, tree: LabelTree, beam: int, n_proposed: int) -> int:
    widest = 1
    for level in network.levels:
        n_nodes = tree.level_sizes[0]
        if level > 0:
            n_parents = min(beam, tree.level_sizes[level - 1])
            n_nodes = n_parents * int(np.diff(tree.children(level - 1)[0]).max()) + n_proposed
        widest = max(widest, n_nodes)
    return batch_limit(widest, network.encoder.state_size, network.head(network.levels[0]).first.out_features)


def batch_limit(n_candidates: int, state_size: int, hidden_width: int) -> int:
    """Say how many documents are searched at once: what is looked up for their candidates must stay small."""
    return max(min(MAX_BATCH, LARGEST_ARRAY // (n_candidates * max(state_size, hidden_width))), 1)
