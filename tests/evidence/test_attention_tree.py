from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from toy_networks import (
    ANCESTORS,
    NETWORKS,
    TREE,
    assert_finds,
    beam_search,
    documents_of,
    examine,
    exhaustive,
    new_network,
    new_tokens,
    node_probabilities,
    plain_twin,
)

from haxmlnet.data.tokens import TokenArray
from haxmlnet.evidence import attention_tree, tree_search
from haxmlnet.evidence.attention_training import training_name
from haxmlnet.evidence.attention_tree import MAX_LOGIT, MIN_SCORE, AttentionTree
from haxmlnet.evidence.protocol import Documents
from haxmlnet.network.attention import attention_weights
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree

SEPARATE, SHARED, _ = NETWORKS.values()
every_sharing = pytest.mark.parametrize("networks", NETWORKS.values(), ids=NETWORKS)


def tree_of(networks: list[LabelAttentionNetwork], **changes: Any) -> AttentionTree:
    return AttentionTree(
        **{"tree": TREE, "networks": networks, "max_length": 500, "beam": 2, "n_proposals": 5} | changes
    )


@every_sharing
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_the_search_finds_what_a_brute_force_finds(networks, beam):
    tokens = new_tokens()
    ranking = examine(networks, tokens, beam).ranking_of_search(11)
    assert_finds(ranking, beam_search(networks, tokens, beam))


@every_sharing
@pytest.mark.parametrize("n_proposals", [1, 3, 11, 20])
def test_the_best_labels_of_the_search_are_proposed(networks, n_proposals):
    tokens = new_tokens()
    proposals = examine(networks, tokens, 2, n_proposals).proposals
    assert proposals.shape == (len(tokens), min(n_proposals, 11))
    for row, scores in enumerate(beam_search(networks, tokens, 2)):
        best = sorted(scores, key=lambda label: -scores[label])[:n_proposals]
        assert [label for label in proposals[row].tolist() if label != ABSENT] == best


@every_sharing
def test_a_ranking_of_all_labels_that_the_beam_meets_is_the_exhaustive_product(networks):
    tokens = new_tokens()
    ranking = examine(networks, tokens, beam=4).ranking(11)
    np.testing.assert_allclose(ranking.to_csr().toarray(), exhaustive(networks, tokens), rtol=1e-5, atol=1e-7)
    assert (np.diff(ranking.scores, axis=1) <= 0).all()


@every_sharing
@pytest.mark.parametrize("beam", [1, 2, 3])
def test_neither_order_nor_scores_of_the_first_labels_depend_on_k(networks, beam):
    findings = examine(networks, new_tokens(), beam)
    every = findings.ranking(11)
    assert [sorted(ids) for ids in every.ids.tolist()] == [list(range(11))] * 9
    assert (np.diff(every.scores, axis=1) <= 0).all()
    for k in range(1, 11):
        ranking = findings.ranking(k)
        np.testing.assert_array_equal(ranking.ids, every.ids[:, :k])
        np.testing.assert_array_equal(ranking.scores, every.scores[:, :k])


@every_sharing
def test_labels_that_only_a_wider_beam_meets_follow_below(networks):
    tokens = new_tokens()
    ranking = examine(networks, tokens, 1).ranking(11)
    for row, scores in enumerate(beam_search(networks, tokens, 1)):
        first = ranking.ids[row, : len(scores)].tolist()
        assert first == sorted(scores, key=lambda label: -scores[label])
        exact = exhaustive(networks, tokens)[row, ranking.ids[row]]
        np.testing.assert_allclose(ranking.scores[row], np.minimum.accumulate(exact), rtol=1e-4)


