from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from haxmlnet.errors import DataError, SettingError
from haxmlnet.evidence.classifier_tree import ClassifierTree
from haxmlnet.evidence.label_frequency import LabelFrequency
from haxmlnet.evidence.label_names import LabelNames
from haxmlnet.evidence.nearest_documents import NearestDocuments
from haxmlnet.linear import train_linear_model
from haxmlnet.models.haxmlnet import HAXMLNet
from haxmlnet.models.linear_tree import LinearTree
from haxmlnet.models.one_vs_rest import OneVsRestSVM

SMALL = {"group_size": 4, "validation_fraction": 0.4, "n_jobs": 1}


@pytest.fixture(scope="module")
def fused(tiny_corpus):
    return LinearTree(**SMALL).fit(*tiny_corpus)


@pytest.fixture(scope="module")
def as_features(tiny_corpus, unseen_documents):
    vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
    return vectorizer.fit_transform(tiny_corpus[0]), vectorizer.transform(unseen_documents[0])


def test_fusion_gives_probabilities(fused, make_documents):
    assert fused.trees_[0].fusion is not None
    kinds = [type(evidence) for evidence in fused.trees_[0].evidence]
    assert kinds == [ClassifierTree, LabelFrequency, LabelNames, NearestDocuments]
    texts, labels = make_documents(400, 7)
    ranking = fused.predict(texts, k=24)
    right = np.array([[label in truth for label in row] for row, truth in zip(ranking.labels, labels, strict=True)])
    assert abs(right.mean() - ranking.scores.mean()) < 0.02
    confident = ranking.scores > 0.9
    assert right[confident].mean() > 0.9


def test_without_fusion_scores_are_those_of_the_tree(tiny_corpus, unseen_documents):
    model = LinearTree(**SMALL, fusion=False).fit(*tiny_corpus)
    (tree,) = model.trees_
    assert tree.fusion is None
    assert len(tree.evidence) == 1
    features = model._documents_of(unseen_documents[0]).features
    expected = tree.first.model.rank(features, 10, 5)
    np.testing.assert_array_equal(model.predict(unseen_documents[0]).ids, expected.ids)
    np.testing.assert_array_equal(model.predict(unseen_documents[0]).scores, expected.scores)


def test_several_trees_are_different_and_averaged(tiny_corpus, unseen_documents):
    model = LinearTree(**SMALL, n_trees=2).fit(*tiny_corpus)
    first, second = (fused.tree.parents[-1] for fused in model.trees_)
    assert (first != second).any()
    assert model.evaluate(*unseen_documents).values["P@1"] > 90


@pytest.mark.parametrize(("few", "sizes"), [(0.39, [90, 150, 90, 150]), (0.4, [90, 90])])
def test_classifiers_are_kept_where_few_documents_were_held_out(few, sizes, tiny_corpus, monkeypatch):
    trained_on = []

    def train(task, *arguments):
        trained_on.append(task.features.shape[0])
        return train_linear_model(task, *arguments)

    monkeypatch.setattr("haxmlnet.evidence.classifier_tree.FEW_HELD_OUT", few)
    monkeypatch.setattr("haxmlnet.evidence.classifier_tree.train_linear_model", train)
    model = LinearTree(**SMALL, n_trees=2).fit(*tiny_corpus)
    assert trained_on == sizes
    assert len(model.trees_) == 2


@pytest.mark.parametrize(
    ("given", "n_labels", "expected"), [(None, 10_000, 25), (None, 10_001, 10), (0, 24, 0), (3, 24, 3)]
)
def test_hard_negatives_follow_the_number_of_labels_unless_given(given, n_labels, expected, tiny_corpus, monkeypatch):
    wrong = []

    def train(task, *arguments):
        wrong.append(task.config.hard_negatives)
        return train_linear_model(task, *arguments)

    monkeypatch.setattr("haxmlnet.evidence.classifier_tree.train_linear_model", train)
    names = [f"label {i}" for i in range(n_labels)]
    targets = np.arange(len(tiny_corpus[0]))[:, None] % 5 == np.arange(n_labels)
    LinearTree(n_jobs=1, fusion=False, hard_negatives=given).fit(tiny_corpus[0], targets, label_names=names)
    assert wrong == [expected]


@pytest.mark.parametrize("method", [LinearTree, OneVsRestSVM])
def test_features_do_as_well_as_the_texts_they_were_made_of(method, tiny_corpus, unseen_documents, as_features):
    train, test = as_features
    settings = {**SMALL, "fusion": False} if method is LinearTree else {}
    of_texts = method(**settings).fit(*tiny_corpus).evaluate(*unseen_documents).values
    of_features = method(**settings).fit(train, tiny_corpus[1]).evaluate(test, unseen_documents[1]).values
    assert of_features["nDCG@5"] == pytest.approx(of_texts["nDCG@5"], abs=3)
    assert of_features["P@1"] > 90


@pytest.mark.parametrize("method", [LinearTree, OneVsRestSVM])
def test_a_model_of_features_is_saved_and_loaded(method, tiny_corpus, as_features, tmp_path):
    train, test = as_features
    model = method().fit(train, tiny_corpus[1])
    model.save(tmp_path / "model")
    assert not (tmp_path / "model" / "tokenizer.json").exists()
    np.testing.assert_array_equal(method.load(tmp_path / "model").predict(test).scores, model.predict(test).scores)


def test_texts_and_features_are_not_confused(fused, tiny_corpus, as_features):
    train, test = as_features
    with pytest.raises(DataError, match="trained on texts, got features"):
        fused.predict(test)
    of_features = LinearTree(**SMALL, fusion=False).fit(train, tiny_corpus[1])
    with pytest.raises(DataError, match="trained on features, got texts"):
        of_features.predict(["a text"])
    with pytest.raises(DataError, match=f"expected {train.shape[1]} features, as in training, got 3"):
        of_features.predict(sp.csr_array((2, 3)))


def test_columns_in_any_order_and_in_parts_mean_the_same(tiny_corpus, as_features):
    train, test = as_features
    model = LinearTree(**SMALL, fusion=False).fit(train, tiny_corpus[1])
    halves = sp.hstack([test, test]).tocsr()
    columns = halves.indices[::-1] % test.shape[1]
    bounds = halves.nnz - halves.indptr[::-1]
    odd = sp.csr_array((halves.data[::-1] / 2, columns, bounds), shape=test.shape)  # the documents from last to first
    given = columns.copy()
    np.testing.assert_allclose(model.predict(odd).scores, model.predict(test).scores[::-1], rtol=1e-4)
    np.testing.assert_array_equal(odd.indices, given)


def test_networks_refuse_features_and_name_what_takes_them(tiny_corpus, as_features):
    with pytest.raises(DataError, match=r"HAXMLNet needs texts.*LinearTree"):
        HAXMLNet().fit(as_features[0], tiny_corpus[1])


def test_features_must_be_finite(tiny_corpus, as_features):
    broken = as_features[0].copy()
    broken.data[3] = np.nan
    with pytest.raises(DataError, match="finite"):
        LinearTree().fit(broken, tiny_corpus[1])


@pytest.mark.parametrize(("setting", "value"), [("C", 0), ("prune", -1), ("group_size", 1), ("beam", None)])
def test_a_wrong_setting_is_refused_by_fit_alone(tiny_corpus, setting, value):
    model = LinearTree(**{setting: value})
    with pytest.raises(SettingError, match=f"{setting} must be"):
        model.fit(*tiny_corpus)
