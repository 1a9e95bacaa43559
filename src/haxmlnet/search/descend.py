"""The walk down the tree: each level scores the children of the best nodes above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from haxmlnet.data.tokens import TokenArray, length_sorted_batches
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT, Ranking, rank
from haxmlnet.tree import LabelTree, ancestors_of, children_of, marked_in_rows

# Numbers in the largest array of a prediction batch, (B, C, H): 256 MB of float32.
LARGEST_ARRAY = 2**26
MAX_BATCH = 256
# Labels of another model, best first, whose paths are searched beside the best nodes of every level.
PROPOSED_PATHS = 8


def search_tree(
    networks: Sequence[LabelAttentionNetwork],
    tree: LabelTree,
    tokens: TokenArray,
    beam: int,
    k: int,
    proposed: NDArray[np.int32] | None = None,
) -> Ranking:
    """Rank the best k labels of each document; a label's score is the product along its path.

    Labels that another model proposes (documents, W), best first, are scored and kept as well: the best of them on
    every level, all of them in the end as far as their groups were searched.
    """
    ranking: Ranking | None = None
    for level, network in enumerate(networks):
        is_last = level == len(networks) - 1
        width, kept = k if is_last else beam, proposed
        if proposed is not None and not is_last:
            kept = ancestors_of(tree, proposed[:, :PROPOSED_PATHS], level)
            width += PROPOSED_PATHS
        ranking = search_level(network, tree, level, tokens, ranking, width, kept=kept)
    assert ranking is not None
    return ranking


def search_level(
    network: LabelAttentionNetwork,
    tree: LabelTree,
    level: int,
    tokens: TokenArray,
    above: Ranking | None,
    width: int,
    advance: Callable[[int], None] = lambda n: None,
    kept: NDArray[np.int32] | None = None,
) -> Ranking:
    """Rank the nodes of one level: all of them at level 0, else the children of the nodes ranked above.

    Nodes to keep (documents, W) are among the `width` nodes of the ranking, whatever their score.
    """
    n_nodes = tree.level_sizes[level]
    width = min(width, n_nodes)
    ids = np.full((len(tokens), width), ABSENT, np.int32)
    scores = np.zeros((len(tokens), width), np.float32)
    for rows in length_sorted_batches(tokens.lengths, _batch_limit(network, tree, level, above)):
        nodes, probabilities = _score_nodes(network, tree, level, tokens, rows, above)
        if kept is not None:
            nodes, probabilities = _best_and_kept(nodes, probabilities, kept[rows], width)
        best = rank(nodes, probabilities, width, None, n_nodes)
        ids[rows, : best.ids.shape[1]] = best.ids
        scores[rows, : best.ids.shape[1]] = best.scores
        advance(len(rows))
    return Ranking(ids, scores, None, n_nodes)


def _best_and_kept(
    nodes: NDArray[np.int32], probabilities: NDArray[np.float32], kept: NDArray[np.int32], width: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    if nodes.shape[1] <= width:
        return nodes, probabilities
    keys = probabilities.astype(np.float64) + marked_in_rows(np.ascontiguousarray(nodes), kept)
    keys[nodes == ABSENT] = -1
    chosen = np.argpartition(-keys, width - 1, axis=1)[:, :width]
    return np.take_along_axis(nodes, chosen, 1), np.take_along_axis(probabilities, chosen, 1)


def _score_nodes(
    network: LabelAttentionNetwork,
    tree: LabelTree,
    level: int,
    tokens: TokenArray,
    rows: NDArray[np.int64],
    above: Ranking | None,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    if above is None:
        probabilities = node_probabilities(network, tokens, rows, None)
        nodes = np.broadcast_to(np.arange(probabilities.shape[1], dtype=np.int32), probabilities.shape)
        return nodes, probabilities
    nodes, parent_scores = children_of(tree, level - 1, above.ids[rows], above.scores[rows])
    probabilities = node_probabilities(network, tokens, rows, nodes)
    return nodes, probabilities * parent_scores


@torch.inference_mode()
def node_probabilities(
    network: LabelAttentionNetwork,
    tokens: TokenArray,
    rows: NDArray[np.int64],
    nodes: NDArray[np.int32] | None,
) -> NDArray[np.float32]:
    """Give P(node | its parent) of some documents for all nodes, or for the given ones (B, C)."""
    device = network.queries.weight.device
    batch, lengths = tokens.padded(rows)
    candidates = None
    if nodes is not None:
        candidates = torch.from_numpy(np.maximum(nodes, 0).astype(np.int64)).to(device)
    was_training = network.training
    network.eval()
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        logits = network(torch.from_numpy(batch).to(device), torch.from_numpy(lengths).to(device), candidates)
    network.train(was_training)
    return logits.float().sigmoid().cpu().numpy()


def _batch_limit(network: LabelAttentionNetwork, tree: LabelTree, level: int, above: Ranking | None) -> int:
    if above is None:
        width = network.n_nodes
    else:
        width = above.ids.shape[1] * int(np.diff(tree.children(level - 1)[0]).max())
    return max(min(MAX_BATCH, LARGEST_ARRAY // (width * network.encoder.state_size)), 1)
