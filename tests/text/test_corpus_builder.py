from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from haxmlnet.data import Document, SkipReport
from haxmlnet.data.labels import index_labels
from haxmlnet.data.prepared import FIRST_WORD_ID, PreparedCorpus
from haxmlnet.errors import DataError
from haxmlnet.text.corpus_builder import prepare_documents, prepare_texts

WORDS = ["a", "bird", "cat", "dog", "éclair", "猫", "x1"]
LABELS = ["law", "two\nlines", 'quo"te', "back\\slash", "größe", " "]
# A document with words and a label comes first: without any label nothing is prepared.
some_documents = st.lists(
    st.tuples(st.lists(st.sampled_from(WORDS), max_size=8), st.lists(st.sampled_from(LABELS), max_size=4)), max_size=12
).map(lambda rows: [(["dog", "dog", "bird"], ["law"]), *rows])
Rows = list[tuple[list[str], list[str]]]


def prepared(rows: Rows, directory: Path | None = None) -> PreparedCorpus:
    documents = (Document(str(i), " ".join(words), tuple(labels)) for i, (words, labels) in enumerate(rows))
    return prepare_documents(documents, directory, "somewhere", SkipReport(2, ["one", "two"]))


def assert_same(corpus: PreparedCorpus, other: PreparedCorpus) -> None:
    assert corpus.words() == other.words()
    assert corpus.label_index.names.tolist() == other.label_index.names.tolist()
    np.testing.assert_array_equal(corpus.tokens.ids, other.tokens.ids)
    np.testing.assert_array_equal(corpus.tokens.lengths, other.tokens.lengths)
    np.testing.assert_array_equal(corpus.frequencies, other.frequencies)
    np.testing.assert_array_equal(corpus.targets.toarray(), other.targets.toarray())
    assert corpus.digest == other.digest


@settings(max_examples=60, deadline=None)
@given(some_documents)
def test_ids_go_by_document_frequency_then_by_word(rows):
    corpus = prepared(rows)
    frequencies = Counter(word for words, _ in rows for word in set(words))
    expected = sorted(frequencies, key=lambda word: (-frequencies[word], word))
    assert corpus.words() == expected
    assert corpus.frequencies.tolist() == [0] * FIRST_WORD_ID + [frequencies[word] for word in expected]
    listed = [None, None, *expected]
    for row, (words, _) in enumerate(rows):
        ids = corpus.tokens.take(np.array([row])).pack().ids
        assert [listed[i] for i in ids] == words


@settings(max_examples=60, deadline=None)
@given(some_documents)
def test_labels_are_as_those_of_lists(rows):
    corpus = prepared(rows)
    index, targets = index_labels([labels for _, labels in rows], len(rows))
    assert corpus.label_index.names.tolist() == index.names.tolist()
    np.testing.assert_array_equal(corpus.targets.toarray(), targets.toarray())
    assert corpus.targets.has_sorted_indices


@settings(max_examples=30, deadline=None)
@given(some_documents)
def test_files_lists_and_directories_give_the_same_corpus(tmp_path_factory, rows):
    directory = tmp_path_factory.mktemp("corpus")
    written = prepared(rows, directory)
    index, targets = index_labels([labels for _, labels in rows], len(rows))
    assert_same(written, prepare_texts([" ".join(words) for words, _ in rows], index, targets))
    opened = PreparedCorpus.open(directory)
    assert_same(written, opened)
    assert (opened.source, opened.skipped, opened.directory) == ("somewhere", SkipReport(2, ["one", "two"]), directory)
    assert len(opened) == len(rows)


def test_a_directory_holds_nothing_but_the_corpus(tmp_path):
    prepared([(["dog"], ["law"])], tmp_path)
    arrays = ["bounds.npy", "frequencies.npy", "ids.npy", "label_bounds.npy", "label_ids.npy"]
    assert sorted(os.listdir(tmp_path)) == sorted([*arrays, "arrays.json", "labels.json", "words.txt"])


