from __future__ import annotations

import re

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from haxmlnet.errors import DataError
from haxmlnet.text.characters import N_CODE_POINTS, character_table
from haxmlnet.text.word_table import WordTable
from haxmlnet.text.words import Words, split_texts


def spelled(words: Words) -> list[str]:
    text = words.text.tobytes()
    starts = [0, *words.ends[:-1].tolist()]
    return [text[start:end].decode() for start, end in zip(starts, words.ends.tolist(), strict=False)]


def split(texts: list[str]) -> list[list[str]]:
    words, lengths = split_texts(texts)
    every = spelled(words)
    assert lengths.sum() == len(every)
    return [every[end - length : end] for end, length in zip(np.cumsum(lengths), lengths, strict=True)]


def characters_that_combine() -> list[str]:
    table = character_table()
    return [chr(i) for i in np.flatnonzero((table.first_ranks > 0) | (table.last_ranks > 0))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("The Dog, the DOG's bone.", ["the", "dog", "the", "dog", "s", "bone"]),
        ("x86_64 B-52", ["x86", "64", "b", "52"]),
        ("a\0b\0", ["a", "b"]),
        ("ΟΔΟΣ ΣΑΣ", ["οδοσ", "σασ"]),
        ("İstanbul", ["i\u0307stanbul"]),
        ("ﬁne oﬀer ½ x² ™", ["fine", "offer", "1", "2", "x2", "tm"]),
        ("CAFE\u0301 café", ["café", "café"]),
        ("q\u0307\u0323 q\u0323\u0307", ["q\u0323\u0307", "q\u0323\u0307"]),
        ("ﾊﾟﾊ ガ か\u3099", ["パ", "ハ", "ガ", "が"]),
        ("\u1112\u1161\u11ab한국어", ["한한국어"]),
        ("我爱NLP研究 カナ", ["我", "爱", "nlp", "研", "究", "カ", "ナ"]),
        ("㍿ ﷺ", ["株", "式", "会", "社", "صلى", "الله", "عليه", "وسلم"]),
        ("𝔘𝔫 😀cat👍🏽 𠀀x", ["un", "cat", "𠀀", "x"]),
        ("हिन्दी ไทยน้ำ", ["हिन्दी", "ไทยน\u0e49ํา"]),
        ("a\u00a0b…c", ["a", "b", "c"]),
    ],
)
def test_words_of_a_text(text, expected, rust_words):
    assert split([text]) == [expected]
    assert rust_words(text) == expected


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=8))
@example(["\u0301a", "a", "\u0301", "\u11a8"])
def test_random_texts_are_split_as_the_rust_library_does(rust_words, texts):
    assert split(texts) == [rust_words(text) for text in texts]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.text(st.sampled_from([*" aE1가\u1100\u1161", *characters_that_combine()]), max_size=12), max_size=8))
def test_marks_are_joined_and_ordered_as_the_rust_library_does(rust_words, texts):
    assert split(texts) == [rust_words(text) for text in texts]


@pytest.mark.parametrize(
    "context", ["{}", "a{}B", "e{}\u0301", "\u0345{}", "我{}\u3099", "q\u0323{}", "\u1100{}\u11a8"]
)
def test_every_character_in_a_context(context, rust_words):
    # Those that are treated alike, as whole planes are, need not be tried one by one.
    table = character_table()
    columns = np.stack(
        [table.entries >> 16, np.diff(table.entries.astype(np.int64), prepend=0), table.first_ranks, table.last_ranks]
    )
    runs = np.flatnonzero((np.diff(columns, axis=1, prepend=-1) != 0).any(axis=0))
    rng = np.random.default_rng(0)
    tried = np.union1d(np.concatenate([runs, runs - 1]), rng.integers(0, N_CODE_POINTS, 2000))
    texts = [context.format(chr(i)) for i in tried[tried >= 0] if not 0xD800 <= i < 0xE000]
    assert len(texts) > 5000
    assert split(texts) == [rust_words(text) for text in texts]


def test_documents_do_not_run_into_each_other():
    assert split(["a", "b", "", "c我", "\u0301", "d"]) == [["a"], ["b"], [], ["c", "我"], ["\u0301"], ["d"]]
    assert split([]) == []


@pytest.mark.parametrize("text", ["a", "a b c d e", "我", "㌫", "a㌫", "㌫1½", "ﷺ", "½", "\u0390", "𝔘", "\u2a74"])
def test_there_is_room_for_texts_full_of_short_words_and_long_characters(text, rust_words):
    texts = [text * 200, text, f" {text}" * 200]
    assert split(texts) == [rust_words(text) for text in texts]


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(DataError, match=re.escape("a text holds half a surrogate pair at character 2. Decode")):
        split_texts(["fine", "a \ud800"])


def test_ids_follow_the_order_in_which_words_are_added():
    table = WordTable()
    assert table.add(Words.from_list(["b", "a", "b"])).tolist() == [0, 1, 0]
    assert table.add(Words.from_list(["c", "a"])).tolist() == [2, 1]
    assert table.add(Words.from_list([])).tolist() == []
    assert spelled(table.words) == ["b", "a", "c"]
    assert table.spell(np.array([2, 0])) == ["c", "b"]


def test_words_a_table_lacks_are_unknown():
    table = WordTable(Words.from_list(["a", "ab", ""]))
    assert table.find(Words.from_list(["ab", "b", "a", "", "abc"]), -7).tolist() == [1, -7, 0, 2, -7]
    assert WordTable().find(Words.from_list(["a"]), 1).tolist() == [1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=3).map(lambda text: text.encode("utf-8", "ignore").decode())), st.integers(1, 3))
def test_a_table_equals_a_dictionary_even_where_all_hashes_are_equal(words, n_hashes):
    expected: dict[str, int] = {}
    ids = [expected.setdefault(word, len(expected)) for word in words]
    given_words = Words.from_list(words)
    colliding = given_words._replace(hashes=given_words.hashes % np.uint64(n_hashes))
    table = WordTable()
    assert table.add(colliding).tolist() == ids
    assert table.find(colliding, -1).tolist() == ids
    assert spelled(table.words) == list(expected)


def test_a_table_grows():
    words = [f"word{i}" for i in range(50_000)]
    table = WordTable()
    for start in range(0, len(words), 700):
        table.add(Words.from_list(words[start : start + 700]))
    assert table.n_words == len(words)
    assert table.find(Words.from_list(words), -1).tolist() == list(range(50_000))
    assert table.spell(np.arange(50_000)) == words
