"""Building a `LabelTree` from label features: how many levels, of how many nodes, and which labels come together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from haxmlnet.errors import SettingError
from haxmlnet.tree.balanced_split import balanced_partition
from haxmlnet.tree.label_tree import LabelTree


def build_label_tree(
    features: sp.csr_array | sp.csr_matrix, inner_level_sizes: Sequence[int], rng: np.random.Generator
) -> LabelTree:
    """Partition the labels by their features (labels x words) into levels of the given sizes, coarsest first.

    The last inner level are the groups; each level above consists of groups of groups. Without inner levels the
    tree is flat.
    """
    n_labels = features.shape[0]
    sizes = [int(size) for size in inner_level_sizes]
    check_level_sizes(sizes, n_labels)
    if not sizes:
        return LabelTree((), n_labels)
    groups = balanced_partition(features, _log2(sizes[-1]), rng)

    # The halves of node i are 2i and 2i + 1, so the ancestor of a node is its index, shifted.
    groups_of_groups = [np.arange(below, dtype=np.int32) >> _log2(below // size) for size, below in pairwise(sizes)]
    return LabelTree((*groups_of_groups, groups), n_labels)


def choose_level_sizes(n_labels: int, group_size: int, max_first_level: int, max_fan_out: int) -> list[int]:
    """Choose how many nodes the inner levels have, coarsest first; none where a flat tree is enough.

    There are as few groups as `group_size` allows. While the coarsest level has more than `max_first_level`
    nodes, it is grouped in turn, `max_fan_out` nodes to one: every level is a network to train, so a level must
    decide a lot.
    """
    for name, value in (("group_size", group_size), ("max_first_level", max_first_level)):
        if value < 2:
            raise SettingError(f"{name} must be at least 2, got {value}. Use a larger one.")
    if max_fan_out < 2 or not _is_power_of_two(max_fan_out):
        raise SettingError(
            f"max_fan_out must be a power of two and at least 2, got {max_fan_out}. Use, for example, 8."
        )
    if n_labels <= min(group_size, max_first_level):
        return []

    n_groups = -(-n_labels // group_size)
    # The next power of two; at least 2, as a level of one node decides nothing.
    sizes = [max(2, 1 << (n_groups - 1).bit_length())]
    while sizes[0] > max_first_level:
        sizes.insert(0, max(sizes[0] // max_fan_out, 2))
    return sizes


def with_coarser_levels(tree: LabelTree, max_first_level: int, max_fan_out: int) -> LabelTree:
    """Put levels above the first one until it is small; existing nodes keep their numbers.

    Nodes are numbered as `build_label_tree` does: those with neighbouring numbers belong together.
    """
    parents = list(tree.parents)
    size = tree.level_sizes[0]
    while parents and size > max_first_level:
        above = max(size // max_fan_out, 2)
        parents.insert(0, np.arange(size, dtype=np.int32) >> _log2(size // above))
        size = above
    return LabelTree(tuple(parents), tree.n_labels)


def check_level_sizes(sizes: Sequence[int], n_labels: int) -> None:
    """Raise a SettingError unless a tree of `n_labels` labels can have inner levels of these sizes."""
    ascending = all(size < below for size, below in pairwise(sizes))
    if not ascending or not all(map(_is_power_of_two, sizes)):
        raise SettingError(
            f"inner level sizes must be powers of two in ascending order, got {list(sizes)}. "
            "Use, for example, [256] or [2048, 16384]."
        )
    if sizes and sizes[-1] > n_labels:
        raise SettingError(
            f"inner level sizes must not exceed the number of labels, {n_labels}, got {list(sizes)}. "
            "Use smaller levels, or none for a flat model."
        )


def _is_power_of_two(size: int) -> bool:
    return size > 0 and size & (size - 1) == 0


def _log2(size: int) -> int:
    return size.bit_length() - 1
