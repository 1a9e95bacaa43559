from __future__ import annotations

import math
from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings

from haxmlnet.data.tokens import TokenArray
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT, Ranking
from haxmlnet.training.candidates import Candidates, CandidateSource
from haxmlnet.training.loss import TrainingData, batch_loss, document_losses, find_best_wrong
from haxmlnet.tree import LabelTree

N_DOCUMENTS = 12
GROUPS = np.array([3, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2], np.int32)
TREE = LabelTree((np.array([0, 0, 1, 1], np.int32), GROUPS), n_labels=11)
ROWS = np.arange(N_DOCUMENTS)


def new_network(levels: range, dropout: float = 0.0) -> LabelAttentionNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        encoder = BiLSTMEncoder(torch.randn(12, 4), 3, dropout, dropout, attend_words=True, sparse_words=True)
        heads = [
            LabelHead(encoder.state_size, TREE.level_sizes[level], (5,), own_outputs=True, sparse_nodes=level > 0)
            for level in levels
        ]
        for head in heads:
            head.outputs.weight.data.normal_()
    return LabelAttentionNetwork(encoder, heads, levels[0])


def new_data(levels: range, hard_negatives: int = 1, limit: int = 1000) -> TrainingData:
    """Documents of one to five random words; the last of them has no label."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(2, 12, rng.integers(1, 6)).astype(np.int32) for _ in ROWS]
    labels = sp.random_array((N_DOCUMENTS, 11), density=0.15, rng=rng, format="lil")
    labels[:-1, 0], labels[-1] = 1, 0
    targets = TREE.lift(sp.csr_array(sp.csr_array(labels) > 0, dtype=np.float32))
    sources = [
        CandidateSource(targets[level], targets[level - 1], TREE, level, limit) if level else None for level in levels
    ]
    predicted = None
    if levels[0] > 0:
        n_parents = TREE.level_sizes[levels[0] - 1]
        ids = np.array([rng.permutation(n_parents) for _ in ROWS], np.int32)
        ids[3:5, 1:] = ABSENT
        predicted = Ranking(ids, np.ones(ids.shape, np.float32), None, n_parents)
    own = [targets[level] for level in levels]
    return TrainingData(TokenArray.from_lists(documents), own, sources, predicted, hard_negatives)


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


@torch.no_grad()
def expected_loss(network: LabelAttentionNetwork, data: TrainingData, row: int) -> float:
    """One document: on each level the children of the true nodes and of the best wrong ones above, from all logits."""
    tokens, lengths = map(torch.from_numpy, data.tokens.pad(np.array([row])))
    states = network.encode(tokens, lengths)
    above: Sequence[int] = [] if data.predicted is None else data.predicted.ids[row, : data.hard_negatives].tolist()
    total = 0.0
    for index, level in enumerate(network.levels):
        logits = network.head(level)(states, lengths)[0].tolist()
        true = set(data.targets[index][[row]].indices.tolist())
        nodes = range(len(logits))
        if level > 0:
            parents = TREE.parents[level - 1]
            nodes = [node for node in nodes if parents[node] in {*above, *(parents[node] for node in true)}]
        losses = [softplus(-logits[node]) if node in true else softplus(logits[node]) for node in nodes]
        total += sum(losses) / max(len(losses), 1)
        wrong = sorted((node for node in nodes if node not in true), key=lambda node: -logits[node])
        above = wrong[: data.hard_negatives]
    return total


@pytest.mark.parametrize("hard_negatives", [0, 1, 3])
@pytest.mark.parametrize("levels", [range(1), range(2), range(3), range(1, 2), range(1, 3), range(2, 3)], ids=str)
def test_the_loss_is_that_of_every_level_and_document(levels, hard_negatives):
    network, data = new_network(levels), new_data(levels, hard_negatives)
    for rows in (ROWS, np.array([11]), np.array([5, 0, 5])):
        expected = sum(expected_loss(network, data, row) for row in rows.tolist())
        assert batch_loss(network, data, rows, 0).item() == pytest.approx(expected, rel=1e-5)


def test_the_best_wrong_nodes_of_this_very_step_give_the_candidates():
    network, data = new_network(range(1, 3)), new_data(range(1, 3), hard_negatives=1)
    true = set(data.targets[0][[0]].indices.tolist())
    assert 3 in true
    data.predicted.ids[0] = [0, 1]  # with the true node above, which is 1, all groups are candidates
    wrong = {0, 1, 2, 3} - true
    assert len(wrong) > 1
    for favourite in wrong:
        with torch.no_grad():
            network.head(1).outputs.weight[:, -1] = 0
            network.head(1).outputs.weight[favourite, -1] = 100
        network.zero_grad()
        batch_loss(network, data, np.array([0]), 0).backward()
        touched = network.head(2).queries.weight.grad.coalesce().indices()[0].numpy()
        assert set(GROUPS[touched].tolist()) == true | {favourite}


def test_every_weight_of_a_shared_network_learns():
    network, data = new_network(range(3)), new_data(range(3))
    batch_loss(network, data, ROWS, 0).backward()
    for name, weight in network.named_parameters():
        assert weight.grad.to_dense().any(), name


def test_all_that_is_random_follows_from_the_seed():
    network, data = new_network(range(3), dropout=0.5), new_data(range(3), hard_negatives=2, limit=3)
    before = torch.get_rng_state()
    losses = [batch_loss(network, data, ROWS, seed).item() for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_chooses_among_too_many_candidates():
    network, data = new_network(range(2, 3)), new_data(range(2, 3), hard_negatives=4, limit=4)
    assert len({batch_loss(network, data, ROWS, seed).item() for seed in (1, 1, 2)}) == 2


def test_no_documents_lose_nothing():
    assert batch_loss(new_network(range(3)), new_data(range(3)), np.zeros(0, np.int64), 0).item() == 0


def test_document_losses_by_hand():
    logits = torch.tensor([[0.0, math.log(3), 7.0], [math.log(3), 7.0, 7.0], [7.0, 7.0, 7.0]])
    targets = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    present = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    # Sigmoids 1/2 and 3/4, both right; 3/4 where 0 is right; and a document without candidates.
    expected = [(math.log(2) + math.log(4 / 3)) / 2, math.log(4), 0]
    assert document_losses(logits, targets, present).tolist() == pytest.approx(expected)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 9), st.integers(0, 12))
def test_best_wrong_equals_a_brute_force(seed, n_documents, n_candidates, n_wrong):
    rng = np.random.default_rng(seed)
    shape = (n_documents, n_candidates)
    ids = np.array([rng.permutation(30)[:n_candidates] for _ in range(n_documents)])
    ids[rng.random(shape) < rng.choice([0, 0.3, 1])] = ABSENT
    targets = ((rng.random(shape) < 0.4) & (ids != ABSENT)).astype(np.float32)
    logits = rng.normal(size=shape).astype(np.float32)
    batch = Candidates(ids, targets)
    present = torch.from_numpy(ids != ABSENT)
    wrong = find_best_wrong(torch.from_numpy(logits), batch, torch.from_numpy(targets), present, n_wrong)
    assert wrong.shape == (n_documents, min(n_wrong, n_candidates))
    assert wrong.dtype == np.int32
    for row in range(n_documents):
        places = [place for place in range(n_candidates) if ids[row, place] != ABSENT and not targets[row, place]]
        expected = [int(ids[row, place]) for place in sorted(places, key=lambda place: -logits[row, place])[:n_wrong]]
        assert sorted(node for node in wrong[row].tolist() if node != ABSENT) == sorted(expected)


def test_best_wrong_of_all_nodes():
    data = new_data(range(1))
    batch = data.candidates(0, ROWS, np.zeros((N_DOCUMENTS, 0), np.int32), np.random.default_rng(0))
    logits, targets = torch.zeros(N_DOCUMENTS, 2), torch.from_numpy(batch.targets)
    wrong = find_best_wrong(logits, batch, targets, torch.ones_like(targets, dtype=torch.bool), 5)
    for row in ROWS.tolist():
        assert set(wrong[row].tolist()) - {ABSENT} == {0, 1} - set(data.targets[0][[row]].indices.tolist())


def test_all_nodes_are_candidates_where_there_is_no_source():
    data = new_data(range(2))
    nothing = np.zeros((2, 0), np.int32)
    batch = data.candidates(0, np.array([3, 0]), nothing, np.random.default_rng(0))
    assert batch.ids.tolist() == [[0, 1]] * 2
    assert batch.targets.tolist() == data.targets[0].toarray()[[3, 0]].tolist()


def test_the_predictions_above_are_the_best_few():
    data = new_data(range(2, 3), hard_negatives=2)
    assert data.predicted_above(np.array([7, 1])).tolist() == data.predicted.ids[[7, 1], :2].tolist()
    assert new_data(range(3)).predicted_above(ROWS).shape == (N_DOCUMENTS, 0)


def test_the_positive_rate_of_all_nodes_is_that_of_the_targets():
    data = new_data(range(3))
    assert data.positive_rate(0, ROWS) == pytest.approx(data.targets[0].toarray().mean())


@pytest.mark.parametrize(("levels", "index"), [(range(3), 2), (range(2, 3), 0)], ids=["shared", "separate"])
def test_the_positive_rate_counts_the_candidates(levels, index):
    few, many = (new_data(levels, hard_negatives).positive_rate(index, ROWS) for hard_negatives in (0, 2))
    targets = new_data(levels).targets[index].toarray()
    sizes = np.bincount(GROUPS)
    n_few = sum(sizes[np.unique(GROUPS[np.flatnonzero(row)])].sum() for row in targets)
    assert few == pytest.approx(targets.sum() / n_few)
    assert targets.mean() < many < few


def test_the_positive_rate_of_documents_without_candidates_is_zero():
    assert new_data(range(3), hard_negatives=0).positive_rate(2, np.array([11])) == 0
