from __future__ import annotations

import threading
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from toy_networks import (
    ANCESTORS,
    NETWORKS,
    TREE,
    assert_finds,
    beam_search,
    exhaustive,
    new_network,
    new_tokens,
    node_probabilities,
)

from haxmlnet.data.tokens import TokenArray, length_sorted_batches
from haxmlnet.evidence import tree_search
from haxmlnet.evidence.tree_search import (
    BatchSearch,
    balance_tokens,
    batch_limit,
    documents_per_batch,
    map_in_threads,
    pad_batch,
    search_network,
)
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT, Ranking

CPU = torch.device("cpu")
SEPARATE, SHARED, TWO_AND_ONE = NETWORKS.values()
every_sharing = pytest.mark.parametrize("networks", NETWORKS.values(), ids=NETWORKS)


def search_labels(networks: list[LabelAttentionNetwork], tokens: TokenArray, beam: int) -> Ranking:
    """Rank the labels that a search meets, one network after the other; the last ranks all it meets."""
    above = None
    for network in networks:
        is_last = network.levels[-1] == 2
        if is_last:
            batch = BatchSearch.run(network, TREE, pad_batch(tokens, np.arange(len(tokens))), above, beam)
            return batch.levels[-1].best(11, 11)
        above = search_network(network, TREE, tokens, above, beam)
    raise AssertionError


@every_sharing
def test_a_search_of_all_nodes_is_the_exhaustive_product(networks):
    tokens = new_tokens()
    ranking = search_labels(networks, tokens, beam=4)
    assert (ranking.ids >= 0).all()
    np.testing.assert_allclose(ranking.to_csr().toarray(), exhaustive(networks, tokens), rtol=1e-5, atol=1e-7)
    assert (np.diff(ranking.scores, axis=1) <= 0).all()


@every_sharing
@pytest.mark.parametrize("beam", [1, 2, 3])
def test_a_narrow_search_equals_a_brute_force(networks, beam):
    tokens = new_tokens()
    assert_finds(search_labels(networks, tokens, beam), beam_search(networks, tokens, beam))


@torch.no_grad()
def test_one_shared_encoder_searches_as_copies_of_it():
    copies = [new_network(range(level, level + 1), seed=9) for level in range(3)]
    for level, copy in enumerate(copies):
        copy.encoder.load_state_dict(SHARED[0].encoder.state_dict())
        copy.head(level).load_state_dict(SHARED[0].head(level).state_dict())
    tokens = new_tokens(30)
    shared, separate = (search_labels(networks, tokens, beam=2) for networks in (SHARED, copies))
    assert shared.ids.tolist() == separate.ids.tolist()
    np.testing.assert_allclose(shared.scores, separate.scores, rtol=1e-6)


def test_a_level_below_ranks_the_children_of_the_level_above():
    tokens = new_tokens()
    above = search_network(SEPARATE[0], TREE, tokens, None, 2)
    below = search_network(SEPARATE[1], TREE, tokens, above, 4)
    assert (above.n_ids, below.n_ids) == (2, 4)
    coarse, fine = (node_probabilities(SEPARATE, tokens, level) for level in (0, 1))
    np.testing.assert_allclose(below.to_csr().toarray(), fine * coarse[:, TREE.parents[0]], rtol=1e-5)


@pytest.mark.parametrize("beam", [1, 3, 4, 9])
def test_a_network_ranks_as_many_nodes_as_the_beam(beam):
    tokens = new_tokens()
    ranking = search_network(TWO_AND_ONE[0], TREE, tokens, None, beam)
    assert ranking.ids.shape == (len(tokens), min(beam, 4))
    expected = [
        dict(sorted(scores.items(), key=lambda pair: -pair[1])[:beam]) for scores in inner_beam_search(tokens, beam)
    ]
    assert_finds(ranking, expected)


