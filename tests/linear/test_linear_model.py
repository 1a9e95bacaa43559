from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.linear import train_linear_model
from haxmlnet.linear.linear_model import hinge_score
from haxmlnet.progress import Progress
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import build_label_tree, label_features, with_coarser_levels


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
    model = train_linear_model(
        features, targets, tree, prototypes, C=1.0, prune=0.0, seed=0, n_threads=1, progress=Progress()
    )
    return model, features, targets


def scores_by_hand(model, features):
    """Multiply the scores along the path of every label."""
    total = np.ones((features.shape[0], model.tree.n_labels))
    for label in range(model.tree.n_labels):
        node = label
        for depth in reversed(range(model.tree.n_levels)):
            total[:, label] *= hinge_score(model.levels[depth].all_margins(features)[:, node])
            if depth:
                node = model.tree.parents[depth - 1][node]
    return total


def test_the_tree_has_levels_above_its_groups(trained):
    assert trained[0].tree.level_sizes == [4, 8, 16]


def test_a_beam_of_all_nodes_finds_the_best_products(trained):
    model, features, _ = trained
    ranking = model.search(features, 8, 5)
    expected = np.sort(scores_by_hand(model, features), axis=1)[:, ::-1][:, :5]
    np.testing.assert_allclose(ranking.scores, expected, rtol=1e-4)


def test_what_was_learned_is_found(trained):
    model, features, targets = trained
    best = model.search(features, 2, 1).ids[:, 0]
    assert np.mean(targets.toarray()[np.arange(200), best]) > 0.95


def test_threads_change_nothing(trained, monkeypatch):
    model, features, _ = trained
    monkeypatch.setattr("haxmlnet.linear.linear_model.BLOCK_DOCUMENTS", 17)
    one, three = model.search(features, 3, 6), model.search(features, 3, 6, n_threads=3)
    np.testing.assert_array_equal(one.ids, three.ids)
    signals = model.signals(features, one.ids)
    np.testing.assert_array_equal(signals, model.signals(features, one.ids, n_threads=3))


def test_signals_are_margins_score_and_likeness(trained):
    model, features, _ = trained
    labels = np.array([[3, 7, ABSENT]] * 200, np.int32)
    signals = model.signals(features, labels)
    assert signals.shape == (200, 3, 5)
    last = model.levels[-1].all_margins(features)[:, [3, 7]]
    np.testing.assert_allclose(signals[:, :2, 2], np.clip(last, -4, 4), rtol=1e-4, atol=1e-5)
    likeness = (features @ model.prototypes.T).toarray()[:, [3, 7]]
    np.testing.assert_allclose(signals[:, :2, 4], likeness, rtol=1e-4, atol=1e-5)


def test_no_documents_are_no_trouble(trained):
    model, features, _ = trained
    ranking = model.search(features[:0], 3, 6)
    assert ranking.ids.shape == (0, 6)
    assert model.signals(features[:0], ranking.ids).shape == (0, 6, 5)
