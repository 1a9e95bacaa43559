from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from haxmlnet.data.tokens import TokenArray
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT, Ranking
from haxmlnet.search import descend
from haxmlnet.search.descend import node_probabilities, search_level, search_tree
from haxmlnet.tree import LabelTree, children_of

TREE = LabelTree((np.array([0, 0, 1, 1], np.int32), np.array([3, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2], np.int32)), n_labels=11)


def new_network(n_nodes: int, seed: int) -> LabelAttentionNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        encoder = BiLSTMEncoder(torch.randn(12, 4), 3, 0.2, 0.5, attend_words=True, sparse_words=True)
        network = LabelAttentionNetwork(encoder, n_nodes, (5,), own_outputs=True, sparse_nodes=True)
        network.outputs.weight.data.normal_()
    return network


NETWORKS = [new_network(size, seed) for seed, size in enumerate(TREE.level_sizes)]


def new_tokens(n_documents: int = 9) -> TokenArray:
    rng = np.random.default_rng(0)
    return TokenArray.from_lists([rng.integers(1, 12, rng.integers(1, 8)).astype(np.int32) for _ in range(n_documents)])


@torch.no_grad()
def exhaustive(tokens: TokenArray) -> np.ndarray:
    """P(label) of every document, alone, as the product of the probabilities of the label and its ancestors."""
    path = [TREE.parents[0][TREE.parents[1]], TREE.parents[1], np.arange(11)]
    scores = np.ones((len(tokens), 11))
    for network, nodes in zip(NETWORKS, path, strict=True):
        network.eval()
        for row in range(len(tokens)):
            words = torch.from_numpy(tokens.ids[tokens.starts[row] : tokens.ends[row]]).long()[None]
            scores[row] *= network(words, torch.tensor([words.shape[1]]))[0].sigmoid().numpy()[nodes]
    return scores


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0, 1]), st.integers(0, 6), st.integers(1, 4))
def test_children_equal_a_brute_force(seed, level, n_documents, n_parents):
    rng = np.random.default_rng(seed)
    size = TREE.level_sizes[level]
    ids = [rng.permutation(np.r_[: min(n_parents, size)]) for _ in range(n_documents)]
    parents = np.array(ids, np.int32).reshape(n_documents, min(n_parents, size))
    parents[rng.random(parents.shape) < 0.3] = ABSENT
    scores = rng.random(parents.shape).astype(np.float32)
    nodes, node_scores = children_of(TREE, level, parents, scores)
    for row in range(n_documents):
        expected = [
            (node, score)
            for parent, score in zip(parents[row].tolist(), scores[row].tolist(), strict=True)
            for node, above in enumerate(TREE.parents[level].tolist())
            if parent == above
        ]
        n = len(expected)
        assert list(zip(nodes[row, :n].tolist(), node_scores[row, :n].tolist(), strict=True)) == expected
        assert (nodes[row, n:] == ABSENT).all()
        assert not node_scores[row, n:].any()


def test_a_search_of_all_nodes_is_the_exhaustive_product():
    tokens = new_tokens()
    ranking = search_tree(NETWORKS, TREE, tokens, beam=4, k=11)
    assert (ranking.ids >= 0).all()
    np.testing.assert_allclose(ranking.to_csr().toarray(), exhaustive(tokens), rtol=1e-5, atol=1e-7)
    assert (np.diff(ranking.scores, axis=1) <= 0).all()


def test_a_level_below_ranks_the_children_of_the_level_above():
    tokens = new_tokens()
    above = search_level(NETWORKS[0], TREE, 0, tokens, None, 2)
    below = search_level(NETWORKS[1], TREE, 1, tokens, above, 4)
    all_rows = np.arange(len(tokens))
    coarse, fine = (node_probabilities(network, tokens, all_rows, None) for network in NETWORKS[:2])
    np.testing.assert_allclose(below.to_csr().toarray(), fine * coarse[:, TREE.parents[0]], rtol=1e-5)


