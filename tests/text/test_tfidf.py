from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from sklearn.feature_extraction.text import TfidfTransformer

from haxmlnet.data.tokens import TokenArray
from haxmlnet.text.tfidf import inverse_document_frequency, tfidf, unit_rows, word_counts

N_WORDS = 12

documents = st.lists(st.lists(st.integers(0, N_WORDS - 1), max_size=20), max_size=10)


def idf_of(counts):
    return inverse_document_frequency((counts.toarray() > 0).sum(axis=0), counts.shape[0])


def token_array(lists: list[list[int]]) -> TokenArray:
    return TokenArray.from_lists([np.array(document, np.int32) for document in lists])


@settings(max_examples=60, deadline=None)
@given(documents)
def test_word_counts_equal_a_brute_force(lists):
    counts = word_counts(token_array(lists), N_WORDS)
    # The ids 0 and 1, padding and unknown words, do not count.
    expected = [[0, 0, *(document.count(word) for word in range(2, N_WORDS))] for document in lists]
    assert counts.shape == (len(lists), N_WORDS)
    assert counts.toarray().tolist() == expected
    assert counts.nnz == np.count_nonzero(expected)


@settings(max_examples=60, deadline=None)
@given(documents, st.integers(0, N_WORDS), st.integers(0, N_WORDS), st.integers(0, 20), st.randoms())
def test_words_beyond_the_vocabulary_do_not_count(lists, n_words, limit, max_length, random):
    rows = random.sample(range(len(lists)), len(lists) // 2)
    tokens = token_array(lists).limit_words(limit).truncate(max_length).take(np.array(rows, np.int64))
    expected = [
        [lists[row][:max_length].count(word) if 1 < word < limit else 0 for word in range(n_words)] for row in rows
    ]
    counts = word_counts(tokens, n_words)
    assert counts.shape == (len(rows), n_words)
    assert counts.toarray().tolist() == expected
    counts.check_format(full_check=True)
    for start, end in zip(counts.indptr[:-1], counts.indptr[1:], strict=True):
        assert (np.diff(counts.indices[start:end]) > 0).all()


def test_word_counts_leave_the_tokens_alone():
    # It once sorted its arrays in place, so that every document got the words of another.
    tokens = token_array([[9, 2, 9, 1, 3], [], [7, 2, 2, 7], [5, 4, 5]])
    ids, starts = tokens.ids.copy(), tokens.starts.copy()
    counts = word_counts(tokens, N_WORDS)
    tfidf(counts, idf_of(counts))
    np.testing.assert_array_equal(tokens.ids, ids)
    np.testing.assert_array_equal(tokens.starts, starts)


@settings(max_examples=60, deadline=None)
@given(documents.filter(len))
def test_tfidf_equals_that_of_scikit_learn(lists):
    counts = word_counts(token_array(lists), N_WORDS)
    transformer = TfidfTransformer(sublinear_tf=True).fit(counts)
    idf = idf_of(counts)
    np.testing.assert_allclose(idf, transformer.idf_, rtol=1e-6)
    expected = transformer.transform(counts).toarray()
    np.testing.assert_allclose(tfidf(counts, idf).toarray(), expected, rtol=1e-5, atol=1e-7)


def test_tfidf_of_new_documents_uses_the_frequencies_of_the_old():
    old, new = (word_counts(token_array(lists), N_WORDS) for lists in ([[2, 3], [2], [2, 4, 4]], [[2, 4, 9, 9]]))
    expected = TfidfTransformer(sublinear_tf=True).fit(old).transform(new).toarray()
    np.testing.assert_allclose(tfidf(new, idf_of(old)).toarray(), expected, rtol=1e-5)


def test_tfidf_leaves_the_counts_alone():
    counts = word_counts(token_array([[2, 3, 3], [4]]), N_WORDS)
    before = counts.toarray()
    tfidf(counts, idf_of(counts))
    assert counts.toarray().tolist() == before.tolist()


def test_unit_rows():
    rows = unit_rows(sp.csr_array(np.array([[3, 4, 0], [0, 0, 0], [0, -2, 0]], np.float32)))
    np.testing.assert_allclose(rows.toarray(), [[0.6, 0.8, 0], [0, 0, 0], [0, -1, 0]], rtol=1e-6)
    assert rows.dtype == np.float32
