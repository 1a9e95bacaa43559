"""One-vs-rest for many labels, each classifier learning from the documents that matter to it.

Of a hundred thousand documents without a label, all but some hundreds are on their side of the margin with room to
spare and change nothing. So a label begins with its own documents and a few others; what it has learned is held against
all documents, those on the wrong side of the margin join, and so on until there are none. Documents are gone through
once for `LANES` labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.linear.solver import mixed_state, solve

# Labels that documents are multiplied with at once: looking a feature up takes longer than its products.
LANES = 32
# Documents of other labels that a label begins with; no fewer join at once.
LEAST_JOINING = 256
# Labels of one call; more than the lanes, so that few of them are empty at its end.
CALL_LABELS = 512
# Their margins stay in the second cache of a core.
BLOCK_DOCUMENTS = 2048
_N_BINS = 64


class Block(NamedTuple):
    """Some documents by feature: what a feature weighs is looked up once for all that have it."""

    rows: range
    features: NDArray[np.int32]
    """Those that any of the documents has, in order."""
    ends: NDArray[np.int64]
    places: NDArray[np.int32]
    """Who has each feature: the place of the document in the block."""
    values: NDArray[np.float32]

    @classmethod
    def of(cls, features: sp.csr_array, rows: range) -> Block:
        """Turn some documents around."""
        by_feature = sp.csc_array(features[rows.start : rows.stop])
        ends = by_feature.indptr[1:]
        present = np.flatnonzero(np.diff(by_feature.indptr))
        places = by_feature.indices.astype(np.int32, copy=False)
        return cls(rows, present.astype(np.int32), ends[present].astype(np.int64), places, by_feature.data)

    def margins(
        self, by_feature: NDArray[np.float32], used: NDArray[np.bool_], biases: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Multiply the documents with weights (features, lanes), and add the biases: (lanes, documents).

        Weights of features that are not used are zero.
        """
        sums = np.empty((len(self.rows), len(biases)), np.float32)
        sums[:] = biases
        add_products(self.features, self.ends, self.places, self.values, by_feature, used, sums)
        return sums.T


@dataclass(frozen=True)
class _Problem:
    """The documents, the labels they have, and how closely classifiers are to be trained."""

    features: sp.csr_array
    squares: NDArray[np.float32]
    blocks: list[Block]
    """The documents once more, by feature."""
    targets: sp.csc_array
    C: float
    prune: float
    tolerance: float
    max_passes: int
    seed: int

    def documents_of(self, label: int) -> NDArray[np.int32]:
        """Give the documents that have a label."""
        rows: NDArray[np.int32] = self.targets.indices[self.targets.indptr[label] : self.targets.indptr[label + 1]]
        return rows

    @property
    def answered(self) -> NDArray[np.float32]:
        """Say which labels all documents have (1) or none (-1): they need no words to be told from the rest."""
        counts = np.diff(self.targets.indptr)
        return np.where(counts == self.features.shape[0], 1, np.where(counts == 0, -1, 0)).astype(np.float32)


class _Classifier(NamedTuple):
    label: int
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    bias: float


_NO_WEIGHTS = np.empty(0, np.int32), np.empty(0, np.float32)


@dataclass
class _Lane:
    """A label at work: the documents that it learns from, and what it has learned."""

    problem: _Problem
    weights: NDArray[np.float32]  # (features,)
    margins: NDArray[np.float32]  # (documents,)
    label: int = -1
    bias: float = 0.0
    rows: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    signs: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    duals: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))

    def begin(self, label: int) -> None:
        """Take its documents, and some others that lie anywhere."""
        own, n_documents = self.problem.documents_of(label), self.problem.features.shape[0]
        rng = np.random.default_rng([self.problem.seed, label])
        drawn = rng.integers(0, n_documents, LEAST_JOINING).astype(np.int32)
        self.label, self.rows = label, own
        self.signs, self.duals = np.ones(len(own), np.float32), np.zeros(len(own), np.float32)
        self._join(np.setdiff1d(drawn, own))

    def _join(self, others: NDArray[np.int32]) -> None:
        self.rows = np.concatenate([self.rows, others])
        self.signs = np.concatenate([self.signs, np.full(len(others), -1, np.float32)])
        self.duals = np.concatenate([self.duals, np.zeros(len(others), np.float32)])

    def learn(self) -> None:
        """Solve for the documents that have joined so far, from where it was."""
        problem = self.problem
        features = problem.features
        self.bias = solve(
            self.rows, self.signs, features.indptr, features.indices, features.data, problem.squares, self.weights,
            self.duals, self.bias, problem.C, problem.tolerance, problem.max_passes,
            np.uint64(mixed_state(problem.seed, self.label)),
        )  # fmt: skip

    def join_wrong(self) -> bool:
        """Let documents join that are on the wrong side of the margin, the worst first; say whether there are any."""
        others = wrong_side(self.margins, self.rows, self.problem.tolerance - 1, max(len(self.rows), LEAST_JOINING))
        self._join(others)
        return len(others) > 0

    def finished(self) -> _Classifier:
        """Give what it has learned, and be free for another label."""
        large = (np.abs(self.weights) >= self.problem.prune) & (self.weights != 0)
        columns = np.flatnonzero(large).astype(np.int32)
        ready = _Classifier(self.label, columns, self.weights[columns], self.bias)
        self.label, self.bias, self.weights[:] = -1, 0.0, 0
        return ready


