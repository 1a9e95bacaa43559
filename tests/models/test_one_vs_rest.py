from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

from haxmlnet.data.labels import index_labels
from haxmlnet.errors import SettingError
from haxmlnet.models.one_vs_rest import OneVsRestSVM


def test_margins_are_those_of_scikit_learn(tiny_corpus, unseen_documents):
    texts, labels = tiny_corpus
    ranking = OneVsRestSVM(prune=0).fit(texts, labels).predict(unseen_documents[0], k=24)
    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
    features, unseen = vectorizer.fit_transform(texts), vectorizer.transform(unseen_documents[0])
    targets = index_labels(labels, len(texts))[1].toarray()
    svms = [LinearSVC(tol=1e-6, max_iter=10_000).fit(features, column) for column in targets.T]
    expected = np.stack([svm.decision_function(unseen) for svm in svms], axis=1)
    np.testing.assert_allclose(logit(ranking.scores), np.take_along_axis(expected, ranking.ids, 1), atol=1e-3)


def test_small_weights_are_dropped(tiny_corpus):
    full, pruned = OneVsRestSVM(prune=0).fit(*tiny_corpus), OneVsRestSVM(prune=0.2).fit(*tiny_corpus)
    weights = full.weights_.toarray()
    np.testing.assert_array_equal(pruned.weights_.toarray(), np.where(np.abs(weights) < 0.2, 0, weights))
    assert pruned.weights_.nnz < full.weights_.nnz


def test_threads_do_not_change_the_model(tiny_corpus):
    one, three = (OneVsRestSVM(n_jobs=n).fit(*tiny_corpus) for n in (1, 3))
    np.testing.assert_array_equal(one.weights_.toarray(), three.weights_.toarray())
    np.testing.assert_array_equal(one.intercepts_, three.intercepts_)


def test_labels_of_all_or_no_documents_are_constant(tiny_corpus):
    texts, _ = tiny_corpus
    matrix = np.column_stack([np.ones(len(texts)), np.zeros(len(texts)), np.arange(len(texts)) % 2])
    model = OneVsRestSVM().fit(texts, matrix, label_names=["always", "never", "sometimes"])
    for row in model.predict([*texts, "unknown words"], k=3):
        assert [label for label, _ in row] == ["always", "sometimes", "never"]
        assert (row[0][1], row[2][1]) == (1, 0)


def test_labels_are_ranked_by_their_margins(tiny_corpus, unseen_documents):
    model = OneVsRestSVM().fit(*tiny_corpus)
    ranking = model.predict(unseen_documents[0], k=7)
    features = model._documents_of(unseen_documents[0]).features
    margins = (features @ model.weights_.T).toarray() + model.intercepts_
    order = np.argsort(-margins, axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(ranking.ids, order)
    np.testing.assert_allclose(logit(ranking.scores), np.take_along_axis(margins, order, 1), atol=1e-5)


def test_blocks_of_documents_do_not_change_the_ranking(tiny_corpus, monkeypatch):
    texts, _ = tiny_corpus
    model = OneVsRestSVM().fit(*tiny_corpus)
    whole = model.predict(texts)
    monkeypatch.setattr("haxmlnet.linear.document_blocks.MAX_DOCUMENTS", 7)
    np.testing.assert_array_equal(model.predict(texts).ids, whole.ids)
    np.testing.assert_array_equal(model.predict(texts).scores, whole.scores)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("C", 0), ("C", "1"), ("C", float("nan")), ("prune", -1), ("prune", None), ("vocabulary_size", 0)],
)
def test_a_wrong_setting_is_refused_by_fit_alone(tiny_corpus, setting, value):
    model = OneVsRestSVM(**{setting: value})
    with pytest.raises(SettingError, match=f"{setting} must be"):
        model.fit(*tiny_corpus)
