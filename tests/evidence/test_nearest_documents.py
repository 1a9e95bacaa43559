from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from frames import frame_of

from haxmlnet.errors import ModelError
from haxmlnet.evidence import nearest_documents
from haxmlnet.evidence.nearest_documents import N_NEAREST, VOTES, NearestDocuments, NeighborFindings
from haxmlnet.evidence.protocol import Documents
from haxmlnet.ranking import ABSENT

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


def random_index(seed: int, n_proposals: int = 7) -> tuple[sp.csr_array, sp.csr_array, NearestDocuments]:
    documents = unit(random_rows(seed, N_DOCUMENTS, N_FEATURES, 0.2))
    targets = random_rows(seed + 1, N_DOCUMENTS, N_LABELS, 0.1)
    targets.data[:] = 1
    return documents, targets, NearestDocuments.index(documents, targets, n_proposals)


def examine(index: NearestDocuments, features: sp.csr_array) -> NeighborFindings:
    return index.examine(Documents(None, np.zeros(0, np.float32), features))


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_documents_have_the_largest_dot_products(seed):
    documents, _, index = random_index(seed)
    asked = unit(random_rows(seed + 9, 12, N_FEATURES, 0.2))
    nearest = index.find(asked)
    dots = (asked @ documents.T).toarray()
    for row, own in enumerate(dots):
        expected = np.sort(own[own >= 0.4 * own.max()])[::-1][:N_NEAREST]
        n = len(expected)
        np.testing.assert_allclose(nearest.similarities[row, :n], expected, rtol=1e-5)
        np.testing.assert_allclose(own[nearest.ids[row, :n]], expected, rtol=1e-5)
        assert (nearest.ids[row, n:] == ABSENT).all()
        assert len(set(nearest.ids[row, :n].tolist())) == n


def test_equally_near_documents_come_in_their_order():
    same = sp.csr_array(np.tile(np.array([[0.6, 0.8, 0]], np.float32), (N_NEAREST + 9, 1)))
    index = NearestDocuments.index(same, sp.csr_array((N_NEAREST + 9, 2), dtype=np.float32), 2)
    assert index.find(same[[0]]).ids[0].tolist() == list(range(N_NEAREST))


def test_the_heaviest_features_of_a_document_are_kept(monkeypatch):
    monkeypatch.setattr(nearest_documents, "HEAVIEST", 2)
    documents = sp.csr_array(np.array([[0.1, -0.7, 0.2, 0.5], [0, 0.3, 0, 0]], np.float32))
    kept = NearestDocuments.index(documents, sp.csr_array((2, 1), dtype=np.float32), 1).postings.T
    np.testing.assert_array_equal(kept.toarray(), np.array([[0, -0.7, 0, 0.5], [0, 0.3, 0, 0]], np.float32))


def test_no_more_postings_are_read_than_allowed(monkeypatch):
    monkeypatch.setattr(nearest_documents, "MAX_POSTINGS_READ", 3)
    documents = sp.csr_array(np.array([[1, 0], [0, 1], [0, 1], [0, 1]], np.float32))
    index = NearestDocuments.index(documents, sp.csr_array((4, 1), dtype=np.float32), 1)
    nearest = index.find(sp.csr_array(np.array([[0.9, 0.4], [0.4, 0.9]], np.float32)))
    assert [[int(i) for i in row if i >= 0] for row in nearest.ids] == [[0], [1, 2, 3]]