@every_sharing
@pytest.mark.parametrize("beam", [1, 4])
def test_features_are_the_log_score_and_the_logits_of_a_path_met_or_not(networks, beam):
    tokens = new_tokens()
    candidates = np.random.default_rng(0).permuted(np.tile(np.arange(11, dtype=np.int32), (9, 1)), axis=1)[:, :7]
    candidates[3, 2:4] = ABSENT
    findings = examine(networks, tokens, beam)
    features = findings.features(candidates)
    assert features.shape == (9, 7, len(findings.evidence.feature_names))
    present = candidates != ABSENT
    exact = np.take_along_axis(exhaustive(networks, tokens), candidates, axis=1)
    np.testing.assert_allclose(features[..., 0][present], np.log(np.maximum(exact, MIN_SCORE))[present], rtol=1e-4)
    for level, nodes in enumerate(ANCESTORS):
        said = np.take_along_axis(node_probabilities(networks, tokens, level), nodes[candidates], axis=1)
        logits = np.clip(np.log(said / (1 - said)), -MAX_LOGIT, MAX_LOGIT)
        np.testing.assert_allclose(features[..., 1 + level][present], logits[present], rtol=1e-3, atol=1e-4)
    again = findings.features(candidates[:, ::-1])[:, ::-1]
    np.testing.assert_allclose(again[present], features[present], atol=1e-5)


def test_logits_far_from_zero_and_tiny_scores_are_cut_off():
    network = new_network(range(3), seed=3)
    with torch.no_grad():
        for level in range(3):
            network.head(level).outputs.weight *= 1e4
    findings = tree_of([network]).examine(documents_of(new_tokens()))
    features = findings.features(np.tile(np.arange(11, dtype=np.int32), (9, 1)))
    assert np.abs(features[..., 1:]).max() == MAX_LOGIT
    assert features[..., 0].min() == np.float32(np.log(np.float32(MIN_SCORE)))


@every_sharing
def test_no_documents(networks):
    findings = examine(networks, TokenArray.from_lists([]), 2, n_proposals=5)
    assert findings.proposals.shape == (0, 5)
    assert findings.ranking(7).ids.shape == (0, 7)
    assert findings.features(np.zeros((0, 3), np.int32)).shape == (0, 3, 4)


def test_a_document_without_words_is_ranked():
    findings = examine(SHARED, TokenArray.from_lists([np.zeros(0, np.int32), np.array([2, 3], np.int32)]), 2)
    assert (findings.ranking(11).ids != ABSENT).all()


def test_networks_see_the_first_words_alone():
    long = TokenArray.from_lists([np.arange(1, 12, dtype=np.int32)])
    short = TokenArray.from_lists([np.arange(1, 4, dtype=np.int32)])
    scores = [
        tree_of(SHARED, max_length=3).examine(documents_of(tokens)).ranking(11).scores for tokens in (long, short)
    ]
    np.testing.assert_array_equal(*scores)
    assert not np.allclose(tree_of(SHARED).examine(documents_of(long)).ranking(11).scores, scores[0])


def everything_of(tree: AttentionTree, documents: Documents, n_threads: int) -> tuple[np.ndarray, ...]:
    """Give proposals, ranking and features of all documents, found block by block."""

    def work(block: Documents) -> tuple[np.ndarray, ...]:
        findings = tree.examine(block)
        candidates = np.tile(np.arange(11, dtype=np.int32), (len(block), 1))
        ranking = findings.ranking(11)
        return findings.proposals, ranking.ids, ranking.scores, findings.features(candidates)

    blocks = list(tree.map_blocks(work, documents, n_threads))
    rows = np.concatenate([rows for rows, _ in blocks])
    assert sorted(rows.tolist()) == list(range(len(documents)))
    order = np.argsort(rows)
    return tuple(np.concatenate(parts)[order] for parts in zip(*(found for _, found in blocks), strict=True))


