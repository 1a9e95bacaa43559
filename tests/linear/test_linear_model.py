from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.config import LinearConfig
from haxmlnet.linear import (
    LinearLevel,
    LinearModel,
    LinearTask,
    NodeVectors,
    block_of,
    train_level,
    train_linear_model,
)
from haxmlnet.linear.linear_level import Parents
from haxmlnet.linear.solver import SolverConfig
from haxmlnet.progress import Progress
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree, ancestors_of, build_label_tree, label_features, with_coarser_levels
from haxmlnet.tree.walk import parents_at


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 16, (200, 2))
    targets = sp.csr_array((np.ones(400, np.float32), (np.repeat(np.arange(200), 2), labels.ravel())), shape=(200, 16))
    targets.sum_duplicates()
    targets.data[:] = 1
    words = targets @ sp.eye_array(16, 20, format="csr") + 0.1 * sp.random_array((200, 20), density=0.2, rng=rng)
    features = sp.csr_array(words, dtype=np.float32)
    prototypes = label_features(features, targets)
    tree = with_coarser_levels(build_label_tree(prototypes, [8], rng), 4, 2)
    return train_linear_model(task_of(features, targets, 0), tree, prototypes), features, targets


def task_of(features: sp.csr_array, targets: sp.csr_array, hard_negatives: int) -> LinearTask:
    return LinearTask(features, targets, LinearConfig(hard_negatives, prune=0), 0, 1, Progress())


def features_of(model, documents, rows, labels):
    block = block_of(documents, rows)
    return model.features(block, labels, model.path_margins(block, labels))


def search_all(model, documents, beam, width, furthest=np.inf):
    return model.search(block_of(documents, range(documents.shape[0])), beam, width, furthest)


def test_a_node_also_learns_from_documents_for_which_its_parent_is_among_the_best(trained):
    before, features, targets = trained
    after = train_linear_model(task_of(features, targets, 2), before.tree, before.prototypes.to_matrix())
    np.testing.assert_array_equal(weights_of(after.levels[0]), weights_of(before.levels[0]))
    lifted = before.tree.lift(targets)
    for depth in (1, 2):
        tree = LabelTree(before.tree.parents[: depth - 1], lifted[depth - 1].shape[1])
        above = LinearModel(tree, after.levels[:depth], after.levels[depth - 1].vectors)
        learned = lifted[depth - 1].toarray() > 0
        np.put_along_axis(learned, above.rank(features, 2, 2).ids, True, axis=1)
        parents = Parents(sp.csr_array(learned.astype(np.float32)), before.tree.parents[depth - 1])
        expected = train_level(features, lifted[depth], parents, SolverConfig())
        np.testing.assert_array_equal(weights_of(after.levels[depth]), weights_of(expected))
        assert (weights_of(after.levels[depth]) != weights_of(before.levels[depth])).any()


def weights_of(level: LinearLevel) -> np.ndarray:
    return level.vectors.to_matrix().toarray()


def all_margins(level: LinearLevel, features: sp.csr_array) -> np.ndarray:
    return features @ weights_of(level).T + level.biases


def search_by_hand(
    model: LinearModel, features: sp.csr_array, beam: int, width: int, row: int, furthest: float = np.inf
) -> dict[int, float]:
    """Give the labels that are found for a document, best first, with the logarithms of their scores."""
    above = {0: 0.0}
    for depth, level in enumerate(model.levels):
        margins = all_margins(level, features[[row]])[0]
        parents = parents_at(model.tree, depth)
        parents = np.zeros(level.n_nodes, int) if parents is None else parents
        found = [(max(1 - margins[n], 0) ** 2 - above[p], n) for n, p in enumerate(parents.tolist()) if p in above]
        if depth == len(model.levels) - 1:
            return {node: -loss for loss, node in sorted(found)[:width]}
        below, n_below = np.bincount(parents_at(model.tree, depth + 1)), 0
        above = {}
        for loss, node in sorted(found)[:beam]:
            if n_below < width or loss <= min(found)[0] + furthest:
                above[node], n_below = -loss, n_below + below[node]
    raise AssertionError


