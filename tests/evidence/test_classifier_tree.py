from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from frames import frame_of

from haxmlnet.errors import ModelError
from haxmlnet.evidence import classifier_tree
from haxmlnet.evidence.classifier_tree import (
    FEW_HELD_OUT,
    MAX_FIRST_LEVEL,
    ClassifierFindings,
    ClassifierTree,
    coarsen,
    gains_from_held_out,
)
from haxmlnet.evidence.protocol import Documents
from haxmlnet.linear import LinearLevel, LinearModel, NodeVectors
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree, ancestors_of
from haxmlnet.tree.walk import parents_at

N_FEATURES = 50
TREE = LabelTree(
    (np.array([0, 1, 1, 0, 2, 2], np.int32), np.array([0, 3, 5, 1, 1, 2, 4, 4, 0, 5, 3, 2, 2, 0], np.int32)), 14
)


def random_classifiers(beam: int = 2, n_proposals: int = 5) -> ClassifierTree:
    rng = np.random.default_rng(0)
    levels = []
    for depth, n_nodes in enumerate(TREE.level_sizes):
        weights = sp.random_array((n_nodes, N_FEATURES), density=0.3, rng=rng, dtype=np.float32, format="csr")
        weights.data -= 0.3
        vectors = NodeVectors.from_matrix(weights, parents_at(TREE, depth))
        levels.append(LinearLevel(vectors, rng.normal(size=n_nodes).astype(np.float32)))
    prototypes = sp.random_array((14, N_FEATURES), density=0.2, rng=rng, dtype=np.float32, format="csr")
    return ClassifierTree(
        LinearModel(TREE, levels, NodeVectors.from_matrix(prototypes, TREE.parents[1])), beam, n_proposals
    )


def random_documents(n_documents: int = 40) -> Documents:
    rng = np.random.default_rng(1)
    features = sp.random_array((n_documents, N_FEATURES), density=0.2, rng=rng, dtype=np.float32, format="csr")
    features.sort_indices()
    return Documents(None, np.zeros(0, np.float32), sp.csr_array(features))


def all_margins(classifiers: ClassifierTree, documents: Documents) -> np.ndarray:
    """Give the margins on the path to each label, (documents, labels, levels)."""
    labels, margins = np.arange(14), []
    for depth, level in enumerate(classifiers.model.levels):
        own = documents.features @ level.vectors.to_matrix().T + level.biases
        margins.append(own[:, ancestors_of(TREE, labels, depth)])
    return np.stack(margins, axis=-1)


def all_scores(classifiers: ClassifierTree, documents: Documents) -> np.ndarray:
    """Give the product of exp(-hinge^2) along the path to each label."""
    hinges = np.maximum(1 - all_margins(classifiers, documents), 0)
    return np.exp(-np.square(hinges).sum(axis=-1))


def everything_of(findings: ClassifierFindings) -> tuple[np.ndarray, ...]:
    every = np.tile(np.arange(14, dtype=np.int32), (len(findings.documents), 1))
    ranking = findings.ranking(14)
    return findings.proposals, ranking.ids, ranking.scores, findings.features(every)


def test_a_wide_beam_ranks_by_the_product_along_the_path():
    classifiers, documents = random_classifiers(beam=6), random_documents()
    ranking = classifiers.examine(documents).ranking(14)
    expected = all_scores(classifiers, documents)
    np.testing.assert_allclose(ranking.to_csr().toarray(), expected, rtol=1e-3, atol=1e-7)
    assert (np.diff(ranking.scores, axis=1) <= 0).all()


@pytest.mark.parametrize("n_proposals", [1, 5, 100])
def test_the_best_labels_of_the_search_are_proposed(n_proposals, monkeypatch):
    monkeypatch.setattr(classifier_tree, "MAX_SCORE_GAP", np.inf)
    classifiers, documents = random_classifiers(beam=6, n_proposals=n_proposals), random_documents()
    proposals, scores = classifiers.examine(documents).proposals, all_scores(classifiers, documents)
    assert proposals.shape == (40, min(n_proposals, 14))
    for row in range(40):
        best = np.sort(scores[row])[::-1][:n_proposals]
        np.testing.assert_allclose(scores[row, proposals[row]], best, rtol=1e-3)


