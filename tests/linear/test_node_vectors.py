from __future__ import annotations

from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from haxmlnet.data.arrays import csr_view, map_array, release_pages
from haxmlnet.linear.document_blocks import block_of
from haxmlnet.linear.node_vectors import NodeVectors
from haxmlnet.linear.siblings import SiblingWeights, group_siblings
from haxmlnet.ranking import ABSENT


def random_rows(n_rows: int, n_columns: int, density: float, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.random_array((n_rows, n_columns), density=density, rng=rng, dtype=np.float32, format="csr")


def random_parents(n_nodes: int, n_parents: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, n_parents, n_nodes).astype(np.int32)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 25), st.sampled_from([0, 0.1, 0.6]), st.integers(0, 99))
def test_weights_come_back_as_they_were(n_nodes, n_parents, n_features, density, seed):
    weights = random_rows(n_nodes, n_features, density, seed)
    weights.sort_indices()
    vectors = NodeVectors.from_matrix(weights, random_parents(n_nodes, n_parents, seed))
    matrix = vectors.to_matrix()
    assert matrix.shape == weights.shape
    for part in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(matrix, part), getattr(weights, part))
    for node in range(n_nodes):
        features, values = vectors.vector(node)
        np.testing.assert_array_equal(features, weights.indices[weights.indptr[node] : weights.indptr[node + 1]])
        np.testing.assert_array_equal(values, weights.data[weights.indptr[node] : weights.indptr[node + 1]])


def test_weights_of_a_file_are_laid_out_block_by_block(tmp_path):
    weights, parent_of = random_rows(60, 30, 0.3, 0), random_parents(60, 9, 1)
    expected = group_siblings(weights, parent_of)
    for name in ("data", "indices"):
        np.save(tmp_path / f"{name}.npy", getattr(weights, name))
    values, columns = (map_array(tmp_path / f"{name}.npy") for name in ("data", "indices"))
    mapped = csr_view(values, columns, weights.indptr, 30)
    for at_once, n_blocks in ((1, 9), (2**12, 1)):  # nine parents
        with (
            mock.patch("haxmlnet.linear.siblings.GROUPED_AT_ONCE", at_once),
            mock.patch("haxmlnet.linear.siblings.release_pages", wraps=release_pages) as released,
        ):
            grouped = group_siblings(mapped, parent_of)
        assert released.call_count == 2 * n_blocks  # counted, then filled
        for name, array in expected._asdict().items():
            np.testing.assert_array_equal(getattr(grouped, name), array, err_msg=name)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 25), st.sampled_from([0, 0.1, 0.6]), st.integers(0, 99))
def test_named_arrays_make_the_same_layout(n_nodes, n_parents, n_features, density, seed):
    parent_of = random_parents(n_nodes, n_parents, seed)
    grouped = group_siblings(random_rows(n_nodes, n_features, density, seed), parent_of)
    for checked_at_once in (3, 2**22):
        with mock.patch("haxmlnet.linear.siblings.CHECKED_AT_ONCE", checked_at_once):
            back = SiblingWeights.from_arrays(grouped.to_arrays(), parent_of, n_features)
        for name, expected in grouped._asdict().items():
            np.testing.assert_array_equal(getattr(back, name), expected)


