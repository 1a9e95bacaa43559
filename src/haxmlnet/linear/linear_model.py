"""`LinearModel`: a label tree with linear classifiers at every level, and what it knows of a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.linear import kernels
from haxmlnet.linear.level import LinearLevel, train_level
from haxmlnet.linear.vectors import Block, KnownProducts, NodeVectors, block_of
from haxmlnet.progress import Progress
from haxmlnet.ranking import ABSENT, Ranking
from haxmlnet.tree import LabelTree, ancestors_of
from haxmlnet.tree.walk import parents_at

# More documents share what is read of a family's weights.
BLOCK_DOCUMENTS = 4096
# Numbers in the largest array of a block: 32 MB.
LARGEST_ARRAY = 2**23
# Margins beyond these say nothing more; an outlier would drown the rest.
WIDEST_MARGIN = 4.0

T = TypeVar("T")


@dataclass(frozen=True)
class Walk:
    """What was found on the way down the tree for a block of documents."""

    ranking: Ranking
    margins: NDArray[np.float32]  # (B, W, levels)
    """Of the nodes on the paths of the labels found."""
    seen: list[KnownProducts]
    """Of each level, what the documents were multiplied with."""


@dataclass(frozen=True)
class LinearModel:
    """Classifiers for the nodes of a tree, each trained among the documents of its parent."""

    tree: LabelTree
    levels: list[LinearLevel]
    prototype_vectors: NodeVectors
    """What the documents of each label have in common: its strongest features, of length one."""

    def search(
        self, features: sp.csr_array, beam: int, width: int, n_threads: int = 1, furthest: float = np.inf
    ) -> Ranking:
        """Rank the labels below the best nodes of each level; scores are products of exp(-hinge^2) along the path."""

        def search_block(rows: range) -> Ranking:
            return self.walk(block_of(features, rows), beam, width, furthest).ranking

        return joined(list(in_threads(search_block, features.shape[0], n_threads, self.search_numbers(beam, width))))

    def walk(self, block: Block, beam: int, width: int, furthest: float = np.inf) -> Walk:
        """Find the labels below the best nodes of each level, and say what was seen on the way.

        Nodes above the labels whose logarithm of the score is more than `furthest` behind the best are left out, as
        far as there is a choice of `width` without them.
        """
        n, n_levels = len(block.starts) - 1, len(self.levels)
        ids, scores = np.zeros((n, 1), np.int32), np.zeros((n, 1), np.float32)
        margins = np.zeros((n, 1, n_levels), np.float32)
        seen: list[KnownProducts] = []
        for depth, level in enumerate(self.levels):
            above, above_scores, above_margins = ids, scores, margins
            n_kept = min(beam if depth < n_levels - 1 else width, level.n_nodes)
            ids, scores = np.full((n, n_kept), ABSENT, np.int32), np.full((n, n_kept), -np.inf, np.float32)
            margins = np.zeros((n, n_kept, n_levels), np.float32)
            products = level.vectors.products_of_children(block, above)
            seen.append(KnownProducts(above, products))
            kernels.keep_best(
                level.vectors.siblings, level.biases, depth, above, above_scores, above_margins, products,
                np.float32(furthest), self._child_counts[depth], width, ids, scores, margins,
            )  # fmt: skip
        return Walk(Ranking(ids, np.exp(scores), None, self.tree.n_labels), margins, seen)

    @cached_property
    def _child_counts(self) -> list[NDArray[np.int64]]:
        """How many children each node of each level has."""
        counts = [np.diff(level.vectors.siblings.node_starts) for level in self.levels[1:]]
        return [*counts, np.zeros(self.tree.n_labels, np.int64)]

    def path_margins(self, block: Block, labels: NDArray[np.int32], walk: Walk | None = None) -> NDArray[np.float32]:
        """Give what each level thinks of some labels (B, W) of some documents: (B, W, levels).

        What a walk has seen of the documents is not worked out again.
        """
        seen = [None] * len(self.levels) if walk is None else walk.seen
        margins = [
            level.margins(block, ancestors_of(self.tree, labels, depth), known)
            for depth, (level, known) in enumerate(zip(self.levels, seen, strict=True))
        ]
        return np.stack(margins, axis=-1)

    def signals(
        self,
        block: Block,
        labels: NDArray[np.int32],
        margins: NDArray[np.float32],
        out: NDArray[np.float32] | None = None,
    ) -> NDArray[np.float32]:
        """Say what each level and the prototypes think of some labels (B, W) with known margins: (B, W, levels + 2).

        The last two are the logarithm of the score and the likeness to the prototype.
        """
        signals = np.empty((*labels.shape, len(self.levels) + 2), np.float32) if out is None else out
        kernels.write_signals(margins, self.prototype_vectors.products(block, labels), WIDEST_MARGIN, signals)
        return signals

    def search_numbers(self, beam: int, width: int) -> int:
        """Count the numbers that a search holds of each document."""
        n_parents = [1, *(min(beam, level.n_nodes) for level in self.levels[:-1])]
        products = (n * level.vectors.widest for n, level in zip(n_parents, self.levels, strict=True))
        return max(*products, min(width, self.tree.n_labels) * (len(self.levels) + 2))

    @property
    def prototypes(self) -> sp.csr_array:
        """The prototypes as a matrix (labels, features), made anew each time."""
        return self.prototype_vectors.to_matrix()


def train_linear_model(
    features: sp.csr_array,
    targets: sp.csr_array,
    tree: LabelTree,
    prototypes: sp.csr_array,
    *,
    C: float,
    prune: float,
    hard_negatives: int,
    seed: int,
    n_threads: int,
    progress: Progress,
) -> LinearModel:
    """Train the classifiers of every level of the tree on documents (rows of `features` and `targets`).

    A node learns from the documents of its parent, and from those for which its parent is among the best
    `hard_negatives` of its level: it will be asked about such documents, too.
    """
    levels: list[LinearLevel] = []
    lifted = tree.lift(targets)
    for depth, nodes in enumerate(lifted):
        with progress.stage(f"linear level {depth}", nodes.shape[1], "nodes") as advance:
            above = lifted[depth - 1] if depth else None
            if above is not None and hard_negatives:
                above = _with_best(tree, levels, features, above, hard_negatives, n_threads)
            level = train_level(
                features,
                nodes,
                above,
                parents_at(tree, depth),
                C=C,
                prune=prune,
                seed=seed,
                n_threads=n_threads,
                advance=advance,
            )
        levels.append(level)
    return LinearModel(tree, levels, NodeVectors.from_matrix(prototypes, parents_at(tree, tree.n_levels - 1)))


def _with_best(
    tree: LabelTree,
    levels: list[LinearLevel],
    features: sp.csr_array,
    targets: sp.csr_array,
    n_best: int,
    n_threads: int,
) -> sp.csr_array:
    """Add the best nodes of a search to the true nodes of each document, (documents, nodes) of the last level."""
    n_nodes = targets.shape[1]
    model = LinearModel(LabelTree(tree.parents[: len(levels) - 1], n_nodes), levels, levels[-1].vectors)
    ids = model.search(features, n_best, n_best, n_threads).ids
    found = ids != ABSENT
    bounds = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    best = csr_view(np.ones(int(bounds[-1]), np.float32), ids[found], bounds, n_nodes)
    union = sp.csr_array(best + targets)
    union.data[:] = 1
    return union


def joined(rankings: list[Ranking]) -> Ranking:
    """Put rankings of the same width one after the other."""
    if len(rankings) == 1:
        return rankings[0]
    ids = np.concatenate([ranking.ids for ranking in rankings])
    return Ranking(ids, np.concatenate([ranking.scores for ranking in rankings]), None, rankings[0].n_ids)


def in_threads(work: Callable[[range], T], n_documents: int, n_threads: int, n_numbers: int) -> Iterator[T]:
    """Work on blocks of documents side by side, and give the results in order; no documents are one block.

    `n_numbers` is the size of what is held of each document.
    """
    most = max(min(BLOCK_DOCUMENTS, LARGEST_ARRAY // n_numbers), 1)
    n_rounds = max(-(-n_documents // (most * n_threads)), 1)
    starts = range(0, max(n_documents, 1), max(-(-n_documents // (n_rounds * n_threads)), 1))
    blocks = [range(start, min(start + starts.step, n_documents)) for start in starts]
    if n_threads == 1 or len(blocks) < 2:
        yield from map(work, blocks)
        return
    with ThreadPoolExecutor(n_threads) as threads:
        yield from threads.map(work, blocks)
