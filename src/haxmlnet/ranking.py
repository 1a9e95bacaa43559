"""`Ranking`: which nodes or labels a document gets, best first. The only result type of the library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

ABSENT = -1
# Labels kept of each ranking before several are averaged, as a multiple of k.
KEPT_PER_RANKING = 10
_NOTHING = np.array([None], dtype=object)


@dataclass(frozen=True)
class Ranking:
    """Ids and scores per document, best first; where a document has fewer than K, id is -1 and score 0."""

    ids: NDArray[np.int32]  # (n, K)
    scores: NDArray[np.float32]  # (n, K)
    names: NDArray[np.object_] | None = field(default=None, repr=False)
    """The name of every id that can occur; without names (inner levels of a tree) labels are the ids."""
    n_ids: int = 0
    """How many ids there are: the number of columns of `to_csr`. Taken from `names` where they are given."""

    def __post_init__(self) -> None:
        assert self.ids.shape == self.scores.shape
        assert self.ids.ndim == 2
        if self.names is not None:
            object.__setattr__(self, "n_ids", len(self.names))

    @property
    def labels(self) -> NDArray[np.object_]:
        """The names of the labels, (n, K); None where a document has fewer than K."""
        named = self.ids.astype(object) if self.names is None else np.append(self.names, _NOTHING)[self.ids]
        named[self.ids == ABSENT] = None
        return named

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> list[tuple[object, float]]:
        present = self.ids[row] != ABSENT
        ids = self.ids[row][present]
        named = ids if self.names is None else self.names[ids]
        return list(zip(named.tolist(), self.scores[row][present].tolist(), strict=True))

    def __iter__(self) -> Iterator[list[tuple[object, float]]]:
        return (self[row] for row in range(len(self)))

    def top(self, k: int) -> Ranking:
        """Keep the best k of each document."""
        return self._with(self.ids[:, :k], self.scores[:, :k])

    def above(self, threshold: float) -> Ranking:
        """Drop the labels that score less than the threshold."""
        kept = self.scores >= threshold
        return self._with(
            np.where(kept, self.ids, ABSENT).astype(np.int32),
            np.where(kept, self.scores, 0).astype(np.float32),
        )

    def to_csr(self) -> sp.csr_array:
        """Give the scores as a sparse (documents x labels) matrix."""
        rows, columns = np.nonzero(self.ids != ABSENT)
        values = self.scores[rows, columns]
        return sp.csr_array((values, (rows, self.ids[rows, columns])), shape=(len(self), self.n_ids))

    def _with(self, ids: NDArray[np.int32], scores: NDArray[np.float32]) -> Ranking:
        return Ranking(ids, scores, self.names, self.n_ids)


def rank(
    ids: NDArray[np.int32], scores: NDArray[np.float32], k: int, names: NDArray[np.object_] | None, n_ids: int
) -> Ranking:
    """Order candidates (n, C) by score and keep the best k; absent ones (id -1) come last.

    Equal scores are ordered by id, so that a result never depends on the order of the candidates.
    """
    keys = np.where(ids == ABSENT, -np.inf, scores)
    if k < ids.shape[1]:
        # Everything that ties with the k-th best must reach the sort, or the tie is cut arbitrarily.
        kth = -np.partition(-keys, k - 1, axis=1)[:, k - 1 : k]
        width = max(k, int((keys >= kth).sum(axis=1).max(initial=0)))
        width = min(width, ids.shape[1])
        best = np.argpartition(-keys, width - 1, axis=1)[:, :width]
        ids, keys = np.take_along_axis(ids, best, 1), np.take_along_axis(keys, best, 1)
    order = np.lexsort((ids, -keys), axis=1)[:, :k]
    ids, keys = np.take_along_axis(ids, order, 1), np.take_along_axis(keys, order, 1)
    return Ranking(ids, np.where(ids == ABSENT, 0, keys).astype(np.float32), names, n_ids)


def width_per_tree(k: int, n_trees: int, n_labels: int) -> int:
    """Say how many labels each tree ranks, so that the mean of their scores has the right best k."""
    return k if n_trees == 1 else min(KEPT_PER_RANKING * k, n_labels)


def average_rankings(rankings: list[Ranking], k: int) -> Ranking:
    """Merge rankings of the same documents by their mean score; a label a ranking lacks counts as 0 there."""
    if len(rankings) == 1:
        return rankings[0].top(k)
    total = sum((ranking.to_csr() for ranking in rankings[1:]), rankings[0].to_csr()) / len(rankings)
    return rank_csr(sp.csr_array(total), k, rankings[0].names)


def rank_csr(scores: sp.csr_array, k: int, names: NDArray[np.object_] | None) -> Ranking:
    """Rank the stored entries of a sparse (documents x labels) matrix of scores."""
    widths = np.diff(scores.indptr)
    width = max(int(widths.max(initial=0)), min(k, scores.shape[1]), 1)
    within = np.arange(width) < widths[:, None]  # (n, width)
    ids = np.full(within.shape, ABSENT, np.int32)
    values = np.zeros(within.shape, np.float32)
    ids[within] = scores.indices
    values[within] = scores.data
    return rank(ids, values, min(k, scores.shape[1]), names, scores.shape[1])