def test_texts_without_words_are_empty_documents(tmp_path):
    prepared([([], ["law"]), ([], [])], tmp_path)
    corpus = PreparedCorpus.open(tmp_path)
    assert corpus.tokens.lengths.tolist() == [0, 0]
    assert corpus.words() == []
    with pytest.raises(DataError, match="no word occurs in 1 or more of the 2 training documents"):
        corpus.vocabulary_limit(10, 1)


def test_documents_without_any_label_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"somewhere: none of 2 documents has a label\. Use --label-field"):
        prepared([(["dog"], []), (["cat"], [])], tmp_path)


@pytest.mark.parametrize(
    ("size", "least", "words"),
    [(99, 1, ["a", "b", "c", "d"]), (3, 1, ["a", "b", "c"]), (99, 2, ["a", "b"]), (1, 2, ["a"]), (99, 3, ["a"])],
)
def test_a_vocabulary_is_a_limit_on_the_ids(size, least, words):
    rows = [(list(words), ["law"]) for words in ("abc", "abd", "a")]
    corpus = prepared(rows)
    n_words = corpus.vocabulary_limit(size, least)
    assert corpus.words(n_words) == words
    assert n_words == FIRST_WORD_ID + len(words)
    limited = corpus.tokens.limit_words(n_words).pack().ids
    assert [i for i in limited if i >= FIRST_WORD_ID] == [i for i in corpus.tokens.ids if i < n_words]


def test_the_digest_tells_documents_apart():
    rows = [(["dog", "cat"], ["law"]), (["dog"], ["law", " "])]
    others = [
        [(["dog", "bird"], ["law"]), (["dog"], ["law", " "])],
        [(["cat", "dog"], ["law"]), (["dog"], ["law", " "])],
        [(["dog"], ["law"]), (["cat", "dog"], ["law", " "])],
        [(["dog", "cat"], ["law"]), (["dog"], ["law"])],
        rows[::-1],
    ]
    digests = {prepared(other).digest for other in [rows, *others]}
    assert len(digests) == 1 + len(others)
    assert prepared(rows).digest in digests


@pytest.mark.parametrize("harm", ["cut", "lost", "swapped"])
def test_a_damaged_directory_is_refused(tmp_path, harm):
    prepared([(["dog", "cat"], ["law"]), (["dog"], ["law"])], tmp_path)
    if harm == "cut":
        os.truncate(tmp_path / "ids.npy", 130)
    elif harm == "lost":
        (tmp_path / "words.txt").unlink()
    else:  # both have the same number of bytes
        np.save(tmp_path / "bounds.npy", np.array([0, 2, 9]))
    with pytest.raises(DataError, match=r"damaged|not whole"):
        PreparedCorpus.open(tmp_path)


@pytest.mark.parametrize("what", ["nothing", "empty", "model"])
def test_what_is_no_prepared_corpus_is_refused(tmp_path, what):
    if what != "nothing":
        (tmp_path / what).mkdir()
    if what == "model":
        (tmp_path / what / "arrays.json").write_text('{"format": "haxmlnet arrays", "format_version": 1, "files": {}}')
    with pytest.raises(DataError, match=what):
        PreparedCorpus.open(tmp_path / what)


def test_opening_reads_neither_words_nor_labels(tmp_path):
    prepared([(["dog"], ["law"])], tmp_path)
    corpus = PreparedCorpus.open(tmp_path)
    assert "label_index" not in corpus.__dict__
    assert "targets" not in corpus.__dict__
    assert "targets" not in replace(corpus, source="other").__dict__


def test_a_removed_directory_can_still_be_used_by_whoever_opened_it(tmp_path):
    prepared([(["dog", "cat"], ["law"]), (["dog"], ["law"])], tmp_path)
    corpus = PreparedCorpus.open(tmp_path)
    for file in tmp_path.iterdir():
        file.unlink()
    assert corpus.words() == ["dog", "cat"]
    assert corpus.label_index.names.tolist() == ["law"]
    assert corpus.targets.nnz == 2