@every_sharing
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (tree_search, "MAX_ELEMENTS", 1), (tree_search, "MAX_ELEMENTS", 200), (attention_tree, "MAX_TOKENS", 20),
        (attention_tree, "MAX_BLOCK", 4), (attention_tree, "MAX_BLOCK", 1),
    ],
)  # fmt: skip
def test_blocks_batches_and_threads_change_nothing(monkeypatch, networks, n_threads, module, name, value):
    tree, documents = tree_of(networks), documents_of(new_tokens(30))
    whole = everything_of(tree, documents, 1)
    monkeypatch.setattr(module, name, value)
    torch.set_num_threads(n_threads)
    parts = everything_of(tree, documents, n_threads)
    assert torch.get_num_threads() == n_threads
    for expected, found in zip(whole, parts, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_blocks_are_examined_side_by_side(monkeypatch):
    met = threading.Barrier(2, timeout=60)

    def work(block: Documents) -> int:
        assert torch.get_num_threads() == 1
        met.wait()
        return len(block)

    monkeypatch.setattr(attention_tree, "MAX_BLOCK", 5)
    torch.set_num_threads(2)
    found = list(tree_of(SHARED).map_blocks(work, documents_of(new_tokens(20)), 2))
    assert [n for _, n in found] == [5, 5, 5, 5]


def test_a_failure_in_a_thread_is_the_failure_of_all(monkeypatch):
    def fail(block: Documents) -> None:
        raise MemoryError

    monkeypatch.setattr(attention_tree, "MAX_BLOCK", 1)
    torch.set_num_threads(2)
    with pytest.raises(MemoryError):
        list(tree_of(SHARED).map_blocks(fail, documents_of(new_tokens()), 2))


@pytest.mark.parametrize(("n_documents", "n_threads"), [(1, 2), (2, 1)])
def test_jobs_of_one_document_run_side_by_side_and_others_one_after_the_other(n_documents, n_threads):
    met = threading.Barrier(n_threads, timeout=60)
    jobs: list[Callable[[], int]] = [lambda: met.wait() * 0 + threading.get_ident()] * 2
    torch.set_num_threads(2)
    found = tree_of(SHARED).run_jobs(jobs, documents_of(new_tokens(n_documents)))
    assert len(set(found)) == n_threads


@every_sharing
def test_the_reasons_are_the_path_and_the_attention_to_each_token(networks):
    tokens = new_tokens(30)
    findings = examine(networks, tokens, beam=1)
    last = plain_twin(networks[-1])
    for row, label in [(0, 3), (17, 10), (29, 0)]:
        reasons = findings.reasons(row, label)
        assert [node for node, _ in reasons.path] == [nodes[label] for nodes in ANCESTORS]
        for level, (node, probability) in enumerate(reasons.path):
            expected = node_probabilities(networks, tokens.take(np.array([row])), level)[0, node]
            assert probability == pytest.approx(expected, rel=1e-4)
        score = np.exp(findings.features(np.full((30, 1), label, np.int32))[row, 0, 0])
        assert np.prod([probability for _, probability in reasons.path]) == pytest.approx(score, rel=1e-4)

        words, length = tree_search.pad_batch(tokens, np.array([row]))
        with torch.no_grad():
            queries = last.head(2).queries.weight[[label]]
            weights = attention_weights(queries, last.encode(words, length), length)[0, 0].numpy()
        assert reasons.tokens.shape == (tokens.lengths[row],)
        assert reasons.tokens.sum() == pytest.approx(1)
        np.testing.assert_allclose(reasons.tokens, weights[: tokens.lengths[row]], rtol=1e-4)


def test_examining_changes_nothing_in_the_tree():
    network = new_network(range(3), seed=8)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    findings = tree_of([network]).examine(documents_of(new_tokens()))
    findings.ranking(11), findings.features(findings.proposals), findings.reasons(0, 0)
    assert not network.training
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    ("sizes", "levels", "name"),
    [
        ([24], range(1), "tree 1"),
        ([2, 8, 24], range(3), "tree 1"),
        ([2, 8, 24], range(1), "tree 1 level 0"),
        ([2, 8, 24], range(2, 3), "tree 1 level 2"),
    ],
)
def test_the_trainings_of_a_tree_have_names(sizes, levels, name):
    parents = tuple(np.arange(below, dtype=np.int32) % size for size, below in pairwise(sizes))
    assert training_name(1, levels, LabelTree(parents, 24)) == name
