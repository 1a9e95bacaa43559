"""Which nodes of a level a training document is compared with: at most c, 1000 in the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.shapes import round_count
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree


@dataclass(frozen=True)
class Candidates:
    """The candidate nodes of a batch and which of them are right."""

    ids: NDArray[np.int64]  # (B, C), -1 at the end where a document has fewer
    targets: NDArray[np.float32]  # (B, C)


@dataclass(frozen=True)
class CandidateSource:
    """Draws the candidates of a level: children of a document's true parents and of the best wrong ones."""

    targets: sp.csr_array
    """True nodes of the level, (documents x nodes), sorted."""
    parents: sp.csr_array
    """True nodes of the level above."""
    tree: LabelTree
    level: int
    limit: int
    """Most candidates of a document, c."""

    def draw(self, rows: NDArray[np.int64], wrong: NDArray[np.int32], rng: np.random.Generator) -> Candidates:
        """Return the candidates of some documents: all true nodes, and children of true parents and of others (B, W).

        Past the limit, wrong candidates are kept at random.
        """
        child_starts, children = self.tree.children(self.level - 1)
        counts = count_candidates(rows, self.parents.indptr, self.parents.indices, wrong, child_starts)
        n_true = self.targets.indptr[rows + 1] - self.targets.indptr[rows]
        limits = np.maximum(np.minimum(counts, self.limit), n_true)
        ids = np.full((len(rows), round_count(max(int(limits.max(initial=1)), 1))), ABSENT, np.int64)
        targets = np.zeros(ids.shape, np.float32)
        fill_candidates(
            rows, self.parents.indptr, self.parents.indices, wrong, child_starts, children,
            self.targets.indptr, self.targets.indices, limits, int(counts.max(initial=1)),
            rng, ids, targets,
        )  # fmt: skip
        return Candidates(ids, targets)


@numba.njit(cache=True, nogil=True)
def _contains(items, value):  # type: ignore[no-untyped-def]
    for item in items:  # noqa: SIM110 (numba compiles no generators)
        if item == value:
            return True
    return False


@numba.njit(cache=True, nogil=True)
def count_candidates(rows, parent_starts, parents, wrong, child_starts):  # type: ignore[no-untyped-def]
    """Count the children of all parents of some documents, true and wrong ones."""
    counts = np.zeros(len(rows), np.int64)
    for i in range(len(rows)):
        true = parents[parent_starts[rows[i]] : parent_starts[rows[i] + 1]]
        for parent in true:
            counts[i] += child_starts[parent + 1] - child_starts[parent]
        for parent in wrong[i]:
            if parent != ABSENT and not _contains(true, parent):
                counts[i] += child_starts[parent + 1] - child_starts[parent]
    return counts


@numba.njit(cache=True, nogil=True)
def fill_candidates(  # type: ignore[no-untyped-def]
    rows, parent_starts, parents, wrong, child_starts, children, target_starts, true_nodes,
    limits, widest, rng, ids, targets,
):  # fmt: skip
    """Write ids and targets: true nodes first, then others up to the limit of the document."""
    others = np.empty(widest, np.int64)
    for i in range(len(rows)):
        true = parents[parent_starts[rows[i]] : parent_starts[rows[i] + 1]]
        nodes = true_nodes[target_starts[rows[i]] : target_starts[rows[i] + 1]]
        for j in range(len(nodes)):
            ids[i, j] = nodes[j]
            targets[i, j] = 1
        n_others = 0
        for group in range(len(true) + wrong.shape[1]):
            parent = true[group] if group < len(true) else wrong[i, group - len(true)]
            if parent == ABSENT or (group >= len(true) and _contains(true, parent)):
                continue
            for position in range(child_starts[parent], child_starts[parent + 1]):
                if not _contains(nodes, children[position]):
                    others[n_others] = children[position]
                    n_others += 1
        # The first steps of a Fisher-Yates shuffle choose without replacement.
        room = limits[i] - len(nodes)
        for j in range(min(room, n_others)):
            if room < n_others:
                pick = rng.integers(j, n_others)
                others[j], others[pick] = others[pick], others[j]
            ids[i, len(nodes) + j] = others[j]
