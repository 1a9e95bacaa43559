from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from haxmlnet.errors import SettingError
from haxmlnet.tree import build_label_tree, choose_level_sizes


def features(n_labels: int) -> sp.csr_array:
    rng = np.random.default_rng(n_labels)
    return sp.random_array((n_labels, 20), density=0.2, rng=rng, format="csr", dtype=np.float32)


@settings(max_examples=60, deadline=None)
@given(n_labels=st.integers(1, 3000), group_size=st.integers(2, 3000))
def test_any_number_of_labels_gives_a_sound_tree(n_labels, group_size):
    sizes = choose_level_sizes(n_labels, group_size, max_first_level=16, max_fan_out=4)
    tree = build_label_tree(features(n_labels), sizes, np.random.default_rng(0))
    tree.check()
    assert tree.level_sizes == [*sizes, n_labels]
    for level in range(tree.n_levels - 1):
        indptr, ids = tree.children(level)
        assert np.array_equal(np.sort(ids), np.arange(tree.level_sizes[level + 1]))
        assert np.ptp(np.diff(indptr)) <= 1
    if sizes:
        assert np.bincount(tree.parents[-1]).max() <= group_size


def test_coarser_levels_do_not_change_the_groups():
    several, one = (build_label_tree(features(500), s, np.random.default_rng(0)) for s in ([2, 16, 64], [64]))
    assert np.array_equal(several.parents[-1], one.parents[-1])
    coarse = build_label_tree(features(500), [2], np.random.default_rng(0))
    assert np.array_equal(several.parents[0][several.parents[1][several.parents[2]]], coarse.parents[0])
    assert all(parents.dtype == np.int32 for parents in several.parents)


@pytest.mark.parametrize(
    ("sizes", "what"),
    [
        ([3], r"powers of two in ascending order, got \[3\]"),
        ([0], "powers of two"),
        ([-4], "powers of two"),
        ([8, 4], "ascending"),
        ([8, 8], "ascending"),
        ([8, 128], "exceed the number of labels, 100"),
    ],
)
def test_level_sizes_that_make_no_tree_are_refused(sizes, what):
    with pytest.raises(SettingError, match=what) as caught:
        build_label_tree(features(100), sizes, np.random.default_rng(0))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("n_labels", "group_size", "max_first_level", "max_fan_out", "expected"),
    [
        (670_091, 6, 2048, 8, [2048, 16384, 131072]),
        (670_091, 6, 2048, 64, [2048, 131072]),
        (670_091, 6, 2048, 16, [512, 8192, 131072]),
        (501_008, 100, 8192, 8, [8192]),
        (501_008, 100, 3000, 8, [1024, 8192]),
        (3_956, 100, 8192, 8, [64]),
        (100, 100, 8192, 8, []),
        (101, 100, 8192, 8, [2]),
        (1, 2, 2, 2, []),
        (50, 100, 10, 8, [2]),
    ],
)
def test_chosen_level_sizes(n_labels, group_size, max_first_level, max_fan_out, expected):
    assert choose_level_sizes(n_labels, group_size, max_first_level, max_fan_out) == expected


@settings(max_examples=200)
@given(st.integers(1, 10**7), st.integers(2, 500), st.integers(2, 10**4), st.integers(1, 6))
def test_chosen_levels_keep_to_the_limits(n_labels, group_size, max_first_level, log_fan_out):
    sizes = choose_level_sizes(n_labels, group_size, max_first_level, 2**log_fan_out)
    assert all(fine // coarse <= 2**log_fan_out for coarse, fine in pairwise(sizes))
    assert sizes == sorted(set(sizes))
    if sizes:
        assert sizes[0] <= max_first_level
        assert -(-n_labels // sizes[-1]) <= group_size
        assert sizes[-1] <= n_labels


@pytest.mark.parametrize("limits", [(1, 10, 8), (10, 1, 8), (10, 10, 6), (10, 10, 1)])
def test_limits_that_cannot_be_kept_are_refused(limits):
    with pytest.raises(SettingError, match="must be"):
        choose_level_sizes(1000, *limits)
