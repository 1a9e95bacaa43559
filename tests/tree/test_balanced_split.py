from __future__ import annotations

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from haxmlnet.tree import balanced_partition

BOTH_WAYS = pytest.mark.parametrize("wide_set_size", [0, 10**6], ids=["threads share a set", "set per thread"])


def unit_rows(n_labels: int, width: int = 40, seed: int = 0) -> sp.csr_array:
    """Random sparse rows of unit length; some are empty."""
    rng = np.random.default_rng(seed)
    dense = rng.random((n_labels, width)) * (rng.random((n_labels, width)) < 0.1)
    norms = np.linalg.norm(dense, axis=1, keepdims=True)
    return sp.csr_array((dense / np.where(norms > 0, norms, 1)).astype(np.float32))


def clustered_rows(n_clusters: int, size: int, seed: int = 0) -> tuple[sp.csr_array, np.ndarray]:
    """Rows that share words only within their cluster, in random order, and the cluster of each."""
    rng = np.random.default_rng(seed)
    clusters = rng.permutation(np.repeat(np.arange(n_clusters), size))
    dense = np.zeros((len(clusters), 4 * n_clusters), dtype=np.float32)
    for column in range(4):
        dense[np.arange(len(clusters)), 4 * clusters + column] = 1 + 0.1 * rng.random(len(clusters))
    return sp.csr_array(dense / np.linalg.norm(dense, axis=1, keepdims=True)), clusters


def mean_similarity(features: sp.csr_array, index: np.ndarray) -> float:
    sums = [features[index == i].sum(axis=0) for i in np.unique(index)]
    return float(sum(np.linalg.norm(total) for total in sums)) / features.shape[0]


@settings(max_examples=60, deadline=None)
@given(n_labels=st.integers(1, 3000), depth=st.integers(0, 12), wide_set_size=st.sampled_from([1000, 10**6]))
def test_set_sizes_differ_by_at_most_one_at_every_depth(n_labels, depth, wide_set_size):
    index = balanced_partition(unit_rows(n_labels), depth, np.random.default_rng(n_labels), wide_set_size)
    assert index.shape == (n_labels,)
    assert index.dtype == np.int32
    for shallower in range(depth + 1):
        sizes = np.bincount(index >> (depth - shallower), minlength=2**shallower)
        assert len(sizes) == 2**shallower
        assert np.ptp(sizes) <= 1


@BOTH_WAYS
def test_two_separate_clusters_are_found(wide_set_size):
    features, clusters = clustered_rows(2, 100)
    for seed in range(10):
        index = balanced_partition(features, 1, np.random.default_rng(seed), wide_set_size)
        assert len(set(zip(clusters.tolist(), index.tolist(), strict=True))) == 2


