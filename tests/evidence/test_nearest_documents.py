from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.errors import ModelError
from haxmlnet.linear import neighbours as neighbours_module
from haxmlnet.linear.neighbours import N_NEAREST, VOTES, Near, Neighbours

N_DOCUMENTS, N_FEATURES, N_LABELS = 90, 40, 25


def random_rows(seed: int, n_rows: int, n_columns: int, density: float) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    matrix = sp.csr_array(
        sp.random_array((n_rows, n_columns), density=density, rng=rng, format="csr", dtype=np.float32)
    )
    matrix.sort_indices()
    return matrix


def unit(matrix: sp.csr_array) -> sp.csr_array:
    norms = np.maximum(sp.linalg.norm(matrix, axis=1), 1e-9)
    return sp.csr_array(sp.diags_array(1 / norms) @ matrix).astype(np.float32)


def made(seed: int) -> tuple[sp.csr_array, sp.csr_array, Neighbours]:
    documents = unit(random_rows(seed, N_DOCUMENTS, N_FEATURES, 0.2))
    targets = random_rows(seed + 1, N_DOCUMENTS, N_LABELS, 0.1)
    targets.data[:] = 1
    return documents, targets, Neighbours.of(documents, targets)


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_documents_have_the_largest_products(seed):
    documents, _, neighbours = made(seed)
    asked = unit(random_rows(seed + 9, 12, N_FEATURES, 0.2))
    near = neighbours.near(asked, range(2, 10))
    products = (asked[2:10] @ documents.T).toarray()
    for row, product in enumerate(products):
        expected = np.sort(product[product >= 0.4 * product.max()])[::-1][:N_NEAREST]
        n = len(expected)
        np.testing.assert_allclose(near.similarities[row, :n], expected, rtol=1e-5)
        np.testing.assert_allclose(product[near.ids[row, :n]], expected, rtol=1e-5)
        assert (near.ids[row, n:] == -1).all()
        assert len(set(near.ids[row, :n].tolist())) == n


def test_equally_near_documents_come_in_their_order():
    same = sp.csr_array(np.tile(np.array([[0.6, 0.8, 0]], np.float32), (N_NEAREST + 9, 1)))
    neighbours = Neighbours.of(same, sp.csr_array((N_NEAREST + 9, 2), dtype=np.float32))
    assert neighbours.near(same, range(1)).ids[0].tolist() == list(range(N_NEAREST))


def test_the_heaviest_features_of_a_document_are_kept(monkeypatch):
    monkeypatch.setattr(neighbours_module, "FEATURES", 2)
    documents = sp.csr_array(np.array([[0.1, -0.7, 0.2, 0.5], [0, 0.3, 0, 0]], np.float32))
    kept = Neighbours.of(documents, sp.csr_array((2, 1), dtype=np.float32)).postings.T
    np.testing.assert_array_equal(kept.toarray(), np.array([[0, -0.7, 0, 0.5], [0, 0.3, 0, 0]], np.float32))


def test_no_more_postings_are_read_than_allowed(monkeypatch):
    monkeypatch.setattr(neighbours_module, "MOST_READ", 3)
    documents = sp.csr_array(np.array([[1, 0], [0, 1], [0, 1], [0, 1]], np.float32))
    neighbours = Neighbours.of(documents, sp.csr_array((4, 1), dtype=np.float32))
    asked = sp.csr_array(np.array([[0.9, 0.4], [0.4, 0.9]], np.float32))
    near = neighbours.near(asked, range(2))
    assert [[int(i) for i in row if i >= 0] for row in near.ids] == [[0], [1, 2, 3]]


