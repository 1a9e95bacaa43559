from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.tree import label_features


def corpus(n_documents: int = 60, n_words: int = 30, n_labels: int = 25) -> tuple[sp.csr_array, sp.csr_array]:
    rng = np.random.default_rng(0)
    X = rng.random((n_documents, n_words)) * (rng.random((n_documents, n_words)) < 0.2)
    Y = (rng.random((n_documents, n_labels)) < 0.1).astype(np.float32)
    Y[:, [0, 7, n_labels - 1]] = 0
    return sp.csr_array(X.astype(np.float32)), sp.csr_array(Y)


def brute_force(X: sp.csr_array, Y: sp.csr_array, max_features: int) -> np.ndarray:
    features = np.zeros((Y.shape[1], X.shape[1]))
    for label in range(Y.shape[1]):
        for document in np.flatnonzero(Y.toarray()[:, label]):
            features[label] += X.toarray()[document]
        features[label, np.argsort(-features[label])[max_features:]] = 0
        features[label] /= np.linalg.norm(features[label]) or 1
    return features


@pytest.mark.parametrize("block_entries", [1, 50, 10**6])
@pytest.mark.parametrize("max_features", [None, 1, 5, 1000])
def test_equals_a_brute_force(max_features, block_entries):
    X, Y = corpus()
    features = label_features(X, Y, max_features, block_entries)
    assert features.dtype == np.float32
    assert features.has_sorted_indices
    np.testing.assert_allclose(features.toarray(), brute_force(X, Y, max_features or 1000), atol=1e-6)


def test_labels_without_documents_have_empty_rows():
    features = label_features(*corpus())
    assert np.diff(features.indptr)[[0, 7, 24]].tolist() == [0, 0, 0]


@pytest.mark.parametrize("max_features", [None, 3])
def test_documents_without_words_give_empty_rows(max_features):
    X, Y = sp.csr_array((4, 6), dtype=np.float32), sp.csr_array(np.ones((4, 2), dtype=np.float32))
    assert label_features(X, Y, max_features).nnz == 0


def test_equally_strong_words_are_cut_to_the_number_asked_for():
    X, Y = sp.csr_array(np.ones((1, 6), dtype=np.float32)), sp.csr_array(np.ones((1, 1), dtype=np.float32))
    assert label_features(X, Y, max_features=4).nnz == 4


def test_integer_targets_and_spmatrix_are_welcome():
    X, Y = corpus()
    same = label_features(sp.csr_matrix(X), sp.csr_matrix(Y.astype(np.int8)))
    np.testing.assert_array_equal(same.toarray(), label_features(X, Y).toarray())


def test_no_labels():
    assert label_features(sp.csr_array((3, 6), dtype=np.float32), sp.csr_array((3, 0))).shape == (0, 6)