@BOTH_WAYS
def test_the_best_of_ten_starts_finds_clusters_of_clusters(wide_set_size):
    fine, clusters = clustered_rows(4, 64)
    coarse = sp.csr_array(np.repeat(np.eye(2, dtype=np.float32), 2, axis=0)[clusters] * 3)
    features = sp.csr_array(sp.hstack([fine, coarse]) / np.float32(np.sqrt(10)))
    tries = [balanced_partition(features, 2, np.random.default_rng(i), wide_set_size) for i in range(10)]
    index = max(tries, key=lambda index: mean_similarity(features, index >> 1))
    assert len(set(zip(clusters.tolist(), index.tolist(), strict=True))) == 4
    assert len(set(zip((clusters // 2).tolist(), (index >> 1).tolist(), strict=True))) == 2


@BOTH_WAYS
@pytest.mark.parametrize("n_labels", [501, 300], ids=["sample first", "all labels at once"])
def test_a_split_is_what_a_plain_numpy_2_means_gives(wide_set_size, n_labels):
    if wide_set_size == 0 and n_labels < 400:
        pytest.skip("sets that threads share are large, and always split by a sample first")
    features = unit_rows(n_labels, seed=3)
    index = balanced_partition(features, 1, np.random.default_rng(5), wide_set_size)
    assert np.array_equal(index, plain_bisection(features.toarray().astype(np.float64), np.random.default_rng(5)))


def test_words_that_one_label_of_a_set_has_count_as_well():
    features = sp.csr_array(sp.hstack([unit_rows(301, seed=4), sp.eye_array(301, dtype=np.float32)]) / np.sqrt(2))
    index = balanced_partition(features, 1, np.random.default_rng(6))
    assert np.array_equal(index, plain_bisection(features.toarray().astype(np.float64), np.random.default_rng(6)))


def plain_bisection(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Best of four starts of five iterations, on every eighth row if there are 400; then that sample; then all."""
    draws, size = rng.random((2, 1, 4))[:, 0], len(rows)
    firsts = (draws[0] * size).astype(int)
    seconds = (firsts + 1 + (draws[1] * (size - 1)).astype(int)) % size
    sample = rows[::8] if size >= 400 else rows
    tries = [plain_iterations(sample, rows[[a, b]], 5) for a, b in zip(firsts, seconds, strict=True)]
    centres = max(tries, key=lambda found: found[0])[1]
    if size >= 400:
        centres = plain_iterations(sample, centres, 50)[1]
    index = np.zeros(size, dtype=np.int32)
    index[plain_iterations(rows, centres, 50)[2]] = 1
    return index


def plain_iterations(rows: np.ndarray, centres: np.ndarray, n: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Give the mean similarity, the centres and the right half."""
    similarity, half = -np.inf, (len(rows) + 1) // 2
    for _ in range(n):
        ranked = np.argsort(-(rows @ (centres[0] - centres[1])), kind="stable")
        sums = np.array([rows[ranked[:half]].sum(axis=0), rows[ranked[half:]].sum(axis=0)])
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        previous, similarity, centres = similarity, norms.sum() / len(rows), sums / norms
        if similarity - previous < 1e-6:
            break
    return similarity, centres, ranked[half:]


def test_similar_labels_come_together():
    features = unit_rows(1000)
    rng = np.random.default_rng(0)
    at_random = mean_similarity(features, rng.permutation(1000) % 32)
    assert mean_similarity(features, balanced_partition(features, 5, rng)) > 1.3 * at_random


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
@BOTH_WAYS
def test_result_does_not_depend_on_the_number_of_threads(wide_set_size):
    features = unit_rows(2000)
    results = []
    try:
        for n_threads in (1, 2, 2):
            numba.set_num_threads(n_threads)
            results.append(balanced_partition(features, 4, np.random.default_rng(1), wide_set_size))
    finally:
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[1], results[2])


def test_seeds_give_different_trees():
    features = unit_rows(2000)
    a, b = (balanced_partition(features, 6, np.random.default_rng(seed)) for seed in (1, 2))
    assert not np.array_equal(a, b)


def test_wide_indices_give_the_same_sets():
    features = unit_rows(300)
    wide = features.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    a, b = (balanced_partition(m, 4, np.random.default_rng(1)) for m in (features, wide))
    assert np.array_equal(a, b)


@BOTH_WAYS
def test_labels_without_features_fill_up_the_sets(wide_set_size):
    features, clusters = clustered_rows(2, 30)
    features = sp.csr_array(sp.vstack([features, sp.csr_array((40, features.shape[1]), dtype=np.float32)]))
    index = balanced_partition(features, 1, np.random.default_rng(0), wide_set_size)
    assert np.bincount(index).tolist() == [50, 50]
    assert len(set(zip(clusters.tolist(), index[:60].tolist(), strict=True))) == 2


@BOTH_WAYS
@pytest.mark.parametrize("width", [0, 5])
def test_labels_that_are_all_alike_are_split_by_position(wide_set_size, width):
    features = sp.csr_array(np.full((21, width), width**-0.5 if width else 0, dtype=np.float32))
    index = balanced_partition(features, 1, np.random.default_rng(0), wide_set_size)
    assert index.tolist() == [0] * 11 + [1] * 10


def test_one_label_and_none():
    assert balanced_partition(unit_rows(1), 0, np.random.default_rng(0)).tolist() == [0]
    assert balanced_partition(sp.csr_array((0, 5)), 0, np.random.default_rng(0)).tolist() == []
