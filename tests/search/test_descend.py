from __future__ import annotations

import threading
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from haxmlnet.search import descend
from haxmlnet.search.descend import Paths, Proposals, search_levels, search_tree
from hypothesis import given, settings

from haxmlnet.data.tokens import TokenArray, length_sorted_batches
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree, children_of

TREE = LabelTree((np.array([0, 0, 1, 1], np.int32), np.array([3, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2], np.int32)), n_labels=11)


def new_network(levels: range, seed: int) -> LabelAttentionNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        encoder = BiLSTMEncoder(torch.randn(12, 4), 3, 0.2, 0.5, attend_words=True, sparse_words=True)
        sizes = [TREE.level_sizes[level] for level in levels]
        heads = [LabelHead(encoder.state_size, size, (5,), own_outputs=True, sparse_nodes=True) for size in sizes]
        for head in heads:
            head.outputs.weight.data.normal_()
    return LabelAttentionNetwork(encoder, heads, levels[0])


SEPARATE = [new_network(range(level, level + 1), seed=level) for level in range(3)]
SHARED = [new_network(range(3), seed=3)]
TWO_AND_ONE = [new_network(range(2), seed=4), new_network(range(2, 3), seed=5)]
every_sharing = pytest.mark.parametrize(
    "networks", [SEPARATE, SHARED, TWO_AND_ONE], ids=["separate", "shared", "two and one"]
)


def new_tokens(n_documents: int = 9) -> TokenArray:
    rng = np.random.default_rng(0)
    return TokenArray.from_lists([rng.integers(1, 12, rng.integers(1, 8)).astype(np.int32) for _ in range(n_documents)])


@torch.no_grad()
def node_probabilities(networks: list[LabelAttentionNetwork], tokens: TokenArray, level: int) -> np.ndarray:
    """P(node | its parent) of every document, alone, for all nodes of a level."""
    network = next(network for network in networks if level in network.levels).eval()
    rows = []
    for row in range(len(tokens)):
        words = torch.from_numpy(tokens.ids[tokens.starts[row] : tokens.ends[row]]).long()[None]
        length = torch.tensor([words.shape[1]])
        rows.append(network.head(level)(network.encode(words, length), length)[0].sigmoid().numpy())
    return np.array(rows, np.float64)


def exhaustive(networks: list[LabelAttentionNetwork], tokens: TokenArray) -> np.ndarray:
    """P(label) of every document, as the product of the probabilities of the label and its ancestors."""
    path = [TREE.parents[0][TREE.parents[1]], TREE.parents[1], np.arange(11)]
    return np.prod([node_probabilities(networks, tokens, level)[:, nodes] for level, nodes in enumerate(path)], axis=0)


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


@every_sharing
def test_a_search_of_all_nodes_is_the_exhaustive_product(networks):
    tokens = new_tokens()
    ranking = search_tree(networks, TREE, tokens, beam=4, k=11)
    assert (ranking.ids >= 0).all()
    np.testing.assert_allclose(ranking.to_csr().toarray(), exhaustive(networks, tokens), rtol=1e-5, atol=1e-7)
    assert (np.diff(ranking.scores, axis=1) <= 0).all()


@every_sharing
@pytest.mark.parametrize("beam", [1, 2, 3])
def test_a_narrow_search_equals_a_brute_force(networks, beam):
    tokens = new_tokens()
    ranking = search_tree(networks, TREE, tokens, beam, k=11)
    for row, expected in enumerate(beam_search(networks, tokens, beam)):
        found = dict(ranking[row])
        assert found.keys() == expected.keys()
        assert [found[label] for label in expected] == pytest.approx(list(expected.values()), rel=1e-5)
    assert (ranking.scores[ranking.ids == ABSENT] == 0).all()


@torch.no_grad()
def test_one_shared_encoder_searches_as_copies_of_it():
    copies = [new_network(range(level, level + 1), seed=9) for level in range(3)]
    for level, copy in enumerate(copies):
        copy.encoder.load_state_dict(SHARED[0].encoder.state_dict())
        copy.head(level).load_state_dict(SHARED[0].head(level).state_dict())
    tokens = new_tokens(30)
    shared, separate = (search_tree(networks, TREE, tokens, beam=2, k=4) for networks in (SHARED, copies))
    assert shared.ids.tolist() == separate.ids.tolist()
    np.testing.assert_allclose(shared.scores, separate.scores, rtol=1e-6)


def test_a_level_below_ranks_the_children_of_the_level_above():
    tokens = new_tokens()
    above = search_levels(SEPARATE[0], TREE, tokens, None, 2, 11)
    below = search_levels(SEPARATE[1], TREE, tokens, above, 4, 11)
    assert (above.n_ids, below.n_ids) == (2, 4)
    coarse, fine = (node_probabilities(SEPARATE, tokens, level) for level in (0, 1))
    np.testing.assert_allclose(below.to_csr().toarray(), fine * coarse[:, TREE.parents[0]], rtol=1e-5)


