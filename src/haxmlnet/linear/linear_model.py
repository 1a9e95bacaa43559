"""`LinearModel`: a label tree with linear classifiers at every level, as in Parabel and Bonsai."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.config import LinearConfig
from haxmlnet.data.arrays import csr_view
from haxmlnet.linear.beam_search import BeamSearch, keep_best_children, write_features
from haxmlnet.linear.document_blocks import Block, block_of, join_rankings, map_blocks
from haxmlnet.linear.linear_level import LinearLevel, Parents, train_level
from haxmlnet.linear.node_vectors import CachedDots, NodeVectors
from haxmlnet.linear.solver import SolverConfig
from haxmlnet.progress import Progress
from haxmlnet.ranking import ABSENT, Ranking
from haxmlnet.tree import LabelTree, ancestors_of

# Larger margins say nothing more, but as features an outlier would drown the rest.
MAX_MARGIN = 4.0


@dataclass(frozen=True)
class LinearTask:
    """What a linear model is trained on, and how."""

    features: sp.csr_array  # (documents, features)
    targets: sp.csr_array  # (documents, labels)
    config: LinearConfig
    seed: int
    n_threads: int
    progress: Progress


@dataclass(frozen=True)
class LinearModel:
    """A classifier for each node of a tree, trained on the documents of its parent."""

    tree: LabelTree
    levels: list[LinearLevel]
    prototypes: NodeVectors
    """What the documents of each label have in common: its strongest features, of length one."""

    def search(self, block: Block, beam: int, width: int, furthest: float = np.inf) -> BeamSearch:
        """Find the best `width` labels below the best `beam` nodes of each level.

        A score is the product of exp(-hinge^2) along the path. Nodes above the labels whose log score is more than
        `furthest` behind the best are dropped, as long as `width` labels are left to choose from.
        """
        n, n_levels = len(block.starts) - 1, len(self.levels)
        ids, scores = np.zeros((n, 1), np.int32), np.zeros((n, 1), np.float32)  # the root
        margins = np.zeros((n, 1, n_levels), np.float32)
        cached: list[CachedDots] = []
        for depth, level in enumerate(self.levels):
            above, above_scores, above_margins = ids, scores, margins
            n_kept = min(beam if depth < n_levels - 1 else width, level.n_nodes)
            ids, scores = np.full((n, n_kept), ABSENT, np.int32), np.full((n, n_kept), -np.inf, np.float32)
            margins = np.zeros((n, n_kept, n_levels), np.float32)
            dots = level.vectors.dot_children(block, above)
            cached.append(CachedDots(above, dots))
            keep_best_children(
                level.vectors.siblings, level.biases, depth, above, above_scores, above_margins, dots,
                np.float32(furthest), self._child_counts[depth], width, ids, scores, margins,
            )  # fmt: skip
        return BeamSearch(Ranking(ids, np.exp(scores), None, self.tree.n_labels), margins, cached)

    @cached_property
    def _child_counts(self) -> list[NDArray[np.int64]]:
        """How many children each node of each level has."""
        counts = [np.diff(level.vectors.siblings.node_starts) for level in self.levels[1:]]
        return [*counts, np.zeros(self.tree.n_labels, np.int64)]

    def rank(self, features: sp.csr_array, beam: int, width: int, n_threads: int = 1) -> Ranking:
        """Rank the best `width` labels of any number of documents."""

        def rank_block(rows: range) -> Ranking:
            return self.search(block_of(features, rows), beam, width).ranking

        size = self.search_size(beam, width)
        return join_rankings(list(map_blocks(rank_block, features.shape[0], n_threads, size)))

    def search_size(self, beam: int, width: int) -> int:
        """Count the numbers in the largest array of a search, for each document."""
        n_parents = [1, *(min(beam, level.n_nodes) for level in self.levels[:-1])]
        dots = (n * level.vectors.max_siblings for n, level in zip(n_parents, self.levels, strict=True))
        return max(*dots, min(width, self.tree.n_labels) * (len(self.levels) + 2))

    def path_margins(
        self, block: Block, labels: NDArray[np.int32], search: BeamSearch | None = None
    ) -> NDArray[np.float32]:
        """Return the margins of the nodes on the paths to some labels (B, W): (B, W, levels).

        With a search of the same block, its dot products are not computed again.
        """
        caches = [None] * len(self.levels) if search is None else search.cached
        margins = [
            level.margins(block, ancestors_of(self.tree, labels, depth), cached)
            for depth, (level, cached) in enumerate(zip(self.levels, caches, strict=True))
        ]
        return np.stack(margins, axis=-1)

    def features(
        self,
        block: Block,
        labels: NDArray[np.int32],
        margins: NDArray[np.float32],
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Describe labels (B, W) with their path margins (B, W, levels) to the fusion: (B, W, levels + 2).

        The clipped margins come first, then the log score and the cosine similarity to the label's prototype.
        """
        features = np.empty((*labels.shape, len(self.levels) + 2), np.float32) if out is None else out
        write_features(margins, self.prototypes.dot(block, labels), MAX_MARGIN, features)
        return features

    def contributions(self, document: sp.csr_array, label: int) -> NDArray[np.float32]:
        """Return what each feature of a document (1, features) adds to the margins on the path to a label.

        One number for each entry of `document.indices`, weight times value summed over the levels: together with the
        biases they add up to the sum of the path margins.
        """
        contributions = np.zeros(document.nnz, np.float32)
        for depth, level in enumerate(self.levels):
            node = ancestors_of(self.tree, np.array([label], np.int32), depth)[0]
            features, weights = level.vectors.vector(node)
            _, entries, found = np.intersect1d(document.indices, features, assume_unique=True, return_indices=True)
            contributions[entries] += document.data[entries] * weights[found]
        return contributions


def train_linear_model(task: LinearTask, tree: LabelTree, prototypes: sp.csr_array) -> LinearModel:
    """Train the classifiers of every level of a tree; the prototypes are (labels, features).

    A node learns from the documents of its parent, and from those for which the parent is among the best
    `hard_negatives` of its level: when predicting, it meets such documents, too.
    """
    solver = SolverConfig(task.config.C, task.config.prune, task.seed)
    levels: list[LinearLevel] = []
    targets = tree.lift(task.targets)
    for depth, nodes in enumerate(targets):
        with task.progress.stage(f"linear level {depth}", nodes.shape[1], "nodes") as advance:
            parents = None
            if depth:
                documents = targets[depth - 1]
                if task.config.hard_negatives:
                    documents = _add_hard_negatives(task, tree, levels, documents)
                parents = Parents(documents, tree.parents[depth - 1])
            levels.append(train_level(task.features, nodes, parents, solver, task.n_threads, advance))
    return LinearModel(tree, levels, NodeVectors.from_matrix(prototypes, tree.parents[-1] if tree.parents else None))


def _add_hard_negatives(
    task: LinearTask, tree: LabelTree, levels: list[LinearLevel], targets: sp.csr_array
) -> sp.csr_array:
    """Add to the true nodes (documents, nodes) of the last trained level those that a search ranks best."""
    n_best, n_nodes = task.config.hard_negatives, targets.shape[1]
    trained = LinearModel(LabelTree(tree.parents[: len(levels) - 1], n_nodes), levels, levels[-1].vectors)
    ids = trained.rank(task.features, n_best, n_best, task.n_threads).ids
    found = ids != ABSENT
    bounds = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    best = csr_view(np.ones(int(bounds[-1]), np.float32), ids[found], bounds, n_nodes)
    union = sp.csr_array(best + targets)
    union.data[:] = 1
    return union