@pytest.mark.parametrize("seed", range(4))
def test_votes_equal_a_count_by_hand(seed):
    _, targets, neighbours = made(seed)
    asked = unit(random_rows(seed + 9, 6, N_FEATURES, 0.2))
    near, dense = neighbours.near(asked, range(6)), targets.toarray()
    labels = np.random.default_rng(seed).integers(-1, N_LABELS, (6, 10)).astype(np.int32)
    signals = neighbours.signals(near, labels)
    for row in range(6):
        found = near.ids[row] >= 0
        ids, similarities = near.ids[row][found], near.similarities[row][found].astype(np.float64)
        for place, label in enumerate(labels[row].tolist()):
            has = dense[ids, label] > 0 if label >= 0 else np.zeros(len(ids), bool)
            shares = [
                (similarities[:n][has[:n]] ** power).sum() / (similarities[:n] ** power).sum() for n, power in VOTES
            ]
            expected = [*np.log(np.array(shares) + 1e-3), similarities[has].max(initial=0)]
            np.testing.assert_allclose(signals[row, place], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_the_labels_with_most_votes_are_proposed(seed):
    _, targets, neighbours = made(seed)
    asked = unit(random_rows(seed + 9, 6, N_FEATURES, 0.2))
    near = neighbours.near(asked, range(6))
    n, power = VOTES[1]
    for row, given in enumerate(neighbours.proposed(near, 7)):
        found = near.ids[row, :n] >= 0
        votes = near.similarities[row, :n][found] ** power @ targets.toarray()[near.ids[row, :n][found]]
        n_voted = int((votes > 0).sum())
        np.testing.assert_allclose(votes[given[given >= 0]], np.sort(votes)[::-1][: min(7, n_voted)], rtol=1e-4)


def test_a_document_like_no_other_has_no_neighbours():
    _, _, neighbours = made(0)
    near = neighbours.near(sp.csr_array((1, N_FEATURES), dtype=np.float32), range(1))
    assert (near.ids == -1).all()
    assert (neighbours.proposed(near, 3) == -1).all()
    np.testing.assert_allclose(neighbours.signals(near, np.zeros((1, 1), np.int32))[0, 0, :-1], np.log(1e-3), rtol=1e-5)


def test_neighbours_are_saved_and_checked():
    documents, _, neighbours = made(3)
    arrays = neighbours.to_arrays()
    again = Neighbours.from_arrays(arrays, N_LABELS, N_FEATURES)
    first, second = (each.near(documents, range(20)) for each in (neighbours, again))
    assert first.ids.tolist() == second.ids.tolist()
    assert again.proposed(second, 5).tolist() == neighbours.proposed(first, 5).tolist()
    with pytest.raises(ModelError, match="neighbours"):
        Neighbours.from_arrays({**arrays, "labels": arrays["labels"] + N_LABELS}, N_LABELS, N_FEATURES)
    with pytest.raises(ModelError, match=f"expected documents of {N_FEATURES + 1} features"):
        Neighbours.from_arrays(arrays, N_LABELS, N_FEATURES + 1)
    shorter = arrays["label_bounds"][:-1]
    arrays |= {"label_bounds": shorter, "labels": arrays["labels"][: shorter[-1]]}
    with pytest.raises(ModelError, match="neighbours"):  # the last document has features, but no list of labels
        Neighbours.from_arrays(arrays, N_LABELS, N_FEATURES)


def test_blocks_of_documents_are_joined_and_cut():
    _, _, neighbours = made(1)
    asked = unit(random_rows(5, 8, N_FEATURES, 0.2))
    whole = neighbours.near(asked, range(8))
    joined = Near.joined([neighbours.near(asked, range(3)), neighbours.near(asked, range(3, 8))])
    assert joined.ids.tolist() == whole.ids.tolist()
    assert joined.of(range(2, 5)).similarities.tolist() == whole.similarities[2:5].tolist()


def test_a_copy_after_a_search_finds_the_same():
    documents, _, neighbours = made(2)
    expected = neighbours.near(documents, range(9))
    again = copy.deepcopy(neighbours)
    assert again.near(documents, range(9)).ids.tolist() == expected.ids.tolist()
    assert again.proposed(expected, 4).tolist() == neighbours.proposed(expected, 4).tolist()