def inner_beam_search(tokens: TokenArray, beam: int) -> list[dict[int, float]]:
    """Give the nodes of the middle level that a search meets."""
    coarse, fine = (node_probabilities(TWO_AND_ONE, tokens, level) for level in (0, 1))
    best = np.argsort(-coarse, axis=1)[:, :beam].tolist()
    return [
        {node: fine[row, node] * coarse[row, parent] for node, parent in enumerate(TREE.parents[0]) if parent in kept}
        for row, kept in enumerate(best)
    ]


def some_absent() -> Ranking:
    parents = np.array([[1, ABSENT], [ABSENT, ABSENT], [0, 1]], np.int32)
    return Ranking(parents, np.array([[0.5, 0], [0, 0], [0.5, 0.25]], np.float32), None, 2)


def test_absent_parents_have_no_children():
    tokens = new_tokens(3)
    ranking = search_network(SEPARATE[1], TREE, tokens, some_absent(), 4)
    assert [sorted(node for node, _ in pairs) for pairs in ranking] == [[2, 3], [], [0, 1, 2, 3]]
    expected = node_probabilities(SEPARATE, tokens, 1)[0] * [0, 0, 0.5, 0.5]
    np.testing.assert_allclose(ranking.to_csr().toarray()[0], expected, rtol=1e-5)


def test_absent_parents_have_no_children_further_down():
    ranking = search_network(new_network(range(1, 3), seed=6), TREE, new_tokens(3), some_absent(), 11)
    below = [label for label in range(11) if ANCESTORS[0][label] == 1]
    assert [sorted(label for label, _ in pairs) for pairs in ranking] == [below, [], list(range(11))]


@pytest.mark.parametrize("networks", [SHARED, SEPARATE], ids=["shared", "separate"])
@pytest.mark.parametrize(("name", "value"), [("MAX_ELEMENTS", 1), ("MAX_ELEMENTS", 200), ("MAX_TOKENS", 20)])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_small_batches_in_threads_give_the_same_ranking(monkeypatch, networks, name, value, n_threads):
    tokens = new_tokens(30)
    expected = search_network(networks[0], TREE, tokens, None, 2)
    monkeypatch.setattr(tree_search, name, value)
    torch.set_num_threads(n_threads)
    ranking = search_network(networks[0], TREE, tokens, None, 2)
    assert torch.get_num_threads() == n_threads
    assert ranking.ids.tolist() == expected.ids.tolist()
    np.testing.assert_allclose(ranking.scores, expected.scores, atol=1e-6)


def test_batches_are_searched_side_by_side(monkeypatch):
    met, run = threading.Barrier(2, timeout=60), BatchSearch.run

    def wait_and_run(*arguments: Any) -> BatchSearch:
        assert torch.get_num_threads() == 1
        met.wait()
        return run(*arguments)

    monkeypatch.setattr(tree_search, "MAX_BATCH", 5)
    monkeypatch.setattr(BatchSearch, "run", wait_and_run)
    torch.set_num_threads(2)
    assert len(search_network(SHARED[0], TREE, new_tokens(20), None, 2)) == 20


def test_a_failure_in_a_thread_is_the_failure_of_the_search(monkeypatch):
    def fail(*arguments: Any) -> BatchSearch:
        raise MemoryError

    monkeypatch.setattr(tree_search, "MAX_BATCH", 1)
    monkeypatch.setattr(BatchSearch, "run", fail)
    torch.set_num_threads(2)
    with pytest.raises(MemoryError):
        search_network(SHARED[0], TREE, new_tokens(), None, 2)


def test_blocks_come_in_order_with_their_rows():
    torch.set_num_threads(2)
    blocks = [np.arange(start, start + 3) for start in range(0, 30, 3)]
    results = list(map_in_threads(lambda rows: rows.sum(), blocks, 2, CPU))
    assert [rows.tolist() for rows, _ in results] == [rows.tolist() for rows in blocks]
    assert [total for _, total in results] == [rows.sum() for rows in blocks]


def test_no_documents():
    assert search_network(SHARED[0], TREE, TokenArray.from_lists([]), None, 5).ids.shape == (0, 5)


