"""What every method must do, whatever it learns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from haxmlnet.data import Document, SkipReport
from haxmlnet.data.labels import index_labels
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import DataError, ModelError, SettingError
from haxmlnet.models import METHODS
from haxmlnet.ranking import Ranking
from haxmlnet.saved import SavedModel
from haxmlnet.text.corpus_builder import prepare_documents

WITHOUT_KNOWN_WORDS = ["", " \n\t ", "words nobody ever wrote", "!?.", "sign0a"]


@pytest.fixture(scope="module", params=list(METHODS))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name, new_model, tiny_corpus):
    return new_model(name).fit(*tiny_corpus)


@pytest.fixture
def hasty(name, new_hasty_model):
    return new_hasty_model(name)


def files_of(path: Path) -> dict[str, Any]:
    files: dict[str, Any] = SavedModel(path).fetch().header["files"]
    return files


def assert_same(ranking: Ranking, other: Ranking) -> None:
    np.testing.assert_array_equal(ranking.ids, other.ids)
    np.testing.assert_array_equal(ranking.scores, other.scores)
    assert list(ranking.names) == list(other.names)


def assert_sound(ranking: Ranking, n_documents: int) -> None:
    assert len(ranking) == n_documents
    assert ranking.ids.dtype == np.int32
    assert ranking.scores.dtype == np.float32
    assert ((ranking.scores >= 0) & (ranking.scores <= 1)).all()
    assert (np.diff(ranking.scores, axis=1) <= 0).all()
    for row in ranking:
        labels = [label for label, _ in row]
        assert len(set(labels)) == len(labels)


def test_learns_a_tiny_corpus(model, tiny_corpus, unseen_documents):
    assert model.evaluate(*tiny_corpus).values["P@1"] > 95
    assert model.evaluate(*unseen_documents).values["P@1"] > 90
    assert 0.9 < model.score(*unseen_documents) <= 1


def test_k_above_the_number_of_labels_means_all(model, unseen_documents):
    texts, _ = unseen_documents
    ranking = model.predict(texts, k=1000)
    assert_sound(ranking, len(texts))
    assert ranking.ids.shape == (len(texts), len(model.classes_))


def test_fewer_labels_are_the_first_of_more(model, unseen_documents):
    texts, _ = unseen_documents
    few, many = model.predict(texts, k=3), model.predict(texts, k=10)
    assert_same(few, many.top(3))


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "three", None])
def test_k_that_is_no_number_of_labels_is_refused(model, k):
    with pytest.raises(SettingError, match="k must be"):
        model.predict(["text"], k=k)


def test_texts_without_known_words_get_a_ranking(model):
    assert_sound(model.predict(WITHOUT_KNOWN_WORDS), len(WITHOUT_KNOWN_WORDS))


def test_no_texts_give_an_empty_ranking(model):
    ranking = model.predict([], k=3)
    assert_sound(ranking, 0)
    assert list(ranking) == []


def test_one_by_one_is_as_in_a_batch(model, unseen_documents):
    texts = [*unseen_documents[0], *WITHOUT_KNOWN_WORDS]
    batch = model.predict(texts)
    for row, text in enumerate(texts):
        alone = model.predict([text])
        np.testing.assert_array_equal(alone.ids[0], batch.ids[row])
        np.testing.assert_allclose(alone.scores[0], batch.scores[row], atol=1e-5)


def test_save_and_load_give_the_same_ranking(model, unseen_documents, tmp_path):
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert_same(loaded.predict(unseen_documents[0], k=24), model.predict(unseen_documents[0], k=24))
    assert loaded.get_params() == model.get_params()
    assert loaded.training_["n_documents"] == model.training_["n_documents"]
    np.testing.assert_array_equal(loaded.label_counts_, model.label_counts_)


def test_a_loaded_model_is_saved_as_the_same_files(model, tmp_path):
    model.save(tmp_path / "first")
    type(model).load(tmp_path / "first").save(tmp_path / "second")
    assert files_of(tmp_path / "first") == files_of(tmp_path / "second")


def test_the_directory_of_another_method_is_refused(model, name, tmp_path):
    model.save(tmp_path / "model")
    for other in METHODS.keys() - {name}:
        with pytest.raises(ModelError, match=f"a model of {name}, not of {other}"):
            METHODS[other].load(tmp_path / "model")


def test_same_seed_same_files(name, new_hasty_model, tiny_corpus, tmp_path):
    for copy in ("first", "second"):
        new_hasty_model(name).fit(*tiny_corpus).save(tmp_path / copy)
    # The header lists the checksum of every other file.
    assert files_of(tmp_path / "first") == files_of(tmp_path / "second")


def test_a_prepared_corpus_is_as_the_lists_it_was_made_of(name, new_hasty_model, tiny_corpus, tmp_path):
    documents = (
        Document(str(i), text, tuple(labels)) for i, (text, labels) in enumerate(zip(*tiny_corpus, strict=True))
    )
    (tmp_path / "corpus").mkdir()
    prepare_documents(documents, tmp_path / "corpus", "", SkipReport())
    new_hasty_model(name).fit(*tiny_corpus).save(tmp_path / "lists")
    # The first time features are made and kept beside the corpus, the second time they are found there.
    for model in ("new", "again"):
        corpus = PreparedCorpus.open(tmp_path / "corpus")
        new_hasty_model(name).fit_prepared(corpus).save(tmp_path / model)
        assert files_of(tmp_path / model) == files_of(tmp_path / "lists")


def test_predict_before_fit_is_refused(hasty, tmp_path):
    for use in (lambda: hasty.predict(["text"]), lambda: hasty.save(tmp_path / "model"), lambda: hasty.classes_):
        with pytest.raises(NotFittedError, match="not trained yet"):
            use()


def test_an_indicator_matrix_with_names_is_as_lists(name, new_hasty_model, tiny_corpus):
    texts, labels = tiny_corpus
    index, matrix = index_labels(labels, len(texts))
    expected = new_hasty_model(name).fit(texts, labels).predict(texts)
    for given in (matrix, sp.csc_matrix(matrix), matrix.toarray(), matrix.toarray().astype(bool)):
        model = new_hasty_model(name).fit(texts, given, label_names=list(index.names))
        assert_same(model.predict(texts), expected)


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (["a b", "c d"], ["x", "y"], "labels[0] must be a collection of strings, got 'x'"),
        (["a b", "c d"], "xy", "labels[0] must be a collection of strings, got 'x'"),
        (["a b", "c d"], [["x"], [1]], "labels[1] must hold strings, got 1"),
        ("a b", [["x"]], "texts must be a sequence of strings, got one string"),
        (["a b", None], [["x"], ["y"]], "texts[1] must be a string, got None"),
        (["a b", "c d"], [["x"]], "labels: expected 2, one set a text, got 1"),
        (["a b", "c d"], [[], []], "no document has a label"),
        ([], [], "no document has a label"),
        (["!", "?"], [["x"], ["y"]], "no word occurs"),
        (["a b", "c d"], np.array([[0, 2], [1, 0]]), "holds 0 and 1 only"),
    ],
)
def test_wrong_data_is_refused(hasty, texts, labels, message):
    with pytest.raises(DataError, match=re.escape(message)):
        hasty.fit(texts, labels)


def test_one_string_to_predict_is_refused(model):
    with pytest.raises(DataError, match="got one string"):
        model.predict("a text")


def test_one_label_only(hasty, tiny_corpus):
    texts, _ = tiny_corpus
    ranking = hasty.fit(texts, [["only"]] * len(texts)).predict(texts[:3])
    assert ranking.labels.tolist() == [["only"]] * 3


def test_one_document_only(hasty):
    ranking = hasty.fit(["one short text"], [["a", "b"]]).predict(["one short text", "other"])
    assert_sound(ranking, 2)
    assert {label for label, _ in ranking[0]} == {"a", "b"}


def test_all_documents_equal(hasty):
    labels = [["a"], ["b"], ["a", "c"]] * 10
    assert_sound(hasty.fit(["the same text"] * 30, labels).predict(["the same text"]), 1)


def test_a_label_twice_in_a_document_counts_once(name, new_hasty_model, tiny_corpus):
    texts, labels = tiny_corpus
    once = new_hasty_model(name).fit(texts, labels)
    twice = new_hasty_model(name).fit(texts, [row + row[:1] for row in labels])
    assert_same(once.predict(texts), twice.predict(texts))
    np.testing.assert_array_equal(once.label_counts_, twice.label_counts_)


def test_odd_label_names_survive_save_and_load(hasty, tiny_corpus, tmp_path: Path):
    odd = [
        "two words",
        " ",
        "",
        "two\nlines",
        "a\rreturn",
        r"back\slash",
        "\\\n",
        r"\n",
        "x" * 10_000,
        "Ünï 日本 🏷",
        "\u2028",
    ]
    texts, _ = tiny_corpus
    labels = [[odd[row % len(odd)]] for row in range(len(texts))]
    hasty.fit(texts, labels).save(tmp_path / "model")
    loaded = type(hasty).load(tmp_path / "model")
    assert loaded.classes_.tolist() == sorted(odd)
    assert_same(loaded.predict(texts[:5], k=11), hasty.predict(texts[:5], k=11))


def test_documents_without_labels_are_allowed(hasty, tiny_corpus):
    texts, labels = tiny_corpus
    labels = [[] if row % 3 == 0 else names for row, names in enumerate(labels)]
    assert_sound(hasty.fit(texts, labels).predict(texts), len(texts))
    assert hasty.label_counts_.sum() == sum(map(len, labels))


def test_a_label_without_documents_is_allowed(hasty, tiny_corpus, tmp_path: Path):
    texts, labels = tiny_corpus
    _, matrix = index_labels(labels, len(texts))
    padded = sp.hstack([matrix, sp.csr_array((len(texts), 1))]).tocsr()
    hasty.fit(texts, padded).save(tmp_path / "model")
    ranking = type(hasty).load(tmp_path / "model").predict(texts, k=25)
    assert_sound(ranking, len(texts))
    assert ranking.n_ids == 25
    assert hasty.label_counts_[24] == 0
