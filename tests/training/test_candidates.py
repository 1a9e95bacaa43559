from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from haxmlnet.data.shapes import round_count
from haxmlnet.ranking import ABSENT
from haxmlnet.training.candidates import Candidates, CandidateSource
from haxmlnet.tree import LabelTree


@dataclass
class Case:
    """A random tree of three levels, documents with random labels (some with none), random predicted parents.

    Some of those are true, some absent.
    """

    tree: LabelTree
    targets: list[sp.csr_array]
    predicted: np.ndarray
    level: int

    def source(self, limit: int) -> CandidateSource:
        return CandidateSource(self.targets[self.level], self.targets[self.level - 1], self.tree, self.level, limit)

    def candidates(self, rows: np.ndarray, limit: int, seed: int) -> Candidates:
        return self.source(limit).of(rows, self.predicted[rows], np.random.default_rng(seed))

    def true_nodes(self, row: int) -> set[int]:
        return set(self.targets[self.level][[row]].indices.tolist())

    def expected(self, row: int) -> set[int]:
        """All children of the true parents and of the predicted ones."""
        parents = set(self.targets[self.level - 1][[row]].indices.tolist())
        parents |= set(self.predicted[row].tolist()) - {ABSENT}
        return {node for node, parent in enumerate(self.tree.parents[self.level - 1]) if parent in parents}


def new_case(seed: int, level: int, n_predicted: int = 2, n_documents: int = 6) -> Case:
    rng = np.random.default_rng(seed)
    n_labels = int(rng.integers(8, 40))
    groups = rng.permutation(np.arange(n_labels) % 8).astype(np.int32)
    tree = LabelTree((np.arange(8, dtype=np.int32) // 2, groups), n_labels)
    Y = sp.random_array((n_documents, n_labels), density=rng.choice([0.05, 0.3]), rng=rng, format="csr")
    Y.data[:] = 1
    n_parents = tree.level_sizes[level - 1]
    predicted = np.array([rng.permutation(n_parents)[:n_predicted] for _ in range(n_documents)], np.int32)
    predicted[rng.random(predicted.shape) < 0.2] = ABSENT
    return Case(tree, tree.lift(sp.csr_array(Y.astype(np.float32))), predicted, level)


cases = st.builds(new_case, st.integers(0, 2**32), st.sampled_from([1, 2]), st.sampled_from([0, 1, 3]))


def present(candidates: Candidates, row: int) -> list[int]:
    ids = candidates.ids[row]
    n = int((ids != ABSENT).sum())
    assert (ids[n:] == ABSENT).all()
    assert not candidates.targets[row, n:].any()
    return ids[:n].tolist()


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(0, 99))
def test_without_a_cap_candidates_are_all_children_of_true_and_predicted_parents(case, seed):
    rows = np.random.default_rng(seed).integers(0, 6, 4)
    candidates = case.candidates(rows, 1000, seed)
    for i, row in enumerate(rows.tolist()):
        ids = present(candidates, i)
        assert len(ids) == len(set(ids))
        assert set(ids) == case.expected(row)
        right = [node in case.true_nodes(row) for node in ids]
        assert candidates.targets[i, : len(ids)].tolist() == right
    assert candidates.ids.shape[1] == round_count(max(1, *(len(case.expected(row)) for row in rows.tolist())))


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(1, 12), st.integers(0, 99))
def test_a_cap_keeps_all_true_nodes_and_some_of_the_others(case, limit, seed):
    rows = np.arange(6)
    candidates = case.candidates(rows, limit, seed)
    for row in rows.tolist():
        ids, true, every = present(candidates, row), case.true_nodes(row), case.expected(row)
        assert len(ids) == len(set(ids)) == max(min(limit, len(every)), len(true))
        assert true <= set(ids) <= every
        assert candidates.targets[row].sum() == len(true)
        assert [node in true for node in ids] == candidates.targets[row, : len(ids)].tolist()


def test_without_predictions_candidates_are_those_of_the_paper():
    tree = LabelTree((np.array([0, 0, 1, 1, 2], np.int32),), 5)
    targets = tree.lift(sp.csr_array(np.array([[0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 1]], np.float32)))
    source = CandidateSource(targets[1], targets[0], tree, 1, 100)
    candidates = source.of(np.array([0, 1, 2]), np.zeros((3, 0), np.int32), np.random.default_rng(0))
    assert candidates.ids.tolist() == [[1, 0, -1], [-1, -1, -1], [0, 4, 1]]
    assert candidates.targets.tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 0]]


def test_true_and_absent_parents_among_the_wrong_ones_add_nothing():
    tree = LabelTree((np.array([0, 0, 1, 1, 2], np.int32),), 5)
    targets = tree.lift(sp.csr_array(np.array([[0, 1, 0, 0, 0], [0, 0, 0, 0, 1]], np.float32)))
    source = CandidateSource(targets[1], targets[0], tree, 1, 100)
    wrong = np.array([[ABSENT, 0, 2], [ABSENT, ABSENT, ABSENT]], np.int32)
    candidates = source.of(np.array([0, 1]), wrong, np.random.default_rng(0))
    assert candidates.ids.tolist() == [[1, 0, 4], [4, -1, -1]]
    assert candidates.targets.tolist() == [[1, 0, 0], [1, 0, 0]]


def test_documents_without_labels_and_predictions_alone():
    case = new_case(0, 2, n_predicted=0)
    case.targets = case.tree.lift(sp.csr_array((6, case.tree.n_labels), dtype=np.float32))
    candidates = case.candidates(np.arange(6), 10, 0)
    assert candidates.ids.shape == (6, 1)
    assert (candidates.ids == ABSENT).all()


def capped(seed: int) -> list[list[int]]:
    tree = LabelTree((np.repeat(np.arange(4, dtype=np.int32), 50),), 200)
    targets = tree.lift(sp.csr_array(np.eye(200, dtype=np.float32)))
    source = CandidateSource(targets[1], targets[0], tree, 1, 20)
    return source.of(np.arange(10), np.full((10, 1), 3, np.int32), np.random.default_rng(seed)).ids.tolist()


def test_the_choice_follows_the_seed():
    assert capped(1) == capped(1)
    assert capped(1) != capped(2)


def test_every_other_node_is_equally_likely():
    # Of 100 candidates of document 0 (groups 0 and 3) one is true and 19 of the other 99 are kept.
    counts = np.bincount(np.array([capped(seed)[0][1:] for seed in range(300)]).ravel(), minlength=200)
    expected = 300 * 19 / 99
    others = np.r_[counts[1:50], counts[150:200]]
    assert counts.sum() == others.sum()
    assert abs(others - expected).max() < 5 * (expected * (1 - 19 / 99)) ** 0.5


@pytest.mark.parametrize("level", [1, 2])
def test_no_documents(level):
    candidates = new_case(0, level).candidates(np.zeros(0, np.int64), 10, 0)
    assert len(candidates.ids) == len(candidates.targets) == 0
