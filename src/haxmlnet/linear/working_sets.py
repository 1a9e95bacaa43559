"""One-vs-rest for many labels, each classifier trained on a working set: the documents that matter to it.

Of a hundred thousand documents without a label, all but some hundreds are on their side of the margin with room to
spare and change nothing. So a label starts with its own documents and a few others; the classifier is applied to all
documents, those on the wrong side of the margin are added, and so on until there are none. `LANES` labels are trained
side by side, so that one pass over the documents gives the margins of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.linear.solver import SolverConfig, mix_seed, solve

# Labels that documents are multiplied with at once: to look a feature up takes longer than its multiplications.
LANES = 32
# Documents of other labels that a label starts with; later, at least as many may be added at once.
MIN_ADDED = 256
# Labels of one call; more than the lanes, so that few of them are empty at its end.
CALL_LABELS = 512
# The margins of so many documents stay in the L2 cache.
BLOCK_DOCUMENTS = 2048
_N_BINS = 64


class FeatureBlock(NamedTuple):
    """Some documents by feature: the weights of a feature are looked up once for all that have it."""

    rows: range
    features: NDArray[np.int32]
    """Those that any of the documents has, ascending."""
    ends: NDArray[np.int64]
    """Where the entries of each feature end."""
    places: NDArray[np.int32]
    """The place in the block of the document that has the feature."""
    values: NDArray[np.float32]

    @classmethod
    def from_rows(cls, features: sp.csr_array, rows: range) -> FeatureBlock:
        """Transpose some documents."""
        by_feature = sp.csc_array(features[rows.start : rows.stop])
        ends = by_feature.indptr[1:]
        present = np.flatnonzero(np.diff(by_feature.indptr))
        places = by_feature.indices.astype(np.int32, copy=False)
        return cls(rows, present.astype(np.int32), ends[present].astype(np.int64), places, by_feature.data)

    def margins(
        self, weights: NDArray[np.float32], used: NDArray[np.bool_], biases: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the margins (lanes, documents) of classifiers with weights (features, lanes).

        Weights of features that are not used are zero.
        """
        sums = np.empty((len(self.rows), len(biases)), np.float32)
        sums[:] = biases
        _add_dots(self.features, self.ends, self.places, self.values, weights, used, sums)
        return sums.T


@dataclass(frozen=True)
class _Problem:
    """The documents, the labels they have, and how closely classifiers are trained."""

    features: sp.csr_array  # (documents, features)
    squares: NDArray[np.float32]
    """The squared norm of each document."""
    blocks: list[FeatureBlock]
    targets: sp.csc_array  # (documents, labels)
    config: SolverConfig


class _Classifier(NamedTuple):
    label: int
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    bias: float


_NO_WEIGHTS = np.empty(0, np.int32), np.empty(0, np.float32)


@dataclass
class _Lane:
    """A label in training: its working set of documents, and the classifier so far."""

    problem: _Problem
    weights: NDArray[np.float32]  # (features,)
    margins: NDArray[np.float32]  # (documents,)
    label: int = -1
    bias: float = 0.0
    rows: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    signs: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    duals: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))

    def start(self, label: int) -> None:
        """Start with the documents of a label, and some others drawn at random."""
        targets, n_documents = self.problem.targets, self.problem.features.shape[0]
        own = targets.indices[targets.indptr[label] : targets.indptr[label + 1]]
        rng = np.random.default_rng([self.problem.config.seed, label])
        drawn = rng.integers(0, n_documents, MIN_ADDED).astype(np.int32)
        self.label, self.rows = label, own
        self.signs, self.duals = np.ones(len(own), np.float32), np.zeros(len(own), np.float32)
        self._add_negatives(np.setdiff1d(drawn, own))

    def _add_negatives(self, rows: NDArray[np.int32]) -> None:
        self.rows = np.concatenate([self.rows, rows])
        self.signs = np.concatenate([self.signs, np.full(len(rows), -1, np.float32)])
        self.duals = np.concatenate([self.duals, np.zeros(len(rows), np.float32)])

    def solve(self) -> None:
        """Train on the working set, from the classifier so far."""
        features, config = self.problem.features, self.problem.config
        self.bias = solve(
            self.rows, self.signs, features.indptr, features.indices, features.data, self.problem.squares,
            self.weights, self.duals, self.bias, config.C, config.tolerance, config.max_passes,
            np.uint64(mix_seed(config.seed, self.label)),
        )  # fmt: skip

    def add_violators(self) -> bool:
        """Add documents on the wrong side of the margin, the worst first; say whether there are any."""
        least = self.problem.config.tolerance - 1
        violators = find_violators(self.margins, self.rows, least, max(len(self.rows), MIN_ADDED))
        self._add_negatives(violators)
        return len(violators) > 0

    def finish(self) -> _Classifier:
        """Return the classifier without its small weights, and free the lane for another label."""
        large = (np.abs(self.weights) >= self.problem.config.prune) & (self.weights != 0)
        columns = np.flatnonzero(large).astype(np.int32)
        classifier = _Classifier(self.label, columns, self.weights[columns], self.bias)
        self.label, self.bias, self.weights[:] = -1, 0.0, 0
        return classifier


