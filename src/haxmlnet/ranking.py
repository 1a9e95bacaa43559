"""`Ranking`: the labels (or tree nodes) of each document, best first. The only result type of the library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

ABSENT = -1
_LOWEST_KEY = -(2**63)
_NEGATIVE_ZERO = -(2**31)  # the bits of the float32 -0.0
_NOTHING = np.array([None], dtype=object)


@dataclass(frozen=True)
class Ranking:
    """Ids and scores per document, best first; where a document has fewer than K labels, the id is -1, the score 0."""

    ids: NDArray[np.int32]  # (n, K)
    scores: NDArray[np.float32]  # (n, K)
    names: NDArray[np.object_] | None = field(default=None, repr=False)
    """The name of every id; without names (inner levels of a tree) the labels are the ids."""
    n_ids: int = 0
    """The number of columns of `to_csr`. Taken from `names` where they are given."""

    def __post_init__(self) -> None:
        assert self.ids.shape == self.scores.shape
        assert self.ids.ndim == 2
        if self.names is not None:
            object.__setattr__(self, "n_ids", len(self.names))

    @property
    def labels(self) -> NDArray[np.object_]:
        """The names of the labels, (n, K); None where the id is -1."""
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
        """Return the scores as a sparse (documents x labels) matrix."""
        rows, columns = np.nonzero(self.ids != ABSENT)
        values = self.scores[rows, columns]
        return sp.csr_array((values, (rows, self.ids[rows, columns])), shape=(len(self), self.n_ids))

    def _with(self, ids: NDArray[np.int32], scores: NDArray[np.float32]) -> Ranking:
        return Ranking(ids, scores, self.names, self.n_ids)


def rank(
    ids: NDArray[np.int32], scores: NDArray[np.float32], k: int, names: NDArray[np.object_] | None, n_ids: int
) -> Ranking:
    """Sort candidates (n, C) by score and keep the best k; absent ones (id -1) come last.

    Ties are broken by id, so the result never depends on the order of the candidates.
    """
    n, width = ids.shape
    best_ids = np.full((n, min(k, width)), ABSENT, np.int32)
    best_scores = np.zeros(best_ids.shape, np.float32)
    _rank_rows(np.ascontiguousarray(ids, np.int32), np.ascontiguousarray(scores, np.float32), best_ids, best_scores)
    return Ranking(best_ids, best_scores, names, n_ids)


def average_rankings(rankings: list[Ranking], k: int) -> Ranking:
    """Merge rankings of the same documents by mean score; a label that a ranking lacks scores 0 there."""
    if len(rankings) == 1:
        return rankings[0].top(k)
    total = sum((ranking.to_csr() for ranking in rankings[1:]), rankings[0].to_csr()) / len(rankings)
    return rank_csr(sp.csr_array(total), k, rankings[0].names)


def is_full(ranking: Ranking, k: int) -> bool:
    """Return whether every document has k labels, or all there are."""
    return ranking.ids.shape[1] >= min(k, ranking.n_ids) and bool((ranking.ids != ABSENT).all())


def extend_ranking(best: Ranking, more: Ranking, k: int) -> Ranking:
    """Append to each document the labels of `more` that `best` lacks, until it has k.

    Both keep their order. An appended score is lowered to the least one before it, so that scores never rise
    along a row.
    """
    ids = np.full((len(best), k), ABSENT, np.int32)
    scores = np.zeros(ids.shape, np.float32)
    best_ids, best_scores = np.ascontiguousarray(best.ids), np.ascontiguousarray(best.scores)
    more_ids, more_scores = np.ascontiguousarray(more.ids), np.ascontiguousarray(more.scores)
    _extend_rows(best_ids, best_scores, more_ids, more_scores, ids, scores)
    return Ranking(ids, scores, best.names, best.n_ids)


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


@numba.njit(cache=True, nogil=True)
def _extend_rows(ids, scores, more_ids, more_scores, all_ids, all_scores):  # type: ignore[no-untyped-def]
    width = all_ids.shape[1]
    for row in range(len(ids)):
        n, lowest = 0, np.float32(np.inf)
        for column in range(ids.shape[1]):
            if n < width and ids[row, column] != ABSENT:
                lowest = min(lowest, scores[row, column])
                all_ids[row, n], all_scores[row, n] = ids[row, column], scores[row, column]
                n += 1

        taken = np.sort(all_ids[row, :n])
        for column in range(more_ids.shape[1]):
            if n == width:
                break
            label = more_ids[row, column]
            place = np.searchsorted(taken, label)
            if label == ABSENT or (place < len(taken) and taken[place] == label):
                continue
            lowest = min(lowest, more_scores[row, column])
            all_ids[row, n], all_scores[row, n] = label, lowest
            n += 1


@numba.njit(cache=True, nogil=True)
def _rank_rows(ids, scores, best_ids, best_scores):  # type: ignore[no-untyped-def]
    keys, best = np.empty(ids.shape[1], np.int64), np.empty(best_ids.shape[1], np.int64)
    for row in range(len(ids)):
        for place in range(best_positions(ids[row], scores[row], keys, best)):
            best_ids[row, place] = ids[row, best[place]]
            best_scores[row, place] = scores[row, best[place]]


@numba.njit(cache=True, nogil=True)
def best_positions(ids, scores, keys, best):  # type: ignore[no-untyped-def]
    """Write the positions of the best candidates to `best`, best first, as many as fit; return how many there are.

    `keys` is scratch space with one entry per candidate.
    """
    bits = scores.view(np.int32)
    n_present = 0
    for position in range(len(ids)):
        if ids[position] != ABSENT:
            keys[n_present] = _key(ids[position], bits[position])
            n_present += 1
    n_best = min(n_present, len(best))
    threshold = _kth_largest(keys, n_present, n_best) if n_best < n_present else _LOWEST_KEY

    n = 0
    for position in range(len(ids)):
        key = _key(ids[position], bits[position])
        if ids[position] != ABSENT and key > threshold:
            keys[n], best[n] = key, position
            n += 1
    for position in range(len(ids)):
        if n == n_best:
            break
        if ids[position] != ABSENT and _key(ids[position], bits[position]) == threshold:
            keys[n], best[n] = threshold, position
            n += 1
    _sort_descending(keys, best, n)
    return n


@numba.njit(cache=True, nogil=True)
def _key(label, bits):  # type: ignore[no-untyped-def]
    """Make an integer that is larger for a larger score, given as the bits of a float32, and for a smaller id."""
    if bits == _NEGATIVE_ZERO:
        bits = np.int32(0)  # -0.0 equals 0.0
    ordered = np.int64(bits ^ (bits >> 31 & 0x7FFFFFFF))
    return ordered << 32 | np.int64(0x7FFFFFFF) - label


@numba.njit(cache=True, nogil=True)
def _kth_largest(keys, n, k):  # type: ignore[no-untyped-def]
    """Find the k-th largest of the first n keys, all different, by quickselect, which reorders them."""
    first, stop, target = 0, n, n - k
    while stop - first > 1:
        one, two, three = keys[first], keys[(first + stop) >> 1], keys[stop - 1]
        pivot = max(min(one, two), min(max(one, two), three))
        n_less = first
        for position in range(first, stop):
            key = keys[position]
            keys[position] = keys[n_less]
            keys[n_less] = key
            n_less += key < pivot
        if target < n_less:
            stop = n_less
        elif n_less > first:
            first = n_less
        else:  # nothing is less than the pivot: it goes to the front, and is done with
            for position in range(first, stop):
                if keys[position] == pivot:
                    keys[position], keys[first] = keys[first], pivot
                    break
            first += 1
            if target < first:
                return pivot
    return keys[target]


@numba.njit(cache=True, nogil=True)
def _sort_descending(keys, best, n):  # type: ignore[no-untyped-def]
    """Sort the first n keys, and `best` with them, by Shell sort: n is usually small."""
    gap = 1
    while 3 * gap + 1 < n:
        gap = 3 * gap + 1
    while gap > 0:
        for place in range(gap, n):
            key, value = keys[place], best[place]
            while place >= gap and keys[place - gap] < key:
                keys[place], best[place] = keys[place - gap], best[place - gap]
                place -= gap
            keys[place], best[place] = key, value
        gap //= 3
