from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree, ancestors_of, children_of, marked_in_rows, values_in_rows, with_coarser_levels
from haxmlnet.tree.walk import parents_at

TREE = LabelTree((np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 1, 2, 3, 3, 2, 0], np.int32)), 8)


def test_ancestors_are_parents_of_parents():
    labels = np.array([[0, 7, ABSENT], [4, 2, 3]], np.int32)
    assert ancestors_of(TREE, labels, 2).tolist() == labels.tolist()
    assert ancestors_of(TREE, labels, 1).tolist() == [[0, 0, ABSENT], [3, 1, 2]]
    assert ancestors_of(TREE, labels, 0).tolist() == [[0, 0, ABSENT], [1, 0, 1]]


def test_the_first_level_has_no_parents():
    assert parents_at(TREE, 0) is None
    np.testing.assert_array_equal(parents_at(TREE, 2), TREE.parents[1])


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


@given(st.data())
def test_marks_say_what_a_set_says(data):
    n_rows = data.draw(st.integers(0, 4))
    numbers = st.integers(ABSENT, 6)
    nodes = data.draw(hnp.arrays(np.int32, (n_rows, 5), elements=numbers))
    wanted = data.draw(hnp.arrays(np.int32, (n_rows, 3), elements=numbers))
    expected = [
        [node != ABSENT and node in row_wanted for node in row]
        for row, row_wanted in zip(nodes.tolist(), wanted.tolist(), strict=True)
    ]
    assert marked_in_rows(nodes, wanted).tolist() == expected


def test_coarser_levels_keep_the_groups_and_their_numbers():
    groups = np.arange(64, dtype=np.int32) // 4
    tree = with_coarser_levels(LabelTree((groups,), 64), 4, 4)
    assert tree.level_sizes == [4, 16, 64]
    np.testing.assert_array_equal(tree.parents[-1], groups)
    np.testing.assert_array_equal(tree.parents[0], np.arange(16) // 4)
    tree.check()


def test_a_small_or_flat_tree_stays_as_it_is():
    assert with_coarser_levels(TREE, 2, 4).level_sizes == TREE.level_sizes
    assert with_coarser_levels(LabelTree((), 100), 4, 4).level_sizes == [100]


@pytest.mark.parametrize("seed", range(5))
def test_values_are_found_by_node(seed):
    rng = np.random.default_rng(seed)
    nodes = np.array([rng.permutation(20)[:7] for _ in range(4)], np.int32)
    nodes[0, 3] = ABSENT
    values = rng.random(nodes.shape).astype(np.float32)
    wanted = rng.integers(-1, 20, (4, 9)).astype(np.int32)
    by_node = [dict(zip(ids, row, strict=True)) for ids, row in zip(nodes.tolist(), values.tolist(), strict=True)]
    expected = [
        [0 if node == ABSENT else by_node[row].get(node, 0) for node in asked]
        for row, asked in enumerate(wanted.tolist())
    ]
    np.testing.assert_allclose(values_in_rows(nodes, values, wanted), expected)