def test_a_beam_of_one_leaves_the_labels_of_the_best_group():
    tokens = new_tokens()
    groups = search_level(NETWORKS[1], TREE, 1, tokens, search_level(NETWORKS[0], TREE, 0, tokens, None, 1), 1)
    ranking = search_tree(NETWORKS, TREE, tokens, beam=1, k=11)
    for row in range(len(tokens)):
        group = groups.ids[row, 0]
        found = {label for label in ranking.ids[row].tolist() if label != ABSENT}
        assert found == set(np.flatnonzero(TREE.parents[1] == group).tolist())
    assert (ranking.scores[ranking.ids == ABSENT] == 0).all()


def test_the_best_k_are_the_first_of_more():
    tokens = new_tokens()
    few, many = (search_tree(NETWORKS, TREE, tokens, beam=4, k=k) for k in (3, 11))
    assert few.ids.tolist() == many.ids[:, :3].tolist()
    assert few.scores.tolist() == many.scores[:, :3].tolist()


def test_absent_parents_have_no_children():
    tokens = new_tokens(3)
    parents = np.array([[1, ABSENT], [ABSENT, ABSENT], [0, 1]], np.int32)
    above = Ranking(parents, np.array([[0.5, 0], [0, 0], [0.5, 0.25]], np.float32), None, 2)
    ranking = search_level(NETWORKS[1], TREE, 1, tokens, above, 4)
    assert [sorted(node for node, _ in pairs) for pairs in ranking] == [[2, 3], [], [0, 1, 2, 3]]
    probabilities = node_probabilities(NETWORKS[1], tokens, np.arange(3), None)
    np.testing.assert_allclose(ranking.to_csr().toarray()[0], probabilities[0] * [0, 0, 0.5, 0.5], rtol=1e-5)


@pytest.mark.parametrize("largest", [1, 200])
def test_small_batches_give_the_same_ranking(monkeypatch, largest):
    tokens = new_tokens(30)
    expected = search_tree(NETWORKS, TREE, tokens, beam=2, k=5)
    monkeypatch.setattr(descend, "LARGEST_ARRAY", largest)
    ranking = search_tree(NETWORKS, TREE, tokens, beam=2, k=5)
    assert ranking.ids.tolist() == expected.ids.tolist()
    np.testing.assert_allclose(ranking.scores, expected.scores, atol=1e-6)


def test_no_documents():
    ranking = search_tree(NETWORKS, TREE, TokenArray.from_lists([]), beam=2, k=5)
    assert ranking.ids.shape == (0, 5)


@pytest.mark.parametrize("training", [True, False])
def test_a_search_is_without_dropout_and_leaves_the_mode_of_the_network(training):
    network = new_network(2, 0).train(training)
    first, again = (search_level(network, TREE, 0, new_tokens(), None, 2) for _ in range(2))
    assert first.scores.tolist() == again.scores.tolist()
    assert network.training == training


def test_progress_counts_every_document():
    done: list[int] = []
    search_level(NETWORKS[0], TREE, 0, new_tokens(), None, 2, done.append)
    assert sum(done) == 9


def test_proposed_labels_are_found_whatever_their_score():
    tokens = new_tokens()
    exact = exhaustive(tokens)
    worst = np.argsort(exact, axis=1)[:, :2].astype(np.int32)
    ranking = search_tree(NETWORKS, TREE, tokens, beam=1, k=4, proposed=worst)
    for row in range(len(tokens)):
        assert set(worst[row].tolist()) <= set(ranking.ids[row].tolist())
    found = ranking.ids != ABSENT
    np.testing.assert_allclose(
        ranking.scores[found], np.take_along_axis(exact, np.maximum(ranking.ids, 0), 1)[found], rtol=1e-4, atol=1e-7
    )
    assert (np.diff(ranking.scores, axis=1) <= 0).all()


def test_only_the_paths_of_the_best_proposals_are_searched(monkeypatch):
    monkeypatch.setattr(descend, "PROPOSED_PATHS", 1)
    tokens = new_tokens(1)
    proposed = np.array([[0, 10]], np.int32)
    groups = TREE.parents[1]
    assert groups[0] != groups[10]
    ranking = search_tree(NETWORKS, TREE, tokens, beam=1, k=11, proposed=proposed)
    assert 0 in ranking.ids[0]