def put(array: np.ndarray, position: int, value: int) -> np.ndarray:
    changed = array.copy()
    changed[position] = value
    return changed


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("features", lambda features: put(features, 2, 40)),
        ("features", lambda features: put(features, 2, -1)),
        ("features", lambda features: features[:-1]),
        ("places", lambda places: put(places, 5, 30)),
        ("places", lambda places: places[:-1]),
        ("values", lambda values: values[:-1]),
        ("feature_starts", lambda starts: put(starts, 1, starts[2] + 1)),
        ("feature_starts", lambda starts: starts[:-1]),
        ("weight_starts", lambda starts: put(starts, 0, 1)),
        ("weight_starts", lambda starts: put(starts, 2, starts[2] + 1)),
        ("weight_ends", lambda ends: put(ends, 3, 1000)),
        ("weight_ends", lambda ends: put(ends, len(ends) - 1, 1000)),
        ("weight_ends", lambda ends: put(ends, 0, -1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("checked_at_once", [1, 2**22])
def test_named_arrays_that_do_not_fit_are_refused(name, change, checked_at_once, monkeypatch):
    monkeypatch.setattr("haxmlnet.linear.siblings.CHECKED_AT_ONCE", checked_at_once)
    parent_of = random_parents(30, 4, 3)
    arrays = group_siblings(random_rows(30, 40, 0.4, 1), parent_of).to_arrays()
    with pytest.raises(ValueError, match=r"fit|feature|parent|length"):
        SiblingWeights.from_arrays({**arrays, name: change(arrays[name])}, parent_of, 40)


def test_siblings_stand_together_with_their_features_in_order():
    weights = sp.csr_array(np.array([[0, 2, 0], [5, 0, 0], [1, 3, 0]], np.float32))
    grouped = group_siblings(weights, np.array([1, 0, 1], np.int32))
    assert grouped.nodes.tolist() == [1, 0, 2]
    assert grouped.features.tolist() == [0, 0, 1]
    assert grouped.values.tolist() == [5, 1, 2, 3]
    assert grouped.places.tolist() == [0, 1, 0, 1]


# The features of many documents are looked up in a table, those of a few short ones by binary search.
@pytest.mark.parametrize(("n_documents", "n_features", "density"), [(200, 40, 0.3), (3, 2000, 0.002), (1, 40, 0.0)])
def test_dot_products_are_those_of_dense_matrices(n_documents, n_features, density):
    documents, vectors = random_rows(n_documents, n_features, density, 0), random_rows(30, n_features, 0.4, 1)
    nodes = np.random.default_rng(2).integers(-1, 30, (n_documents, 7)).astype(np.int32)
    dots = NodeVectors.from_matrix(vectors, random_parents(30, 4, 3)).dot(
        block_of(documents, range(documents.shape[0])), nodes
    )
    dense = (documents @ vectors.T).toarray()
    expected = np.where(nodes == ABSENT, 0, np.take_along_axis(dense, np.maximum(nodes, 0), 1))
    np.testing.assert_allclose(dots, expected, rtol=1e-5, atol=1e-6)


def test_dot_products_with_children_are_those_with_each_child():
    documents, vectors = random_rows(20, 50, 0.3, 0), random_rows(30, 50, 0.4, 1)
    grouped = NodeVectors.from_matrix(vectors, random_parents(30, 4, 3))
    parents = np.array([[2, 0, ABSENT]] * 20, np.int32)
    dots = grouped.dot_children(block_of(documents, range(documents.shape[0])), parents)
    assert dots.shape == (20, 3, grouped.max_siblings)
    for place, parent in enumerate((2, 0)):
        children = np.flatnonzero(grouped.parent_of == parent).astype(np.int32)
        expected = (documents @ vectors[children].T).toarray()
        np.testing.assert_allclose(dots[:, place, : len(children)], expected, rtol=1e-5, atol=1e-6)


def test_a_document_has_the_same_dot_products_alone_and_among_others():
    documents, vectors = random_rows(300, 3000, 0.01, 0), random_rows(40, 3000, 0.5, 1)
    grouped = NodeVectors.from_matrix(vectors, random_parents(40, 5, 3))
    nodes = np.random.default_rng(2).integers(0, 40, (300, 9)).astype(np.int32)
    together = grouped.dot(block_of(documents, range(documents.shape[0])), nodes)
    alone = [grouped.dot(block_of(documents, range(row, row + 1)), nodes[row : row + 1]) for row in range(300)]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def test_the_lookup_table_of_a_block_is_left_clean():
    documents, vectors = random_rows(50, 40, 0.3, 0), random_rows(30, 40, 0.4, 1)
    block = block_of(documents, range(documents.shape[0]))
    grouped = NodeVectors.from_matrix(vectors, None)
    grouped.dot(block, np.zeros((50, 2), np.int32))
    grouped.dot_children(block, np.zeros((50, 1), np.int32))
    assert not block.table.any()