def test_nodes_far_behind_the_best_are_not_searched_while_there_is_a_choice():
    classifiers, documents = random_classifiers(beam=6), random_documents()
    proposals, scores = classifiers.examine(documents).proposals, all_scores(classifiers, documents)
    found = np.take_along_axis(scores, proposals, axis=1)
    assert (proposals != ABSENT).all()
    np.testing.assert_allclose(found[:, 0], scores.max(axis=1), rtol=1e-3)
    assert (found < np.sort(scores, axis=1)[:, ::-1][:, :5] * 0.999).any()


@pytest.mark.parametrize("beam", [1, 2, 6])
def test_neither_order_nor_scores_of_the_first_labels_depend_on_k(beam):
    findings = random_classifiers(beam).examine(random_documents())
    every = findings.ranking(14)
    assert [sorted(ids) for ids in every.ids.tolist()] == [list(range(14))] * 40
    assert (np.diff(every.scores, axis=1) <= 0).all()
    for k in range(1, 14):
        ranking = findings.ranking(k)
        np.testing.assert_array_equal(ranking.ids, every.ids[:, :k])
        np.testing.assert_array_equal(ranking.scores, every.scores[:, :k])


def test_labels_that_only_a_wider_beam_meets_follow_below():
    classifiers, documents = random_classifiers(beam=1), random_documents()
    findings = classifiers.examine(documents)
    met = classifiers.model.rank(documents.features, 1, 14)
    ranking, scores = findings.ranking(14), all_scores(classifiers, documents)
    for row in range(40):
        n_met = int((met.ids[row] != ABSENT).sum())
        assert n_met < 14
        np.testing.assert_array_equal(ranking.ids[row, :n_met], met.ids[row, :n_met])
        lowered = np.minimum.accumulate(scores[row, ranking.ids[row]])
        np.testing.assert_allclose(ranking.scores[row], lowered, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("beam", [1, 6])
def test_features_are_margins_score_and_similarity_whether_met_or_not(beam):
    classifiers, documents = random_classifiers(beam), random_documents()
    candidates = np.random.default_rng(2).integers(ABSENT, 14, (40, 9)).astype(np.int32)
    features = classifiers.examine(documents).features(candidates)
    assert features.shape == (40, 9, len(classifiers.feature_names))
    present, rows = candidates != ABSENT, np.arange(40)[:, None]
    margins = np.clip(all_margins(classifiers, documents), -4, 4)[rows, candidates]
    np.testing.assert_allclose(features[..., :3][present], margins[present], rtol=1e-3, atol=1e-5)
    score = -np.square(np.maximum(1 - margins, 0)).sum(axis=-1)
    np.testing.assert_allclose(features[..., 3][present], score[present], rtol=1e-3, atol=1e-5)
    similarity = (documents.features @ classifiers.model.prototypes.to_matrix().T).toarray()[rows, candidates]
    np.testing.assert_allclose(features[..., 4][present], similarity[present], rtol=1e-3, atol=1e-5)


def test_the_reasons_are_the_path_and_what_each_word_adds_to_its_margins():
    classifiers, documents = random_classifiers(), random_documents()
    findings, margins = classifiers.examine(documents), all_margins(classifiers, documents)
    for row in (0, 13):
        for label in range(14):
            reasons = findings.reasons(row, label)
            nodes = [int(ancestors_of(TREE, np.array([label]), depth)[0]) for depth in range(3)]
            assert [node for node, _ in reasons.path] == nodes
            score = np.prod([score for _, score in reasons.path])
            assert score == pytest.approx(all_scores(classifiers, documents)[row, label], rel=1e-3)
            biases = sum(level.biases[node] for level, node in zip(classifiers.model.levels, nodes, strict=True))
            total = sum(reasons.words.values()) + biases
            assert total == pytest.approx(margins[row, label].sum(), rel=1e-4, abs=1e-5)
            assert list(reasons.words) == documents.features[[row]].indices.tolist()


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_blocks_and_threads_change_nothing(n_threads, size, monkeypatch):
    classifiers, documents = random_classifiers(), random_documents()
    whole = everything_of(classifiers.examine(documents))
    monkeypatch.setattr("haxmlnet.linear.document_blocks.MAX_DOCUMENTS", size)
    blocks = list(classifiers.map_blocks(lambda block: everything_of(classifiers.examine(block)), documents, n_threads))
    assert np.concatenate([rows for rows, _ in blocks]).tolist() == list(range(40))
    assert max(len(rows) for rows, _ in blocks) <= size
    for expected, parts in zip(whole, zip(*(found for _, found in blocks), strict=True), strict=True):
        np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_blocks_are_examined_side_by_side():
    met = threading.Barrier(2, timeout=60)
    blocks = random_classifiers().map_blocks(lambda block: met.wait() * 0 + len(block), random_documents(), 2)
    assert [n for _, n in blocks] == [20, 20]


def test_a_failure_in_a_thread_is_the_failure_of_all(monkeypatch):
    def fail(block: Documents) -> None:
        raise MemoryError

    monkeypatch.setattr("haxmlnet.linear.document_blocks.MAX_DOCUMENTS", 3)
    with pytest.raises(MemoryError):
        list(random_classifiers().map_blocks(fail, random_documents(), 2))


def test_no_documents():
    classifiers, documents = random_classifiers(), random_documents(0)
    blocks = list(classifiers.map_blocks(lambda block: everything_of(classifiers.examine(block)), documents, 2))
    assert [rows.tolist() for rows, _ in blocks] == [[]]
    assert [array.shape for array in blocks[0][1]] == [(0, 5), (0, 14), (0, 14), (0, 14, 5)]


def test_classifiers_are_saved_and_checked():
    classifiers, documents = random_classifiers(beam=10, n_proposals=6), random_documents()
    arrays = classifiers.to_arrays()
    again = ClassifierTree.from_arrays(arrays, frame_of(TREE, N_FEATURES, n_candidates=6))
    for expected, found in zip(
        everything_of(classifiers.examine(documents)), everything_of(again.examine(documents)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ModelError, match="some file: level 0: expected 3 biases"):
        ClassifierTree.from_arrays(
            {**arrays, "level_0.biases": arrays["level_0.biases"][1:]}, frame_of(TREE, N_FEATURES)
        )
    with pytest.raises(ModelError, match="some file: level_0 does not hold the weights of 3 nodes"):
        ClassifierTree.from_arrays(arrays, frame_of(TREE, 5))
    rest = {name: array for name, array in arrays.items() if not name.startswith("prototypes")}
    with pytest.raises(ModelError, match="some file: prototypes does not hold"):
        ClassifierTree.from_arrays(rest, frame_of(TREE, N_FEATURES))


@pytest.mark.parametrize(("n_labels", "n_levels"), [(3 * MAX_FIRST_LEVEL, 3), (2 * MAX_FIRST_LEVEL, 2)])
def test_a_wide_first_level_gets_levels_above_it(n_labels, n_levels):
    tree = LabelTree((np.arange(n_labels, dtype=np.int32) // 2,), n_labels)
    coarse = coarsen(tree)
    coarse.check()
    assert coarse.n_levels == n_levels
    assert coarse.level_sizes[0] <= MAX_FIRST_LEVEL
    np.testing.assert_array_equal(coarse.parents[-1], tree.parents[-1])


def test_to_train_again_pays_unless_few_documents_were_left_out():
    few = round(FEW_HELD_OUT * 1000)
    assert [gains_from_held_out(n, 1000) for n in (0, few, few + 1, 500)] == [False, False, True, True]
