from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from haxmlnet.data.tokens import (
    PAD_ID,
    UNKNOWN_ID,
    TokenArray,
    length_sorted_batches,
    similar_length_batches,
)

Documents = list[list[int]]
documents = st.lists(st.lists(st.integers(2, 99), max_size=8), max_size=12)


def token_array(lists: Documents) -> TokenArray:
    return TokenArray.from_lists([np.array(document, np.int32) for document in lists])


def as_lists(tokens: TokenArray) -> Documents:
    return [tokens.ids[a:b].tolist() for a, b in zip(tokens.starts, tokens.ends, strict=True)]


@settings(max_examples=60, deadline=None)
@given(documents)
def test_documents_come_back(lists):
    tokens = token_array(lists)
    assert as_lists(tokens) == lists
    assert len(tokens) == len(lists)
    assert tokens.lengths.tolist() == [len(document) for document in lists]
    assert (tokens.ids.dtype, tokens.starts.dtype) == (np.int32, np.int64)


@settings(max_examples=60, deadline=None)
@given(documents, st.integers(1, 9))
def test_truncated_keeps_the_first_words_and_copies_none(lists, max_length):
    tokens = token_array(lists)
    truncated = tokens.truncate(max_length)
    assert as_lists(truncated) == [document[:max_length] for document in lists]
    assert truncated.ids is tokens.ids


@settings(max_examples=60, deadline=None)
@given(documents, st.data())
def test_take_keeps_the_order_given(lists, data):
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1))) if lists else []
    tokens = token_array(lists)
    taken = tokens.take(np.array(rows, np.int64))
    assert as_lists(taken) == [lists[row] for row in rows]
    assert taken.ids is tokens.ids


@settings(max_examples=60, deadline=None)
@given(documents.filter(len), st.integers(1, 9), st.integers(2, 100), st.data())
def test_packed_copies_the_documents_chosen_within_the_limit(lists, max_length, n_words, data):
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1)))
    packed = token_array(lists).truncate(max_length).limit_words(n_words).take(np.array(rows, np.int64)).pack()
    expected = [[word if word < n_words else UNKNOWN_ID for word in lists[row][:max_length]] for row in rows]
    assert as_lists(packed) == expected
    assert packed.ids.tolist() == [word for document in expected for word in document]


@settings(max_examples=60, deadline=None)
@given(documents.filter(len), st.data())
def test_padded_fills_up_on_the_right_within_the_limit_and_leaves_no_document_empty(lists, data):
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1)))
    n_words = data.draw(st.integers(2, 100))
    batch, lengths = token_array(lists).limit_words(n_words).pad(np.array(rows, np.int64))
    limited = [[word if word < n_words else UNKNOWN_ID for word in document] for document in lists]
    chosen = [limited[row] or [UNKNOWN_ID] for row in rows]
    width = max([1, *map(len, chosen)])
    assert batch.shape == (len(rows), width)
    assert batch.tolist() == [document + [PAD_ID] * (width - len(document)) for document in chosen]
    assert lengths.tolist() == [len(document) for document in chosen]


def test_ids_may_be_memory_mapped(tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(10, dtype=np.int32))
    ids = np.load(tmp_path / "ids.npy", mmap_mode="r")
    tokens = TokenArray.from_lengths(ids, np.array([4, 0, 6])).limit_words(8)
    batch, lengths = tokens.pad(np.array([2, 1]))
    assert batch.tolist() == [[4, 5, 6, 7, UNKNOWN_ID, UNKNOWN_ID], [UNKNOWN_ID] + 5 * [PAD_ID]]
    assert lengths.tolist() == [6, 1]
    assert tokens.pack().ids.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, UNKNOWN_ID, UNKNOWN_ID]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 500), max_size=200), st.integers(1, 20), st.integers(1, 5), st.integers(0, 99))
def test_similar_length_batches_hold_every_document_once(lengths, batch_size, pool, seed):
    batches = similar_length_batches(np.array(lengths, np.int64), batch_size, np.random.default_rng(seed), pool)
    assert sorted(np.concatenate([[], *batches])) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    # Every pool is full but the last one, so only one batch can be short.
    assert len(batches) == -(-len(lengths) // batch_size)


def test_batches_depend_on_the_seed_alone():
    lengths = np.random.default_rng(0).integers(1, 500, 300)

    def batches(seed: int) -> list[list[int]]:
        return [rows.tolist() for rows in similar_length_batches(lengths, 16, np.random.default_rng(seed))]

    assert batches(1) == batches(1)
    assert batches(1) != batches(2)


def test_documents_of_a_batch_have_similar_lengths():
    lengths = np.random.default_rng(0).integers(1, 500, 1600)
    batches = similar_length_batches(lengths, 16, np.random.default_rng(1))
    padded = sum(len(rows) * lengths[rows].max() for rows in batches)
    assert padded < 1.05 * lengths.sum()
    # A batch of 16 at random would be padded to nearly twice its words.
    order = np.random.default_rng(1).permutation(1600).reshape(-1, 16)
    assert 16 * lengths[order].max(axis=1).sum() > 1.8 * lengths.sum()


def test_batches_come_in_no_order_of_length():
    lengths = np.arange(1, 1601)
    longest = [lengths[rows].max() for rows in similar_length_batches(lengths, 16, np.random.default_rng(0))]
    assert abs(np.corrcoef(longest, np.arange(100))[0, 1]) < 0.3


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 500), max_size=100),
    st.integers(1, 20),
    st.integers(1, 2000),
)
def test_length_sorted_batches_keep_their_bounds(lengths, max_documents, max_tokens):
    lengths = np.array(lengths, np.int64)
    batches = list(length_sorted_batches(lengths, max_documents, max_tokens))
    order = np.concatenate([[], *batches]).astype(int)
    assert sorted(order) == list(range(len(lengths)))
    assert (np.diff(lengths[order]) <= 0).all()
    for rows in batches:
        assert 1 <= len(rows) <= max_documents
        # A document longer than the bound has a batch of its own.
        assert len(rows) == 1 or len(rows) * lengths[rows].max() <= max_tokens


@pytest.mark.parametrize(("length", "n_batches"), [(10, 4), (100, 20)])
def test_length_sorted_batches_are_no_smaller_than_needed(length, n_batches):
    # 200 documents, 50 a batch or 1000 words a batch, whichever comes first.
    assert len(list(length_sorted_batches(np.full(200, length), 50, 1000))) == n_batches