@pytest.mark.parametrize("training", [True, False])
def test_a_search_is_without_dropout_and_leaves_the_mode_of_the_network(training):
    network = new_network(range(3), 0).train(training)
    first, again = (search_network(network, TREE, new_tokens(), None, 5) for _ in range(2))
    assert first.scores.tolist() == again.scores.tolist()
    assert network.training == training


def test_progress_counts_every_document(monkeypatch):
    monkeypatch.setattr(tree_search, "MAX_BATCH", 2)
    done: list[int] = []
    search_network(SHARED[0], TREE, new_tokens(), None, 2, advance=done.append)
    assert done == [2, 2, 2, 2, 1]


@every_sharing
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("n_documents", [1, 9])
def test_logits_of_a_path_are_those_of_the_networks_met_or_not(networks, beam, n_documents):
    tokens = new_tokens(n_documents)
    labels = np.random.default_rng(0).permuted(np.tile(np.arange(-1, 11, dtype=np.int32), (n_documents, 1)), axis=1)
    above = None
    for network in networks:
        search = BatchSearch.run(network, TREE, pad_batch(tokens, np.arange(n_documents)), above, beam)
        above = search.levels[-1].best(beam, 11)
        for level in network.levels:
            logits = search.path_logits(level, labels)
            probabilities = node_probabilities(networks, tokens, level)
            expected = np.take_along_axis(probabilities, ANCESTORS[level][labels], axis=1)
            present = labels != ABSENT
            np.testing.assert_allclose(1 / (1 + np.exp(-logits[present])), expected[present], rtol=1e-4)


def test_only_nodes_that_the_search_did_not_meet_are_scored_again(monkeypatch):
    tokens, scored, score = new_tokens(2), [], BatchSearch.score
    search = BatchSearch.run(SHARED[0], TREE, pad_batch(tokens, np.arange(2)), None, 1)

    def spy(self: BatchSearch, level: int, nodes: np.ndarray) -> np.ndarray:
        scored.append(nodes)
        return score(self, level, nodes)

    monkeypatch.setattr(BatchSearch, "score", spy)
    met = search.levels[2].nodes
    search.path_logits(2, met)
    assert scored == []
    every = np.tile(np.arange(11, dtype=np.int32), (2, 1))
    search.path_logits(2, np.concatenate([every, every], axis=1))
    for row in range(2):
        again = sorted(set(scored[0][row].tolist()) - {ABSENT})
        assert again == sorted(set(range(11)) - set(met[row].tolist()))
        assert (scored[0][row] != ABSENT).sum() == len(again)


def test_a_batch_is_bounded_by_its_largest_array():
    assert documents_per_batch(1, 1) == tree_search.MAX_BATCH
    assert documents_per_batch(1000, 500) == tree_search.MAX_ELEMENTS // 500_000
    assert documents_per_batch(10**6, 10**6) == 1
    # With a beam of 2 of 4 groups, at most 6 of the 11 labels are scored; the widest layer is the state.
    state_size = SHARED[0].encoder.state_size
    assert batch_limit(SHARED[0], TREE, 2) == documents_per_batch(6, state_size)


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=300), st.integers(1, 4), st.integers(60, 2000)
)  # fmt: skip
def test_every_thread_gets_a_batch_and_none_is_larger_than_allowed(lengths, n_threads, most_tokens):
    given_lengths = np.array(lengths)
    share = balance_tokens(given_lengths, n_threads, most_tokens)
    assert share <= most_tokens
    batches = list(length_sorted_batches(given_lengths, len(lengths), share))
    if len(lengths) >= n_threads * tree_search.MIN_DOCUMENTS_OF_BATCH:
        assert len(batches) >= n_threads


@pytest.mark.parametrize(("n_documents", "n_batches"), [(1000, 14), (200, 4), (40, 2), (20, 1)])
def test_documents_of_one_length_make_equally_large_batches_for_two_threads(n_documents, n_batches):
    lengths = np.full(n_documents, 200)
    batches = list(length_sorted_batches(lengths, n_documents, balance_tokens(lengths, 2, 16_384)))
    assert len(batches) == n_batches
    assert max(map(len, batches)) - min(map(len, batches)) <= n_batches
