"""Predictions to figures, by haxmlnet's metrics, the same for every method."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from benchmarks.calibration import Reliability, reliability
from benchmarks.peers.exchange import ABSENT, N_BEST
from haxmlnet.metrics import evaluate, frequency_buckets, judge, propensities, propensity_gains

PARTS = ("head", "torso", "tail")
RANKED = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "RP@5", "PSP@1", "PSP@3", "PSP@5")
METRICS = (*RANKED, *(f"{part} P@5" for part in PARTS))
"""In percent; each is a sum over documents divided by another."""


@dataclass(frozen=True)
class Truth:
    """What predictions are judged by."""

    matrix: sp.csr_array
    """The judged documents' labels; columns after those of training are labels that training never saw."""
    counts: NDArray[np.int64]
    n_train: int

    @classmethod
    def read(cls, inputs: Path) -> Truth:
        """Read it from the files that the methods were given."""
        matrix = sp.csr_array(sp.load_npz(inputs / "truth.npz"))
        train = sp.csr_array(sp.load_npz(inputs / "labels_train.npz"))
        return cls(matrix, np.bincount(train.indices, minlength=matrix.shape[1]), train.shape[0])


@dataclass(frozen=True)
class Judgement:
    """The figures of one run."""

    values: dict[str, float]
    reliability: Reliability
    psp_of_seen: dict[str, float]
    """PSP where true labels that training never saw do not count as missed, as some publish it."""


def read_predictions(path: Path) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Read ids and scores of the best labels, (documents, K)."""
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["ids"][:, :N_BEST], arrays["scores"][:, :N_BEST]


def judge_predictions(ids: NDArray[np.int32], scores: NDArray[np.float32], truth: Truth) -> Judgement:
    """Return all figures of a ranking."""
    report = evaluate(ids, truth.matrix, truth.counts, truth.n_train)
    parts = {f"{bucket.name} P@5": bucket.values["P@5"] for bucket in report.buckets if bucket.name in PARTS}
    values = {name: report.values[name] for name in RANKED} | {f"{part} P@5": 0.0 for part in PARTS} | parts
    present = ids != ABSENT
    bins = reliability(scores[present], judge(ids, truth.matrix).hits[present])
    n_seen = int(np.count_nonzero(truth.counts))
    seen = evaluate(ids, truth.matrix[:, :n_seen], truth.counts[:n_seen], truth.n_train).values
    psp_of_seen = {name: seen[name] for name in RANKED if name.startswith("PSP")}
    return Judgement({**values, "ECE": bins.expected_error}, bins, psp_of_seen)


def document_values(ids: NDArray[np.int32], truth: Truth) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return numerator and denominator of every metric for each document, both (documents, metrics).

    Their sums over the documents give the metric; so a resampled set of documents needs only new sums.
    """
    judged = judge(ids, truth.matrix)
    hits, n_true = judged.hits, judged.n_true
    gains = propensity_gains(judged, propensities(truth.counts, truth.n_train), N_BEST)
    bucket = np.append(frequency_buckets(truth.counts), -1)[ids]  # -1 is where a document has fewer labels
    one = np.ones(len(ids))
    columns = {f"P@{k}": (hits[:, :k].sum(1) / k, one) for k in (1, 3, 5)}
    columns |= {f"nDCG@{k}": (_share(_dcg(hits, k), _best_dcg(n_true, k)), one) for k in (3, 5)}
    columns["RP@5"] = (_share(hits[:, :5].sum(1), np.minimum(n_true, 5)), one)
    columns |= {f"PSP@{k}": (gains.reached[:, :k].sum(1), gains.best[:, :k].sum(1)) for k in (1, 3, 5)}
    columns |= {f"{part} P@5": ((hits & (bucket == i)).sum(1) / 5, one) for i, part in enumerate(PARTS)}
    numerators, denominators = zip(*(columns[name] for name in METRICS), strict=True)
    return np.stack(numerators, axis=1), np.stack(denominators, axis=1)


def _dcg(hits: NDArray[np.bool_], k: int) -> NDArray[np.float64]:
    return np.asarray(hits[:, :k] @ (1 / np.log2(np.arange(hits[:, :k].shape[1]) + 2)))


def _best_dcg(n_true: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    return np.append(0, np.cumsum(1 / np.log2(np.arange(k) + 2)))[np.minimum(n_true, k)]


def _share(part: ArrayLike, whole: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)
