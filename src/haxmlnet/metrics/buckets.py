"""Metrics by label frequency: what the head, the torso and the tail of the labels contribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from haxmlnet.metrics.top_k import Judged

BUCKETS = ("head", "torso", "tail", "unseen")


@dataclass(frozen=True)
class Bucket:
    """The labels of one frequency range: how many, how often true, and their P@k and R@k in percent."""

    name: str
    n_labels: int
    min_frequency: int
    max_frequency: int
    n_true: int
    values: dict[str, float]


def frequency_buckets(label_counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """Assign every label a bucket, an index into head, torso, tail, unseen.

    A label is head if the labels more frequent than it hold less than a third of all training assignments,
    torso if they hold less than two thirds, and tail otherwise; unseen if no training document has it. So
    each of the three holds about a third of the assignments, and labels of equal frequency are never parted.
    """
    counts = np.asarray(label_counts)
    frequencies, group = np.unique(counts, return_inverse=True)
    held = frequencies * np.bincount(group, minlength=len(frequencies))
    held_above = held.sum() - np.cumsum(held)
    # In integers, so that a share of exactly one third falls on the same side on every machine.
    bucket = np.minimum(3 * held_above // max(held.sum(), 1), 2)
    return np.where(counts == 0, 3, bucket[group]).astype(np.int64)


def bucket_table(judged: Judged, label_counts: NDArray[np.integer], ks: Sequence[int] = (1, 3, 5)) -> list[Bucket]:
    """Compute P@k and R@k of each bucket that holds a label, most frequent first; see `frequency_buckets`.

    P@k is a bucket's hits over k times the documents, so the buckets' P@k add up to the P@k of all labels.
    R@k is its hits over its true labels, counted over all documents together, and 0 where `n_true` is 0.
    """
    counts = np.asarray(label_counts)
    bucket = frequency_buckets(counts)
    n_true = np.bincount(bucket[judged.truth.indices], minlength=len(BUCKETS))
    n_hits = {}
    for k in ks:
        hit_ids = judged.ids[:, :k][judged.hits[:, :k]]
        n_hits[k] = np.bincount(bucket[hit_ids], minlength=len(BUCKETS))
    table = []
    for index, name in enumerate(BUCKETS):
        members = counts[bucket == index]
        if len(members):
            precision = {f"P@{k}": float(100 * n_hits[k][index] / (k * len(judged.ids))) for k in ks}
            recall = {f"R@{k}": float(100 * n_hits[k][index] / max(n_true[index], 1)) for k in ks}
            low, high = int(members.min()), int(members.max())
            table.append(Bucket(name, len(members), low, high, int(n_true[index]), precision | recall))
    return table
