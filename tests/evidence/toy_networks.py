"""Untrained networks over a small tree, and the scores of all its nodes, document by document and node by node."""

from __future__ import annotations

import numpy as np
import torch

from haxmlnet.data.tokens import TokenArray
from haxmlnet.evidence.attention_tree import AttentionFindings, AttentionTree
from haxmlnet.evidence.protocol import Documents
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT, Ranking
from haxmlnet.training.hardware import place
from haxmlnet.tree import LabelTree

TREE = LabelTree((np.array([0, 0, 1, 1], np.int32), np.array([3, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2], np.int32)), n_labels=11)
N_WORDS = 12
ANCESTORS = [TREE.parents[0][TREE.parents[1]], TREE.parents[1], np.arange(11)]
"""The node of each level above each label."""


def new_plain_network(levels: range, seed: int) -> LabelAttentionNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        encoder = BiLSTMEncoder(torch.randn(N_WORDS, 4), 3, 0.2, 0.5, attend_words=True, sparse_words=True)
        sizes = [TREE.level_sizes[level] for level in levels]
        heads = [LabelHead(encoder.state_size, size, (5,), own_outputs=True, sparse_nodes=True) for size in sizes]
        for head in heads:
            head.outputs.weight.data.normal_()
    return LabelAttentionNetwork(encoder, heads, levels[0]).eval()


def new_network(levels: range, seed: int) -> LabelAttentionNetwork:
    return place(new_plain_network(levels, seed), torch.device("cpu"), "float32")


def plain_twin(network: LabelAttentionNetwork) -> LabelAttentionNetwork:
    """Make a network with the same weights in the plain form."""
    twin = new_plain_network(network.levels, 0)
    twin.load_state_dict(network.state_dict())
    return twin


NETWORKS = {
    "separate": [new_network(range(level, level + 1), seed=level) for level in range(3)],
    "shared": [new_network(range(3), seed=3)],
    "two and one": [new_network(range(2), seed=4), new_network(range(2, 3), seed=5)],
}


def new_tokens(n_documents: int = 9) -> TokenArray:
    rng = np.random.default_rng(0)
    words = [rng.integers(1, N_WORDS, rng.integers(1, 8)).astype(np.int32) for _ in range(n_documents)]
    return TokenArray.from_lists(words)


def documents_of(tokens: TokenArray) -> Documents:
    return Documents(tokens, np.ones(N_WORDS, np.float32))


def examine(
    networks: list[LabelAttentionNetwork], tokens: TokenArray, beam: int, n_proposals: int = 11
) -> AttentionFindings:
    return AttentionTree(TREE, networks, 500, beam, n_proposals).examine(documents_of(tokens))


@torch.no_grad()
def node_probabilities(networks: list[LabelAttentionNetwork], tokens: TokenArray, level: int) -> np.ndarray:
    """P(node | its parent) of every document, alone, for all nodes of a level."""
    network = plain_twin(next(network for network in networks if level in network.levels))
    rows = []
    for row in range(len(tokens)):
        words = torch.from_numpy(tokens.ids[tokens.starts[row] : tokens.ends[row]]).long()[None]
        length = torch.tensor([words.shape[1]])
        rows.append(network.head(level)(network.encode(words, length), length)[0].sigmoid().numpy())
    return np.array(rows, np.float64)


def exhaustive(networks: list[LabelAttentionNetwork], tokens: TokenArray) -> np.ndarray:
    """P(label) of every document, as the product of the probabilities of the label and its ancestors."""
    return np.prod(
        [node_probabilities(networks, tokens, level)[:, nodes] for level, nodes in enumerate(ANCESTORS)], axis=0
    )


def beam_search(networks: list[LabelAttentionNetwork], tokens: TokenArray, beam: int) -> list[dict[int, float]]:
    """Walk down with the best nodes of each level alone; give the scores of the labels found."""
    levels = [node_probabilities(networks, tokens, level) for level in range(3)]
    found = []
    for row in range(len(tokens)):
        scores = dict(enumerate(levels[0][row].tolist()))
        for level in (1, 2):
            best = sorted(scores, key=lambda node: -scores[node])[:beam]
            parents = TREE.parents[level - 1].tolist()
            scores = {
                node: levels[level][row, node] * scores[parent] for node, parent in enumerate(parents) if parent in best
            }
        found.append(scores)
    return found


def assert_finds(ranking: Ranking, expected: list[dict[int, float]]) -> None:
    for row, scores in enumerate(expected):
        found = dict(ranking[row])
        assert found.keys() == scores.keys()
        np.testing.assert_allclose([found[label] for label in scores], list(scores.values()), rtol=1e-5)
    assert (ranking.scores[ranking.ids == ABSENT] == 0).all()
    assert (np.diff(ranking.scores, axis=1) <= 0).all()