def random_model(parents: tuple[list[int], ...], n_labels: int) -> LinearModel:
    rng = np.random.default_rng(0)
    tree = LabelTree(tuple(np.array(level, np.int32) for level in parents), n_labels)
    levels = []
    for depth, n_nodes in enumerate(tree.level_sizes):
        weights = sp.random_array((n_nodes, 50), density=0.3, rng=rng, dtype=np.float32, format="csr")
        weights.data -= 0.3
        vectors = NodeVectors.from_matrix(weights, parents_at(tree, depth))
        levels.append(LinearLevel(vectors, rng.normal(size=n_nodes).astype(np.float32)))
    prototypes = sp.random_array((n_labels, 50), density=0.2, rng=rng, dtype=np.float32, format="csr")
    return LinearModel(tree, levels, NodeVectors.from_matrix(prototypes, parents_at(tree, tree.n_levels - 1)))


TREES = {
    "one level": ((), 9),
    "two levels": (([0, 1, 2, 1, 0, 2, 2, 0, 1],), 9),
    "three levels": (([0, 1, 1, 0, 2, 2], [0, 3, 5, 1, 1, 2, 4, 4, 0, 5, 3, 2, 2, 0]), 14),
}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize(
    ("beam", "width", "furthest"),
    [(1, 3, np.inf), (2, 4, np.inf), (100, 100, np.inf), (4, 1, 0.5), (4, 3, 2), (6, 14, 0)],
)
def test_a_search_finds_what_a_search_by_hand_finds(tree, beam, width, furthest):
    model = random_model(*TREES[tree])
    features = sp.random_array((40, 50), density=0.2, rng=np.random.default_rng(1), dtype=np.float32, format="csr")
    features = sp.vstack([features, sp.csr_array((2, 50), dtype=np.float32)], format="csr")  # two empty documents
    ranking = search_all(model, features, beam, width, furthest).ranking
    assert ranking.ids.shape == (42, min(width, model.tree.n_labels))
    for row in range(42):
        expected = search_by_hand(model, features, beam, width, row, furthest)
        n = len(expected)
        assert ranking.ids[row, :n].tolist() == list(expected)
        np.testing.assert_allclose(ranking.scores[row, :n], np.exp(list(expected.values())), rtol=1e-4)
        assert (ranking.ids[row, n:] == ABSENT).all()
        assert (ranking.scores[row, n:] == 0).all()


def test_nodes_far_behind_are_left_out_where_there_is_a_choice_without_them():
    model = random_model(*TREES["three levels"])
    features = sp.random_array((40, 50), density=0.2, rng=np.random.default_rng(1), dtype=np.float32, format="csr")
    n_found = [(search_all(model, features, 6, n, furthest=0).ranking.ids != ABSENT).sum(axis=1) for n in (1, 14)]
    assert (n_found[0] == 1).all()
    assert (n_found[1] == 14).all()  # all labels are wanted: nothing is left out


@pytest.mark.parametrize("tree", TREES)
def test_margins_of_a_search_are_those_of_the_labels_it_found(tree):
    model = random_model(*TREES[tree])
    features = sp.random_array((40, 50), density=0.2, rng=np.random.default_rng(1), dtype=np.float32, format="csr")
    block = block_of(features, range(10, 30))
    search = model.search(block, 2, 5)
    np.testing.assert_array_equal(search.ranking.ids, model.rank(features, 2, 5).ids[10:30])
    present = search.ranking.ids != ABSENT
    np.testing.assert_array_equal(search.margins[present], model.path_margins(block, search.ranking.ids)[present])


@pytest.mark.parametrize("tree", TREES)
def test_cached_dot_products_change_no_margin(tree):
    model = random_model(*TREES[tree])
    rng = np.random.default_rng(2)
    features = sp.random_array((40, 50), density=0.2, rng=rng, dtype=np.float32, format="csr")
    labels = rng.integers(ABSENT, model.tree.n_labels, (40, 6)).astype(np.int32)
    block = block_of(features, range(40))
    expected = model.path_margins(block, labels)
    np.testing.assert_array_equal(model.path_margins(block, labels, model.search(block, 2, 5)), expected)


