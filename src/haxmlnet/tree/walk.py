"""Walking down and up a label tree, for many documents at once; -1 (`ABSENT`) stands for no node."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from haxmlnet.ranking import ABSENT
from haxmlnet.tree.label_tree import LabelTree


def children_of(
    tree: LabelTree, level: int, parents: NDArray[np.int32], scores: NDArray[np.float32]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the children (B, C) of nodes (B, K) of a level, and the scores of their parents."""
    starts, children = tree.children(level)
    widths = np.where(parents == ABSENT, 0, starts[parents + 1] - starts[parents]).sum(axis=1)
    nodes = np.full((len(parents), max(int(widths.max(initial=1)), 1)), ABSENT, np.int32)
    node_scores = np.zeros(nodes.shape, np.float32)
    _fill_children(starts, children, parents, scores, nodes, node_scores)
    return nodes, node_scores


def ancestors_of(tree: LabelTree, labels: NDArray[np.int32], level: int) -> NDArray[np.int32]:
    """Return the ancestors, on a level, of labels in an array of any shape."""
    nodes = labels
    for below in reversed(range(level, len(tree.parents))):
        nodes = parents_of(tree, below, nodes)
    return nodes


def parents_of(tree: LabelTree, level: int, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the parents, on a level, of nodes of the next level in an array of any shape."""
    return np.where(nodes == ABSENT, ABSENT, tree.parents[level][nodes]).astype(np.int32)


def parents_at(tree: LabelTree, level: int) -> NDArray[np.int32] | None:
    """Return the parent of each node of a level; None for the first level, whose nodes have none."""
    return tree.parents[level - 1] if level else None


def marked_in_rows(nodes: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mark the nodes (B, C) that are among the wanted ones (B, K) of their document."""
    marks = np.zeros(nodes.shape, np.bool_)
    _mark_nodes(nodes, np.sort(wanted, axis=1), marks)
    return marks


def values_in_rows(
    nodes: NDArray[np.int32], values: NDArray[np.float32], wanted: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Look up the values (B, W) of the wanted nodes among nodes (B, C) with their values (B, C); 0 if not there."""
    found = np.zeros(wanted.shape, np.float32)
    _find_values(np.ascontiguousarray(nodes), np.ascontiguousarray(values), wanted, found)
    return found


@numba.njit(cache=True, nogil=True)
def _fill_children(starts, children, parents, scores, nodes, node_scores):  # type: ignore[no-untyped-def]
    for row in range(parents.shape[0]):
        n = 0
        for column in range(parents.shape[1]):
            parent = parents[row, column]
            if parent == ABSENT:
                continue
            for position in range(starts[parent], starts[parent + 1]):
                nodes[row, n] = children[position]
                node_scores[row, n] = scores[row, column]
                n += 1


@numba.njit(cache=True, nogil=True)
def _mark_nodes(nodes, wanted, marks):  # type: ignore[no-untyped-def]
    for row in range(nodes.shape[0]):
        for column in range(nodes.shape[1]):
            node = nodes[row, column]
            position = np.searchsorted(wanted[row], node)
            marks[row, column] = node != ABSENT and position < wanted.shape[1] and wanted[row, position] == node


@numba.njit(cache=True, nogil=True)
def _find_values(nodes, values, wanted, found):  # type: ignore[no-untyped-def]
    for row in range(len(nodes)):
        order = np.argsort(nodes[row])
        ordered = nodes[row][order]
        for column in range(wanted.shape[1]):
            node = wanted[row, column]
            position = np.searchsorted(ordered, node)
            if node != ABSENT and position < len(ordered) and ordered[position] == node:
                found[row, column] = values[row, order[position]]