def test_a_network_without_the_labels_ranks_as_many_nodes_as_the_beam():
    tokens = new_tokens()
    ranking = search_levels(TWO_AND_ONE[0], TREE, tokens, None, beam=3, k=1)
    assert ranking.ids.shape == (len(tokens), 3)
    coarse, fine = (node_probabilities(TWO_AND_ONE, tokens, level) for level in (0, 1))
    expected = -np.sort(-fine * coarse[:, TREE.parents[0]], axis=1)[:, :3]
    np.testing.assert_allclose(ranking.scores, expected, rtol=1e-5)


@every_sharing
def test_the_best_k_are_the_first_of_more(networks):
    tokens = new_tokens()
    few, many = (search_tree(networks, TREE, tokens, beam=4, k=k) for k in (3, 11))
    assert few.ids.tolist() == many.ids[:, :3].tolist()
    assert few.scores.tolist() == many.scores[:, :3].tolist()


def test_absent_parents_have_no_children():
    tokens = new_tokens(3)
    parents = np.array([[1, ABSENT], [ABSENT, ABSENT], [0, 1]], np.int32)
    scores = np.array([[0.5, 0], [0, 0], [0.5, 0.25]], np.float32)
    above = Paths(parents, scores, None, 2, logits=np.ones((3, 2, 1), np.float32))
    ranking = search_levels(SEPARATE[1], TREE, tokens, above, 4, 11)
    assert [sorted(node for node, _ in pairs) for pairs in ranking] == [[2, 3], [], [0, 1, 2, 3]]
    expected = node_probabilities(SEPARATE, tokens, 1)[0] * [0, 0, 0.5, 0.5]
    np.testing.assert_allclose(ranking.to_csr().toarray()[0], expected, rtol=1e-5)


def test_absent_parents_have_no_children_further_down():
    network = new_network(range(1, 3), seed=6)
    parents = np.array([[1, ABSENT], [ABSENT, ABSENT], [0, 1]], np.int32)
    scores = np.array([[0.5, 0], [0, 0], [0.5, 0.25]], np.float32)
    above = Paths(parents, scores, None, 2, logits=np.ones((3, 2, 1), np.float32))
    ranking = search_levels(network, TREE, new_tokens(3), above, 4, 11)
    below = [label for label in range(11) if TREE.parents[0][TREE.parents[1][label]] == 1]
    assert [sorted(label for label, _ in pairs) for pairs in ranking] == [below, [], list(range(11))]


@every_sharing
@pytest.mark.parametrize(("name", "value"), [("LARGEST_ARRAY", 1), ("LARGEST_ARRAY", 200), ("MAX_TOKENS", 20)])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_small_batches_in_threads_give_the_same_ranking(monkeypatch, networks, name, value, n_threads):
    tokens = new_tokens(30)
    expected = search_tree(networks, TREE, tokens, beam=2, k=5)
    monkeypatch.setattr(descend, name, value)
    torch.set_num_threads(n_threads)
    ranking = search_tree(networks, TREE, tokens, beam=2, k=5)
    assert torch.get_num_threads() == n_threads
    assert ranking.ids.tolist() == expected.ids.tolist()
    np.testing.assert_allclose(ranking.scores, expected.scores, atol=1e-6)


def test_batches_are_searched_side_by_side(monkeypatch):
    met = threading.Barrier(2, timeout=60)
    search_batch = descend._search_batch

    def waiting(*arguments: Any) -> Paths:
        assert torch.get_num_threads() == 1
        met.wait()
        return search_batch(*arguments)

    monkeypatch.setattr(descend, "MAX_BATCH", 5)
    monkeypatch.setattr(descend, "_search_batch", waiting)
    torch.set_num_threads(2)
    assert len(search_tree(SHARED, TREE, new_tokens(20), beam=2, k=5)) == 20


def test_a_failure_in_a_thread_is_the_failure_of_the_search(monkeypatch):
    def fail(*arguments: Any) -> Paths:
        raise MemoryError

    monkeypatch.setattr(descend, "MAX_BATCH", 1)
    monkeypatch.setattr(descend, "_search_batch", fail)
    torch.set_num_threads(2)
    with pytest.raises(MemoryError):
        search_tree(SHARED, TREE, new_tokens(), beam=2, k=5)


@every_sharing
def test_no_documents(networks):
    ranking = search_tree(networks, TREE, TokenArray.from_lists([]), beam=2, k=5)
    assert ranking.ids.shape == (0, 5)


