"""`LinearModel`: a label tree with linear classifiers at every level, and what it knows of a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.linear.level import LinearLevel, node_products, train_level
from haxmlnet.progress import Progress
from haxmlnet.ranking import ABSENT, Ranking, rank
from haxmlnet.tree import LabelTree, ancestors_of, children_of

BLOCK_DOCUMENTS = 256
# Margins beyond these say nothing more; an outlier would drown the rest.
WIDEST_MARGIN = 4.0

T = TypeVar("T")


@dataclass(frozen=True)
class LinearModel:
    """Classifiers for the nodes of a tree, each trained among the documents of its parent."""

    tree: LabelTree
    levels: list[LinearLevel]
    prototypes: sp.csr_array  # (labels, features)
    """What the documents of each label have in common: its strongest features, of length one."""

    def search(self, features: sp.csr_array, beam: int, width: int, n_threads: int = 1) -> Ranking:
        """Rank the labels below the best nodes of each level; scores are products of exp(-hinge^2) along the path."""
        width = min(width, self.tree.n_labels)

        def search_block(block: slice) -> Ranking:
            return self._search_block(features[block], beam, width)

        rankings = list(_in_threads(search_block, features.shape[0], n_threads))
        ids = np.concatenate([ranking.ids for ranking in rankings] or [np.zeros((0, width), np.int32)])
        scores = np.concatenate([ranking.scores for ranking in rankings] or [np.zeros((0, width), np.float32)])
        return Ranking(ids, scores, None, self.tree.n_labels)

    def _search_block(self, features: sp.csr_array, beam: int, width: int) -> Ranking:
        margins = self.levels[0].all_margins(features)
        nodes = np.broadcast_to(np.arange(margins.shape[1], dtype=np.int32), margins.shape)
        scores = hinge_score(margins)
        for depth, level in enumerate(self.levels[1:]):
            best = rank(nodes, scores, beam, None, self.levels[depth].n_nodes)
            nodes, above = children_of(self.tree, depth, best.ids, best.scores)
            scores = hinge_score(level.margins(features, nodes)) * above
        return _padded(rank(nodes, scores, width, None, self.tree.n_labels), width)

    def signals(self, features: sp.csr_array, labels: NDArray[np.int32], n_threads: int = 1) -> NDArray[np.float32]:
        """Say what each level and the prototypes think of some labels (documents, W): (documents, W, levels + 2).

        The last two are the logarithm of the score and the likeness to the prototype.
        """

        def signals_of(block: slice) -> NDArray[np.float32]:
            return self._block_signals(features[block], labels[block])

        blocks = list(_in_threads(signals_of, features.shape[0], n_threads))
        return np.concatenate(blocks or [np.zeros((*labels.shape, len(self.levels) + 2), np.float32)])

    def _block_signals(self, features: sp.csr_array, labels: NDArray[np.int32]) -> NDArray[np.float32]:
        first = self.levels[0].all_margins(features)
        columns = [np.take_along_axis(first, np.maximum(ancestors_of(self.tree, labels, 0), 0), axis=1)]
        for depth, level in enumerate(self.levels[1:], start=1):
            columns.append(level.margins(features, ancestors_of(self.tree, labels, depth)))
        columns = [np.clip(margins, -WIDEST_MARGIN, WIDEST_MARGIN) for margins in columns]
        score = -sum(np.maximum(1 - margins, 0) ** 2 for margins in columns)
        return np.stack([*columns, score, node_products(features, self.prototypes, labels)], axis=-1)


def hinge_score(margins: NDArray[np.float32]) -> NDArray[np.float32]:
    """Turn margins into scores between 0 and 1: 1 for a margin of at least 1, falling with the squared hinge loss."""
    return np.exp(-(np.maximum(1 - margins, 0) ** 2)).astype(np.float32)


def train_linear_model(
    features: sp.csr_array,
    targets: sp.csr_array,
    tree: LabelTree,
    prototypes: sp.csr_array,
    *,
    C: float,
    prune: float,
    seed: int,
    n_threads: int,
    progress: Progress,
) -> LinearModel:
    """Train the classifiers of every level of the tree on documents (rows of `features` and `targets`)."""
    levels: list[LinearLevel] = []
    lifted = tree.lift(targets)
    for depth, nodes in enumerate(lifted):
        with progress.stage(f"linear level {depth}", nodes.shape[1], "nodes") as advance:
            level = train_level(
                features,
                nodes,
                lifted[depth - 1] if depth else None,
                tree.parents[depth - 1] if depth else None,
                C=C,
                prune=prune,
                seed=seed,
                n_threads=n_threads,
                advance=advance,
            )
        levels.append(level)
    return LinearModel(tree, levels, prototypes)


def _padded(ranking: Ranking, width: int) -> Ranking:
    missing = width - ranking.ids.shape[1]
    if missing <= 0:
        return ranking
    ids = np.pad(ranking.ids, ((0, 0), (0, missing)), constant_values=ABSENT)
    return Ranking(ids, np.pad(ranking.scores, ((0, 0), (0, missing))), None, ranking.n_ids)


def _in_threads(work: Callable[[slice], T], n_documents: int, n_threads: int) -> Iterator[T]:
    """Work on blocks of documents side by side, and give the results in order."""
    blocks = [slice(start, start + BLOCK_DOCUMENTS) for start in range(0, n_documents, BLOCK_DOCUMENTS)]
    if n_threads == 1 or len(blocks) < 2:
        yield from map(work, blocks)
        return
    with ThreadPoolExecutor(n_threads) as threads:
        yield from threads.map(work, blocks)