def test_the_tree_has_levels_above_its_groups(trained):
    assert trained[0].tree.level_sizes == [4, 8, 16]


def test_what_was_learned_is_found(trained):
    model, features, targets = trained
    best = model.rank(features, 2, 1).ids[:, 0]
    assert np.mean(targets.toarray()[np.arange(200), best]) > 0.95


def test_threads_change_nothing(trained, monkeypatch):
    model, features, _ = trained
    monkeypatch.setattr("haxmlnet.linear.document_blocks.MAX_DOCUMENTS", 17)
    one, three = model.rank(features, 3, 6), model.rank(features, 3, 6, n_threads=3)
    np.testing.assert_array_equal(one.ids, three.ids)
    described = features_of(model, features, range(features.shape[0]), one.ids)
    parts = [
        features_of(model, features, rows, one.ids[rows.start : rows.stop])
        for rows in (range(7), range(7, features.shape[0]))
    ]
    np.testing.assert_array_equal(described, np.concatenate(parts))


def test_features_of_labels_are_margins_score_and_similarity(trained):
    model, documents, _ = trained
    labels = np.array([[3, 7, ABSENT]] * 200, np.int32)
    features = features_of(model, documents, range(200), labels)
    assert features.shape == (200, 3, 5)
    last = all_margins(model.levels[-1], documents)[:, [3, 7]]
    np.testing.assert_allclose(features[:, :2, 2], np.clip(last, -4, 4), rtol=1e-4, atol=1e-5)
    similarity = (documents @ model.prototypes.to_matrix().T).toarray()[:, [3, 7]]
    np.testing.assert_allclose(features[:, :2, 4], similarity, rtol=1e-4, atol=1e-5)
    score = -(np.maximum(1 - features[:, :2, :3], 0) ** 2).sum(axis=-1)
    np.testing.assert_allclose(features[:, :2, 3], score, rtol=1e-4)


def test_wide_arrays_are_made_for_few_documents_at_a_time(trained, monkeypatch):
    model, features, _ = trained
    expected = model.rank(features, 3, 6)
    monkeypatch.setattr("haxmlnet.linear.document_blocks.MAX_BLOCK_SIZE", 100)
    sizes = []
    search = LinearModel.search
    monkeypatch.setattr(
        LinearModel,
        "search",
        lambda self, block, *rest: sizes.append(len(block.starts) - 1) or search(self, block, *rest),
    )
    np.testing.assert_array_equal(model.rank(features, 3, 6).ids, expected.ids)
    assert max(sizes) == 100 // (6 * 5)  # six labels, each with three margins, a score and a similarity


def test_no_documents_are_no_trouble(trained):
    model, features, _ = trained
    ranking = model.rank(features[:0], 3, 6)
    assert ranking.ids.shape == (0, 6)
    assert features_of(model, features, range(0), ranking.ids).shape == (0, 6, 5)


@pytest.mark.parametrize("tree", TREES)
def test_contributions_of_features_and_biases_add_up_to_the_margins(tree):
    model = random_model(*TREES[tree])
    documents = sp.random_array((9, 50), density=0.3, rng=np.random.default_rng(3), dtype=np.float32, format="csr")
    documents.sort_indices()
    labels = np.tile(np.arange(model.tree.n_labels, dtype=np.int32), (9, 1))
    margins = model.path_margins(block_of(documents, range(9)), labels).sum(axis=2)
    paths = [ancestors_of(model.tree, labels[0], depth) for depth in range(len(model.levels))]
    weights = sum(weights_of(level)[nodes] for level, nodes in zip(model.levels, paths, strict=True))
    biases = sum(level.biases[nodes] for level, nodes in zip(model.levels, paths, strict=True))
    for row in range(9):
        document = documents[[row]]
        for label in range(model.tree.n_labels):
            contributions = model.contributions(document, label)
            np.testing.assert_allclose(
                contributions, weights[label, document.indices] * document.data, rtol=1e-5, atol=1e-6
            )
            np.testing.assert_allclose(contributions.sum() + biases[label], margins[row, label], rtol=1e-4, atol=1e-5)
