from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from haxmlnet.data import Document, SkipReport
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.progress import Progress
from haxmlnet.text.corpus_builder import prepare_documents
from haxmlnet.text.document_features import document_features

TEXTS = ["dog dog cat", "", "cat bird bird bird", "fish", "dog cat fish fish"]


def documents():
    return (Document(str(i), text, ("label",)) for i, text in enumerate(TEXTS))


@pytest.mark.parametrize("block_words", [1, 4, 1000])
def test_equals_scikit_learn_whatever_the_blocks(tmp_path, monkeypatch, block_words):
    monkeypatch.setattr("haxmlnet.text.document_features.BLOCK_WORDS", block_words)
    corpus = prepare_documents(documents(), tmp_path, "", SkipReport())
    words = corpus.words()
    expected = TfidfVectorizer(sublinear_tf=True, vocabulary=words).fit_transform(TEXTS).toarray()
    for prepared in (corpus, PreparedCorpus.open(tmp_path), PreparedCorpus.open(tmp_path)):
        features = document_features(prepared, prepared.n_words, Progress())
        assert features.dtype == np.float32
        np.testing.assert_allclose(features.toarray()[:, 2:], expected, rtol=1e-6)
        assert not features.toarray()[:, :2].any()


def test_words_beyond_the_vocabulary_do_not_count():
    corpus = prepare_documents(documents(), None, "", SkipReport())
    words = corpus.words(4)
    expected = TfidfVectorizer(sublinear_tf=True, vocabulary=words).fit_transform(TEXTS).toarray()
    np.testing.assert_allclose(document_features(corpus, 4, Progress()).toarray()[:, 2:], expected, rtol=1e-6)


def test_the_second_time_nothing_is_counted(tmp_path, monkeypatch):
    prepare_documents(documents(), tmp_path, "", SkipReport())
    corpus = PreparedCorpus.open(tmp_path)
    first = document_features(corpus, corpus.n_words, Progress()).toarray()
    monkeypatch.setattr("haxmlnet.text.document_features.word_counts", None)
    np.testing.assert_array_equal(document_features(corpus, corpus.n_words, Progress()).toarray(), first)