@pytest.mark.parametrize("seed", range(4))
def test_votes_equal_a_count_by_hand(seed):
    _, targets, index = random_index(seed)
    findings, dense = examine(index, unit(random_rows(seed + 9, 6, N_FEATURES, 0.2))), targets.toarray()
    labels = np.random.default_rng(seed).integers(-1, N_LABELS, (6, 10)).astype(np.int32)
    features = findings.features(labels)
    for row in range(6):
        found = findings.nearest.ids[row] >= 0
        ids = findings.nearest.ids[row][found]
        similarities = findings.nearest.similarities[row][found].astype(np.float64)
        for place, label in enumerate(labels[row].tolist()):
            has = dense[ids, label] > 0 if label >= 0 else np.zeros(len(ids), bool)
            shares = [
                (similarities[:n][has[:n]] ** power).sum() / (similarities[:n] ** power).sum() for n, power in VOTES
            ]
            expected = [*np.log(np.array(shares) + 1e-3), similarities[has].max(initial=0)]
            np.testing.assert_allclose(features[row, place], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_proposals", [1, 7, N_LABELS])
def test_the_labels_with_most_votes_are_proposed(seed, n_proposals):
    _, targets, index = random_index(seed, n_proposals)
    findings = examine(index, unit(random_rows(seed + 9, 6, N_FEATURES, 0.2)))
    n, power = VOTES[1]
    assert findings.proposals.shape == (6, n_proposals)
    for row, proposed in enumerate(findings.proposals):
        ids, similarities = findings.nearest.ids[row, :n], findings.nearest.similarities[row, :n]
        votes = similarities[ids >= 0] ** power @ targets.toarray()[ids[ids >= 0]]
        n_voted = int((votes > 0).sum())
        best = np.sort(votes)[::-1][: min(n_proposals, n_voted)]
        np.testing.assert_allclose(votes[proposed[proposed >= 0]], best, rtol=1e-4)


def test_a_document_like_no_other_has_no_neighbors():
    findings = examine(random_index(0)[2], sp.csr_array((1, N_FEATURES), dtype=np.float32))
    assert (findings.nearest.ids == ABSENT).all()
    assert (findings.proposals == ABSENT).all()
    np.testing.assert_allclose(findings.features(np.zeros((1, 1), np.int32))[0, 0, :-1], np.log(1e-3), rtol=1e-5)
    assert findings.reasons(0, 0).documents == []


@pytest.mark.parametrize("seed", range(3))
def test_the_reasons_are_the_nearest_documents_that_have_the_label(seed):
    _, targets, index = random_index(seed)
    findings, dense = examine(index, unit(random_rows(seed + 9, 6, N_FEATURES, 0.2))), targets.toarray()
    nearest = findings.nearest
    for row in range(6):
        for label in range(N_LABELS):
            expected = [
                (document, similarity)
                for document, similarity in zip(
                    nearest.ids[row].tolist(), nearest.similarities[row].tolist(), strict=True
                )
                if document != ABSENT and dense[document, label]
            ]
            assert findings.reasons(row, label).documents == expected


def test_no_documents():
    _, _, index = random_index(0)
    findings = examine(index, sp.csr_array((0, N_FEATURES), dtype=np.float32))
    assert findings.proposals.shape == (0, 7)
    assert findings.features(np.zeros((0, 3), np.int32)).shape == (0, 3, len(index.feature_names))


def test_documents_are_saved_and_checked():
    documents, _, index = random_index(3, n_proposals=5)
    arrays = index.to_arrays()
    again = NearestDocuments.from_arrays(arrays, frame_of(N_LABELS, N_FEATURES, n_candidates=20))
    first, second = (examine(each, documents[:20]) for each in (index, again))
    assert first.nearest.ids.tolist() == second.nearest.ids.tolist()
    assert first.proposals.tolist() == second.proposals.tolist()
    broken = {**arrays, "labels": arrays["labels"] + N_LABELS}
    with pytest.raises(ModelError, match="some file: does not hold documents and their labels"):
        NearestDocuments.from_arrays(broken, frame_of(N_LABELS, N_FEATURES))
    with pytest.raises(ModelError, match=f"some file: expected {N_FEATURES + 1} features, got {N_FEATURES}"):
        NearestDocuments.from_arrays(arrays, frame_of(N_LABELS, N_FEATURES + 1))
    shorter = arrays["label_bounds"][:-1]
    arrays |= {"label_bounds": shorter, "labels": arrays["labels"][: shorter[-1]]}
    with pytest.raises(ModelError, match="documents"):  # the last document has features, but no list of labels
        NearestDocuments.from_arrays(arrays, frame_of(N_LABELS, N_FEATURES))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_blocks_and_threads_change_nothing(n_threads):
    _, _, index = random_index(1)
    asked = unit(random_rows(5, 30, N_FEATURES, 0.2))
    candidates = np.tile(np.arange(N_LABELS, dtype=np.int32), (30, 1))
    whole = examine(index, asked)

    def work(rows: range) -> tuple[np.ndarray, ...]:
        findings = examine(index, asked[list(rows)])
        return findings.nearest.ids, findings.proposals, findings.features(candidates[list(rows)])

    with ThreadPoolExecutor(n_threads) as threads:
        blocks = list(threads.map(work, [range(start, start + 3) for start in range(0, 30, 3)]))
    ids, proposals, features = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    assert ids.tolist() == whole.nearest.ids.tolist()
    assert proposals.tolist() == whole.proposals.tolist()
    np.testing.assert_array_equal(features, whole.features(candidates))


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))])
def test_a_copy_after_a_search_finds_the_same(clone):
    documents, _, index = random_index(2)
    expected, found = (examine(each, documents[:9]) for each in (index, clone(index)))
    assert found.nearest.ids.tolist() == expected.nearest.ids.tolist()
    assert found.proposals.tolist() == expected.proposals.tolist()
