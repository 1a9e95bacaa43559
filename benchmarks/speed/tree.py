"""The label tree: label features in, groups out, against libpecos' Indexer on the same matrix."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.measuring import Figures, run_alone
from benchmarks.speed.row import PEERS_PYTHON, Row, Run, at_least, at_most, needed, run_command
from benchmarks.synthetic import SyntheticData
from haxmlnet.data import replace_file
from haxmlnet.text.tfidf import inverse_document_frequency, tfidf, word_counts
from haxmlnet.tree import build_label_tree, choose_level_sizes, label_features

DATA = "amazon-670k"
LEAF_SIZE = 100
FEATURES_PER_LABEL = 1000
"""As many as training takes."""
WARM_UP_LABELS = 3_000
GROUPS_AT_ONCE = 512


def tree(run: Run) -> Iterator[Row]:
    """Build both trees, each in a process of its own, and compare their time and how alike labels of a group are."""
    needed(PEERS_PYTHON)
    folder = run.folder(f"tree-{DATA}-{run.scale:g}-{run.seed}")
    matrix, ours, theirs = folder / "features.npz", folder / "ours.npy", folder / "pecos.npy"
    if not matrix.exists():
        run_alone(write_label_features, run.scale, run.seed, matrix)
    figures = run_alone(partition_labels, matrix, run.threads, run.seed, ours)
    leaf = (LEAF_SIZE, run.threads, run.seed)
    peer = json.loads(run_command([PEERS_PYTHON, "-m", "benchmarks.speed.pecos_tree", matrix, *map(str, leaf), theirs]))
    details = {**figures, "pecos_seconds": peer["seconds"], **run_alone(compare_groups, matrix, ours, theirs)}
    what = f"tree: {details['labels']:,} labels"
    yield at_most(f"{what}, time over libpecos'", figures["seconds"] / peer["seconds"], "x", 1.0, details)
    cosines = {name: details[name] for name in ("in_group_cosine", "pecos_in_group_cosine")}
    yield at_least(
        f"{what}, in-group cosine", details["in_group_cosine"], "", details["pecos_in_group_cosine"], cosines
    )


def write_label_features(scale: float, seed: int, path: Path) -> Figures:
    """Make the label features of synthetic documents."""
    data = SyntheticData.of(DATA, scale, seed)
    tokens, targets = data.arrays("train")
    counts = word_counts(tokens, data.statistics.n_words + 2)
    frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
    documents = tfidf(counts, inverse_document_frequency(frequencies, counts.shape[0]))
    features = label_features(documents, targets, FEATURES_PER_LABEL)
    with replace_file(path) as temporary, open(temporary, "wb") as stream:
        sp.save_npz(stream, sp.csr_matrix(features), compressed=False)
    return {}


def partition_labels(matrix: Path, n_threads: int, seed: int, out: Path) -> Figures:
    """Build our tree after a warm-up and write the group of each label."""
    numba.set_num_threads(min(n_threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    features = read_matrix(matrix)
    sizes = choose_level_sizes(features.shape[0], LEAF_SIZE, features.shape[0] + 2, 2)
    _build(features[:WARM_UP_LABELS], choose_level_sizes(WARM_UP_LABELS, 20, WARM_UP_LABELS, 2), seed)
    gc.collect()
    started = time.perf_counter()
    groups = _build(features, sizes, seed)
    seconds = time.perf_counter() - started
    np.save(out, groups)
    return {
        "seconds": seconds,
        "labels": features.shape[0],
        "words": features.shape[1],
        "entries": int(features.nnz),
        "groups": int(groups.max()) + 1,
    }


def _build(features: sp.csr_array, sizes: list[int], seed: int) -> NDArray[np.int32]:
    return build_label_tree(features, sizes, np.random.default_rng(seed)).parents[-1]


def compare_groups(matrix: Path, ours: Path, theirs: Path) -> Figures:
    """Compare how alike the labels of a group are."""
    features = read_matrix(matrix)
    figures: dict[str, Any] = {}
    for prefix, file in (("", ours), ("pecos_", theirs)):
        groups = np.load(file, allow_pickle=False)
        sizes = np.bincount(groups)
        figures[f"{prefix}in_group_cosine"] = in_group_cosine(features, groups)
        figures[f"{prefix}group_sizes"] = [int(sizes.min()), int(sizes.max())]
    return figures


def read_matrix(path: Path) -> sp.csr_array:
    """Read a matrix written by scipy."""
    return sp.csr_array(sp.load_npz(path))


def in_group_cosine(features: sp.csr_array, groups: NDArray[np.int32]) -> float:
    """Return the mean over labels of the cosine with the centre of their group; rows have length one.

    The cosines of a group with its centre add up to the length of its sum.
    """
    n_groups, n_labels = int(groups.max()) + 1, len(groups)
    members = sp.csr_array(
        (np.ones(n_labels, np.float32), (groups, np.arange(n_labels, dtype=np.int32))), shape=(n_groups, n_labels)
    )
    total = 0.0
    for start in range(0, n_groups, GROUPS_AT_ONCE):
        sums = members[start : start + GROUPS_AT_ONCE] @ features
        total += float(np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1), np.float64)).sum())
    return total / n_labels
