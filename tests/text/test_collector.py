from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from haxmlnet.text.collector import WordCollector

TEXT = st.text("ab1 .ÀKé我カ\u0301", max_size=12)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(TEXT, max_size=5), max_size=6), st.integers(1, 4))
def test_ids_and_frequencies_equal_a_dictionary(rust_words, blocks, n_threads):
    ids: dict[str, int] = {}
    frequencies: Counter[str] = Counter()
    expected = []
    for text in (text for block in blocks for text in block):
        expected.append([ids.setdefault(word, len(ids)) for word in rust_words(text)])
        frequencies.update(set(rust_words(text)))
    collector = WordCollector()
    encoded = list(collector.encode_blocks(blocks, n_threads))
    assert [len(tokens) for tokens in encoded] == [len(block) for block in blocks]
    documents = [tokens.ids[start:end].tolist() for tokens in encoded for start, end in bounds(tokens)]
    assert documents == expected
    assert collector.words == list(ids)
    assert collector.n_words == len(ids)
    assert collector.document_frequencies.tolist() == [frequencies[word] for word in ids]


def bounds(tokens):
    return zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True)


def test_a_second_call_goes_on_where_the_first_ended():
    collector = WordCollector()
    (first,) = collector.encode_blocks([["a b"]])
    (second,) = collector.encode_blocks([["c b"]])
    assert (first.ids.tolist(), second.ids.tolist()) == ([0, 1], [2, 1])
    assert first.ids.dtype == np.int32
    assert collector.document_frequencies.tolist() == [1, 2, 1]


@settings(max_examples=80, deadline=None)
@given(st.lists(TEXT, max_size=8), st.integers(1, 12), st.integers(1, 3))
def test_most_frequent_equals_sorting(texts, size, least):
    collector = WordCollector()
    list(collector.encode_blocks([texts]))
    frequency = dict(zip(collector.words, collector.document_frequencies.tolist(), strict=True))
    expected = sorted((word for word in frequency if frequency[word] >= least), key=lambda w: (-frequency[w], w))
    assert collector.spell(collector.most_frequent(size, least)) == expected[:size]


def test_an_exception_of_the_blocks_comes_through():
    def blocks() -> Iterator[list[str]]:
        yield ["a"]
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        list(WordCollector().encode_blocks(blocks(), 2))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_only_a_few_blocks_are_read_ahead(n_threads):
    n_read = 0

    def blocks() -> Iterator[list[str]]:
        nonlocal n_read
        while n_read < 100:
            n_read += 1
            yield ["a"]

    encoded = WordCollector().encode_blocks(blocks(), n_threads)
    for n_given in range(1, 50):
        next(encoded)
        assert n_read <= n_given + n_threads + 1
    encoded.close()
    assert n_read < 60


def test_threads_end_with_their_work():
    before = threading.active_count()
    encoded = WordCollector().encode_blocks([["a"]] * 10, 2)
    next(encoded)
    encoded.close()
    assert threading.active_count() == before