def train_one_vs_rest(
    features: sp.csr_array,
    targets: sp.csr_array,
    config: SolverConfig,
    n_threads: int = 1,
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[sp.csr_array, NDArray[np.float32]]:
    """Train a classifier for each label (column of `targets`), its documents against all others.

    In the end no document is on the wrong side of a margin by more than `config.tolerance` unless it was trained on.
    Gives the weights (labels, features) and the biases.
    """
    by_label = sp.csc_array(targets)
    by_label.indices = by_label.indices.astype(np.int32)
    # Renumber the features, frequent ones first: the weights that are read most then lie together.
    order = np.argsort(-np.bincount(features.indices, minlength=features.shape[1]), kind="stable").astype(np.int32)
    new_numbers = np.empty_like(order)
    new_numbers[order] = np.arange(len(order), dtype=np.int32)
    features = csr_view(features.data.copy(), new_numbers[features.indices], features.indptr, features.shape[1])
    features.sort_indices()

    squares = np.asarray(features.power(2).sum(axis=1)).ravel().astype(np.float32)
    blocks = [FeatureBlock.from_rows(features, rows) for rows in _cut_range(features.shape[0], BLOCK_DOCUMENTS)]
    problem = _Problem(features, squares, blocks, by_label, config)
    ranges = _cut_range(targets.shape[1], CALL_LABELS)
    with ThreadPoolExecutor(n_threads) as threads:
        parts = threads.map(lambda labels: _train_labels(problem, labels, advance), ranges)
        classifiers = [classifier for part in parts for classifier in part]

    bounds = np.cumsum([0, *(len(classifier.columns) for classifier in classifiers)])
    columns, values = (np.concatenate(x) for x in zip(_NO_WEIGHTS, *(c[1:3] for c in classifiers), strict=True))
    weights = csr_view(values, order[columns], bounds, features.shape[1])
    weights.sort_indices()
    return weights, np.array([classifier.bias for classifier in classifiers], np.float32)


def _cut_range(n: int, step: int) -> list[range]:
    return [range(i, min(i + step, n)) for i in range(0, n, step)]


def _train_labels(problem: _Problem, labels: range, advance: Callable[[int], None]) -> list[_Classifier]:
    """Train the classifiers of some labels; as soon as one is ready, the next takes its lane."""
    n_documents, n_features = problem.features.shape
    weights, margins = np.zeros((LANES, n_features), np.float32), np.empty((LANES, n_documents), np.float32)
    by_feature, biases = np.zeros((n_features, LANES), np.float32), np.zeros(LANES, np.float32)
    lanes = [_Lane(problem, *arrays) for arrays in zip(weights, margins, strict=True)]

    # Labels that all documents have (1), or none (-1), need no weights to be told from the rest.
    counts = np.diff(problem.targets.indptr)
    constant = np.where(counts == n_documents, 1, np.where(counts == 0, -1, 0)).astype(np.float32)
    classifiers = [_Classifier(label, *_NO_WEIGHTS, constant[label]) for label in labels if constant[label]]
    waiting = (label for label in labels if not constant[label])
    advance(len(classifiers))

    while True:
        for lane in lanes:
            if lane.label < 0 and (label := next(waiting, -1)) >= 0:
                lane.start(label)
        busy = [lane for lane in lanes if lane.label >= 0]
        if not busy:
            return sorted(classifiers, key=attrgetter("label"))
        for lane in busy:
            lane.solve()
        biases[:] = [lane.bias for lane in lanes]
        by_feature[:] = weights.T
        used = np.asarray(weights.any(axis=0))
        for block in problem.blocks:
            margins[:, block.rows.start : block.rows.stop] = block.margins(by_feature, used, biases)
        finished = [lane.finish() for lane in busy if not lane.add_violators()]
        classifiers.extend(finished)
        advance(len(finished))


@numba.njit(cache=True, nogil=True, fastmath={"contract"})
def _add_dots(features, ends, places, values, weights, used, sums):  # type: ignore[no-untyped-def]
    """Add the dot products of documents, given by feature, and weights (features, lanes) to sums (documents, lanes)."""
    begin = 0
    for i in range(len(features)):
        feature = features[i]
        if used[feature]:  # to look here is cheaper than to read zeros from memory
            for entry in range(begin, ends[i]):
                place, value = places[entry], values[entry]
                for lane in range(weights.shape[1]):
                    sums[place, lane] += value * weights[feature, lane]
        begin = ends[i]


@numba.njit(cache=True, nogil=True)
def find_violators(margins, working_set, least, most):  # type: ignore[no-untyped-def]
    """Return the documents with a margin above `least` that are not in the working set; if many, about the top `most`.

    Margins of the working set are overwritten.
    """
    for row in working_set:
        margins[row] = -np.inf
    bound = _raise_bound(margins, least, most)
    rows, n_rows = np.empty((margins > bound).sum(), np.int32), 0
    for row in range(len(margins)):
        if margins[row] > bound:
            rows[n_rows] = row
            n_rows += 1
    return rows


@numba.njit(cache=True, nogil=True)
def _raise_bound(margins, least, most):  # type: ignore[no-untyped-def]
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