def train_one_vs_rest(
    features: sp.csr_array,
    targets: sp.csr_array,
    *,
    C: float,
    prune: float,
    tolerance: float,
    max_passes: int,
    seed: int,
    n_threads: int,
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[sp.csr_array, NDArray[np.float32]]:
    """Train a classifier for each label (column of `targets`), its documents against all others.

    No document is on the wrong side of a margin by more than `tolerance` that was not learned from. Gives the weights
    that are not small, (labels, features), and the biases.
    """
    by_label = sp.csc_array(targets)
    by_label.indices = by_label.indices.astype(np.int32)
    # Frequent features come first: what is read of their weights lies together.
    order = np.argsort(-np.bincount(features.indices, minlength=features.shape[1]), kind="stable").astype(np.int32)
    features = csr_view(features.data.copy(), _inverse(order)[features.indices], features.indptr, features.shape[1])
    features.sort_indices()
    squares = np.asarray(features.power(2).sum(axis=1)).ravel().astype(np.float32)
    blocks = [Block.of(features, rows) for rows in _ranges(features.shape[0], BLOCK_DOCUMENTS)]
    problem = _Problem(features, squares, blocks, by_label, C, prune, tolerance, max_passes, seed)
    ranges = _ranges(targets.shape[1], CALL_LABELS)
    with ThreadPoolExecutor(n_threads) as threads:
        parts = list(threads.map(partial(_trained, problem, advance), ranges))
    classifiers = [classifier for part in parts for classifier in part]
    bounds = np.cumsum([0, *(len(classifier.columns) for classifier in classifiers)])
    columns, values = (np.concatenate(x) for x in zip(_NO_WEIGHTS, *(c[1:3] for c in classifiers), strict=True))
    weights = csr_view(values, order[columns], bounds, features.shape[1])
    weights.sort_indices()
    return weights, np.array([classifier.bias for classifier in classifiers], np.float32)


def _trained(problem: _Problem, advance: Callable[[int], None], labels: range) -> list[_Classifier]:
    """Train the classifiers of some labels; as soon as one is ready, the next takes its lane."""
    n_documents, n_features = problem.features.shape
    weights, margins = np.zeros((LANES, n_features), np.float32), np.empty((LANES, n_documents), np.float32)
    by_feature, biases = np.zeros((n_features, LANES), np.float32), np.zeros(LANES, np.float32)
    lanes = [_Lane(problem, *arrays) for arrays in zip(weights, margins, strict=True)]
    answered = problem.answered
    ready = [_Classifier(label, *_NO_WEIGHTS, answered[label]) for label in labels if answered[label]]
    waiting = (label for label in labels if not answered[label])
    advance(len(ready))
    while busy := _busy(lanes, waiting):
        for lane in busy:
            lane.learn()
        biases[:] = [lane.bias for lane in lanes]
        by_feature[:] = weights.T
        used = np.asarray(weights.any(axis=0))
        for block in problem.blocks:
            margins[:, block.rows.start : block.rows.stop] = block.margins(by_feature, used, biases)
        finished = [lane.finished() for lane in busy if not lane.join_wrong()]
        ready.extend(finished)
        advance(len(finished))
    return sorted(ready, key=attrgetter("label"))


def _inverse(order: NDArray[np.int32]) -> NDArray[np.int32]:
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=np.int32)
    return places


def _ranges(n: int, step: int) -> list[range]:
    return [range(i, min(i + step, n)) for i in range(0, n, step)]


def _busy(lanes: list[_Lane], waiting: Iterator[int]) -> list[_Lane]:
    """Let waiting labels begin in the free lanes, and give the lanes that have one."""
    for lane in lanes:
        if lane.label < 0 and (label := next(waiting, -1)) >= 0:
            lane.begin(label)
    return [lane for lane in lanes if lane.label >= 0]


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def add_products(features, ends, places, values, by_feature, used, sums):  # type: ignore[no-untyped-def]
    """Add the products of documents, given by feature, and weights (features, lanes) to sums (documents, lanes)."""
    begin = 0
    for i in range(len(features)):
        feature = features[i]
        if used[feature]:  # a small table: to fetch weights from memory takes longer than all else
            for entry in range(begin, ends[i]):
                place, value = places[entry], values[entry]
                for lane in range(by_feature.shape[1]):
                    sums[place, lane] += value * by_feature[feature, lane]
        begin = ends[i]


@numba.njit(cache=True, nogil=True)
def wrong_side(margins, known, least, most):  # type: ignore[no-untyped-def]
    """Give the documents with a margin above `least`, but none that is known; of more than `most`, the highest.

    Those are about as many. Margins of the known ones are overwritten.
    """
    for row in known:
        margins[row] = -np.inf
    bound = _raised(margins, least, most)
    rows, n_rows = np.empty((margins > bound).sum(), np.int32), 0
    for row in range(len(margins)):
        if margins[row] > bound:
            rows[n_rows] = row
            n_rows += 1
    return rows


@numba.njit(cache=True, nogil=True)
def _raised(margins, least, most):  # type: ignore[no-untyped-def]
    """Raise a bound so that about `most` margins are above it, and at least one."""
    highest = max(margins.max(), least)
    if (margins > least).sum() <= most:
        return least
    counts, scale = np.zeros(_N_BINS, np.int64), _N_BINS / (highest - least)
    for margin in margins:
        if margin > least:
            place = np.int64((margin - least) * scale)
            counts[place if place < _N_BINS else _N_BINS - 1] += 1
    first, n_above = _N_BINS - 1, counts[_N_BINS - 1]
    while first > 0 and n_above + counts[first - 1] <= most:
        first -= 1
        n_above += counts[first]
    return least + first / scale
