from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.errors import ModelError
from haxmlnet.tree import LabelTree


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


@pytest.fixture
def tree() -> LabelTree:
    """2 nodes, 4 groups, 7 labels."""
    return LabelTree((array(0, 0, 1, 1), array(3, 0, 1, 2, 0, 1, 2)), 7)


FLAT = LabelTree((), 3)


def test_sizes(tree):
    assert (tree.n_levels, tree.level_sizes) == (3, [2, 4, 7])
    assert (FLAT.n_levels, FLAT.level_sizes) == (1, [3])


def test_children(tree):
    indptr, ids = tree.children(1)
    assert (indptr.dtype, ids.dtype) == (np.int64, np.int32)
    assert [ids[a:b].tolist() for a, b in pairwise(indptr)] == [[1, 4], [2, 5], [3, 6], [0]]
    assert tree.children(0)[1].tolist() == [0, 1, 2, 3]
    assert tree.children(1)[1] is ids


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_])
def test_lift_equals_a_brute_force(tree, dtype):
    Y = sp.random_array((50, 7), density=0.4, rng=np.random.default_rng(0), format="csr")
    Y.data[:] = 1
    lifted = tree.lift(Y.astype(dtype))
    ancestors = [tree.parents[0][tree.parents[1]], tree.parents[1], np.arange(7)]
    for level, size in enumerate(tree.level_sizes):
        expected = np.zeros((50, size))
        for document, label in zip(*Y.nonzero(), strict=True):
            expected[document, ancestors[level][label]] = 1
        assert lifted[level].dtype == dtype
        assert lifted[level].nnz == expected.sum()
        assert lifted[level].has_canonical_format
        np.testing.assert_array_equal(lifted[level].toarray(), expected)


def test_lift_keeps_one_target_for_300_children_in_one_byte():
    tree = LabelTree((np.zeros(512, dtype=np.int32),), 512)
    first, _ = tree.lift(sp.csr_array(np.ones((1, 512), dtype=np.uint8)))
    assert first.toarray().tolist() == [[1]]


def test_lift_leaves_its_argument_alone_and_ignores_stored_zeros(tree):
    Y = sp.csr_array((np.array([1, 0, 1]), array(6, 0, 1), array(0, 3)), shape=(1, 7))
    coarse, groups, labels = tree.lift(Y)
    assert [level.indices.tolist() for level in (coarse, groups, labels)] == [[0, 1], [0, 2], [1, 6]]
    assert (Y.indices.tolist(), Y.data.tolist()) == ([6, 0, 1], [1, 0, 1])


def test_lift_of_a_flat_tree():
    (labels,) = FLAT.lift(sp.csr_array(np.eye(3)))
    np.testing.assert_array_equal(labels.toarray(), np.eye(3))


@pytest.mark.parametrize(
    ("parents", "n_labels", "what"),
    [
        ((array(0, 0, 1, 1), array(0, 0, 1, 2, 3, 4)), 6, "outside 0 to 3"),
        ((array(0, -1, 1),), 3, "outside 0 to 1"),
        ((array(0, 0, 2, 2),), 4, "without children"),
        ((array(0, 0, 1, 1), array(0, 0, 1, 1, 2, 2)), 6, "level 1 has a node without children"),
        ((array(0, 0, 0, 1),), 4, "1 to 3 labels"),
        ((array(0, 0, 1, 1),), 5, "4 labels have a group, but there are 5"),
        ((array(),), 0, "without children"),
    ],
)
def test_check_refuses_a_broken_tree(parents, n_labels, what):
    with pytest.raises(ModelError, match=what) as caught:
        LabelTree(parents, n_labels).check()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("flat", [True, False])
def test_tensors_make_the_same_tree(tree, flat):
    tree = FLAT if flat else tree
    again = LabelTree.from_tensors(tree.to_tensors())
    assert (again.n_labels, again.n_levels) == (tree.n_labels, tree.n_levels)
    assert all(np.array_equal(a, b) for a, b in zip(again.parents, tree.parents, strict=True))


def test_tensors_of_something_else_are_refused(tree):
    tensors = tree.to_tensors()
    for broken in (
        {},
        {"n_labels": tensors["n_labels"], "weights": tensors["parents_0"]},
        tensors | {"parents_1": tensors["parents_1"].astype(np.float32)},
        tensors | {"parents_1": tensors["parents_1"][:, None]},
        tensors | {"n_labels": np.array(7)},
        tensors | {"n_labels": array()},
        tensors | {"parents_0": array(0, 1, 2, 7)},
    ):
        with pytest.raises(ModelError, match="label tree is damaged"):
            LabelTree.from_tensors(broken)


def test_to_nested(tree):
    nested = tree.to_nested(list("abcdefg"))
    expected = {
        "children": [
            {"children": [{"labels": ["b", "e"]}, {"labels": ["c", "f"]}]},
            {"children": [{"labels": ["d", "g"]}, {"labels": ["a"]}]},
        ]
    }
    assert json.loads(json.dumps(nested)) == expected
    assert FLAT.to_nested(["x", "y", "z"]) == {"labels": ["x", "y", "z"]}