@pytest.mark.parametrize("training", [True, False])
def test_a_search_is_without_dropout_and_leaves_the_mode_of_the_network(training):
    network = new_network(range(3), 0).train(training)
    first, again = (search_levels(network, TREE, new_tokens(), None, 2, 5) for _ in range(2))
    assert first.scores.tolist() == again.scores.tolist()
    assert network.training == training


def test_progress_counts_every_document(monkeypatch):
    monkeypatch.setattr(descend, "MAX_BATCH", 2)
    done: list[int] = []
    search_levels(SHARED[0], TREE, new_tokens(), None, 2, 5, advance=done.append)
    assert done == [2, 2, 2, 2, 1]


@every_sharing
def test_proposed_labels_are_found_whatever_their_score(networks):
    tokens = new_tokens()
    exact = exhaustive(networks, tokens)
    worst = np.argsort(exact, axis=1)[:, :2].astype(np.int32)
    ranking = search_tree(networks, TREE, tokens, beam=1, k=4, proposals=Proposals(lambda: worst, worst.shape[1]))
    for row in range(len(tokens)):
        assert set(worst[row].tolist()) <= set(ranking.ids[row].tolist())
    found = ranking.ids != ABSENT
    np.testing.assert_allclose(
        ranking.scores[found], np.take_along_axis(exact, np.maximum(ranking.ids, 0), 1)[found], rtol=1e-4, atol=1e-7
    )
    assert (np.diff(ranking.scores, axis=1) <= 0).all()


@every_sharing
def test_beside_the_best_groups_the_proposed_labels_alone_are_scored(networks):
    tokens = new_tokens()
    proposed = np.tile(np.array([0, 10, ABSENT, 5], np.int32), (len(tokens), 1))
    ranking = search_tree(
        networks, TREE, tokens, beam=1, k=11, proposals=Proposals(lambda: proposed, proposed.shape[1])
    )
    for ids in ranking.ids.tolist():
        assert {0, 5, 10} <= set(ids)
        groups = {int(TREE.parents[1][label]) for label in set(ids) - {0, 5, 10, ABSENT}}
        assert len(groups) <= 1


@every_sharing
@pytest.mark.parametrize("beam", [1, 4])
def test_paths_of_proposed_labels_carry_what_was_said_of_them(networks, beam):
    tokens = new_tokens()
    proposed = np.random.default_rng(0).permuted(np.tile(np.arange(11, dtype=np.int32), (len(tokens), 1)), axis=1)[
        :, :5
    ]
    paths = search_tree(
        networks, TREE, tokens, beam=beam, k=11, proposals=Proposals(lambda: proposed, proposed.shape[1])
    )
    ancestors = [TREE.parents[0][TREE.parents[1]], TREE.parents[1], np.arange(11)]
    found = paths.ids != ABSENT
    for level, nodes in enumerate(ancestors):
        said = np.take_along_axis(node_probabilities(networks, tokens, level), nodes[paths.ids], axis=1)
        np.testing.assert_allclose(1 / (1 + np.exp(-paths.logits[..., level]))[found], said[found], rtol=1e-4)


@every_sharing
@pytest.mark.parametrize("beam", [1, 4])
def test_paths_carry_what_the_networks_said_of_a_label_and_its_ancestors(networks, beam):
    tokens = new_tokens()
    paths = search_tree(networks, TREE, tokens, beam=beam, k=11)
    assert paths.logits.shape == (len(tokens), 11, 3)
    ancestors = [TREE.parents[0][TREE.parents[1]], TREE.parents[1], np.arange(11)]
    found = paths.ids != ABSENT
    for level, nodes in enumerate(ancestors):
        said = np.take_along_axis(node_probabilities(networks, tokens, level), nodes[paths.ids], axis=1)
        np.testing.assert_allclose(1 / (1 + np.exp(-paths.logits[..., level]))[found], said[found], rtol=1e-4)
    assert not paths.logits[~found].any()


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=300), st.integers(1, 4), st.integers(60, 2000)
)  # fmt: skip
def test_every_thread_gets_a_batch_and_none_is_larger_than_allowed(lengths, n_threads, most_words):
    given_lengths = np.array(lengths)
    share = descend.even_share(given_lengths, n_threads, most_words)
    assert share <= most_words
    batches = list(length_sorted_batches(given_lengths, len(lengths), share))
    if len(lengths) >= n_threads * descend.LEAST_DOCUMENTS:
        assert len(batches) >= n_threads


@pytest.mark.parametrize(("n_documents", "n_batches"), [(1000, 14), (200, 4), (40, 2), (20, 1)])
def test_documents_of_one_length_make_equally_large_batches_for_two_threads(n_documents, n_batches):
    lengths = np.full(n_documents, 200)
    batches = list(length_sorted_batches(lengths, n_documents, descend.even_share(lengths, 2, 16_384)))
    assert len(batches) == n_batches
    assert max(map(len, batches)) - min(map(len, batches)) <= n_batches
