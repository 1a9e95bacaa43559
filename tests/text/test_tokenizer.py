from __future__ import annotations

import copy
import json
import pickle
import unicodedata

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from tokenizers import Tokenizer

from haxmlnet.data.labels import LabelIndex
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.errors import DataError, ModelError
from haxmlnet.text.collector import document_frequencies
from haxmlnet.text.corpus_builder import prepare_texts
from haxmlnet.text.tokenizer import SPECIAL_WORDS, WordTokenizer


def words_of(tokenizer: WordTokenizer, text: str) -> list[str]:
    return [tokenizer.words[i] for i in tokenizer.encode([text]).ids]


def spans(text: str) -> list[str]:
    _, offsets = WordTokenizer.from_words(["a"]).encode_with_offsets(text)
    return [text[start:end] for start, end in offsets]


def build_vocabulary(texts: list[str], size: int, min_document_frequency: int) -> tuple[WordTokenizer, TokenArray]:
    """Choose words and encode texts as a training does."""
    corpus = prepare_texts(
        texts, LabelIndex(np.array(["x"], dtype=object)), sp.csr_array((len(texts), 1), dtype=np.float32)
    )
    n_words = corpus.vocabulary_limit(size, min_document_frequency)
    return WordTokenizer.from_words(corpus.words(n_words)), corpus.tokens.limit_words(n_words).pack()


def vocabulary(texts: list[str], size: int = 100, min_document_frequency: int = 1) -> list[str]:
    tokenizer, _ = build_vocabulary(texts, size, min_document_frequency)
    assert tokenizer.words[:2] == SPECIAL_WORDS
    return tokenizer.words[2:]


def test_words_have_ids_in_the_order_given():
    tokenizer = WordTokenizer.from_words(["dog", "cat"])
    assert tokenizer.words == ["[PAD]", "[UNK]", "dog", "cat"]
    assert tokenizer.n_words == 4
    assert tokenizer.encode(["cat dog", "", "dog"]).ids.tolist() == [3, 2, 2]
    assert tokenizer.encode(["cat dog", "", "dog"]).lengths.tolist() == [2, 0, 1]


def test_unknown_words_are_id_1():
    tokenizer = WordTokenizer.from_words(["dog"])
    assert tokenizer.encode(["a dog barks 狗"]).ids.tolist() == [UNKNOWN_ID, 2, UNKNOWN_ID, UNKNOWN_ID]


@pytest.mark.parametrize("text", ["", " \t\n", "...!?", "👍🏽", "\0"])
def test_texts_without_words_are_empty(text):
    tokenizer = WordTokenizer.from_words(["dog"])
    assert tokenizer.encode([text]).lengths.tolist() == [0]
    assert tokenizer.encode_with_offsets(text)[1] == []


def test_no_texts():
    assert len(WordTokenizer.from_words(["dog"]).encode([])) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Dog, the DOG's bone.", ["The", "Dog", "the", "DOG", "s", "bone"]),
        ("x86_64 B-52", ["x86", "64", "B", "52"]),
        ("😀cat👍🏽 dog", ["cat", "dog"]),
        ("ﬁne oﬀer", ["ﬁne", "oﬀer"]),
        ("cafe\u0301 cafe\u0301s café", ["cafe\u0301", "cafe\u0301s", "café"]),
        ("か\u3099我, \u1112\u1161\u11ab!", ["か\u3099", "我", "\u1112\u1161\u11ab"]),
        ("İstanbul STRASSE Straße", ["İstanbul", "STRASSE", "Straße"]),
        ("我爱 NLP研究", ["我", "爱", "NLP", "研", "究"]),
        ("カタカナと平", ["カ", "タ", "カ", "ナ", "と", "平"]),
        ("ＦＵＬＬ width", ["ＦＵＬＬ", "width"]),
        ("한국어 текст हिन्दी", ["한국어", "текст", "हिन्दी"]),
        ("㍿ ok", ["㍿", "㍿", "㍿", "㍿", "ok"]),
        ("𝔘𝔫 x² ½", ["𝔘𝔫", "x²", "½", "½"]),
    ],
)
def test_offsets_point_at_the_words_as_they_came(text, expected):
    assert spans(text) == expected


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(["NFC", "NFD"]),
    st.lists(st.text(st.characters(categories=["L", "N"], max_codepoint=0x24F), min_size=1), min_size=1),
)
@example("NFD", ["ß", "İ", "ǆ"])
def test_offsets_find_every_word_between_emoji(form, words):
    text = "".join(f"😀{unicodedata.normalize(form, word)}" for word in words)
    tokenizer, _ = build_vocabulary([" ".join(words)], 1000, 1)
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert UNKNOWN_ID not in ids
    for i, (start, end) in zip(ids, offsets, strict=True):
        # What the offsets cut out of the text contains the word, once normalised as the tokenizer does.
        assert tokenizer.words[i] in unicodedata.normalize("NFKC", text[start:end]).lower()
        assert "😀" not in text[start:end]


def test_case_and_compatible_forms_are_one_word():
    tokenizer = WordTokenizer.from_words(["fine", "café", "abc"])
    assert words_of(tokenizer, "FINE ﬁne Cafe\u0301 CAFÉ ＡＢＣ") == ["fine", "fine", "café", "café", "abc"]


def test_encode_agrees_with_encode_with_offsets():
    tokenizer = WordTokenizer.from_words(["dog", "我"])
    for text in ("A dog. 我爱 Dog", "", "😀"):
        assert tokenizer.encode_with_offsets(text)[0].tolist() == tokenizer.encode([text]).ids.tolist()


def test_more_texts_than_a_block_and_progress():
    tokenizer = WordTokenizer.from_words([f"w{i}" for i in range(45_000)])
    done: list[int] = []
    tokens = tokenizer.encode([f"w{i}" for i in range(45_000)], done.append)
    assert (tokens.ids == np.arange(45_000) + 2).all()
    assert (tokens.lengths == 1).all()
    assert len(done) > 1
    assert sum(done) == 45_000


def test_the_vocabulary_is_ordered_by_documents_then_by_word():
    texts = ["b b b b a", "a c b", "c z", "z d"]
    # Documents: a 2, b 2, c 2, z 2, d 1. That b occurs most often does not matter.
    assert vocabulary(texts) == ["a", "b", "c", "z", "d"]
    assert vocabulary(texts[::-1]) == ["a", "b", "c", "z", "d"]
    assert vocabulary(texts, size=3) == ["a", "b", "c"]
    assert vocabulary(texts, min_document_frequency=2) == ["a", "b", "c", "z"]


def test_a_vocabulary_without_words_is_refused():
    with pytest.raises(DataError, match=r"^no word occurs in 2 or more of the 2 training documents\."):
        build_vocabulary(["a", "b"], 10, 2)
    with pytest.raises(DataError, match=r"^no word occurs in 1 or more"):
        build_vocabulary(["", "..."], 10, 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab1 .[]ÀKUNPADé我カ\u0301", max_size=12), min_size=1), st.integers(1, 4))
@example(["[UNK] [PAD] a", "pad a"], 2)
def test_tokens_of_training_are_those_the_tokenizer_gives(texts, size):
    try:
        tokenizer, tokens = build_vocabulary(texts, size, 1)
    except DataError:
        return
    encoded = tokenizer.encode(texts)
    assert tokens.ids.tolist() == encoded.ids.tolist()
    assert tokens.starts.tolist() == encoded.starts.tolist()


def test_special_words_in_a_text_are_plain_words():
    assert vocabulary(["[PAD] [UNK] dog"]) == ["dog", "pad", "unk"]


def test_a_very_long_word_does_not_multiply_the_memory():
    # As fixed-width text, 20,000 words as wide as the longest would need 80 GB.
    texts = [" ".join(f"w{i}" for i in range(20_000)), "x" * 1_000_000]
    assert len(vocabulary(texts, size=50_000)) == 20_001


def test_document_frequencies_count_a_word_once_a_document():
    tokens = TokenArray.from_lists([np.array(ids, np.int32) for ids in ([2, 2, 3], [], [3], [1, 3])])
    assert document_frequencies(tokens, 5).tolist() == [0, 1, 1, 3, 0]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=5), st.data())
def test_encoding_equals_that_of_the_rust_library(rust_words, texts, data):
    every_word = sorted({word for text in texts for word in rust_words(text)})
    known = data.draw(st.lists(st.sampled_from(every_word), unique=True)) if every_word else []
    tokenizer = WordTokenizer.from_words(known)
    rust = Tokenizer.from_str(tokenizer.to_json())
    expected = [encoding.ids for encoding in rust.encode_batch(texts, add_special_tokens=False)]
    tokens = tokenizer.encode(texts)
    assert [tokens.ids[s:e].tolist() for s, e in zip(tokens.starts, tokens.ends, strict=True)] == expected


def test_a_copied_tokenizer_encodes_the_same():
    tokenizer = WordTokenizer.from_words(["dog"])
    tokenizer.encode(["dog"])
    for other in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer)):
        assert other.encode(["a dog"]).ids.tolist() == [UNKNOWN_ID, 2]
        assert other == tokenizer


def test_json_round_trip():
    tokenizer, _ = build_vocabulary(["The café 我爱 [x] 'quoted\" \\"], 10, 1)
    again = WordTokenizer.from_json(tokenizer.to_json())
    assert again.words == tokenizer.words
    text = "CAFÉ 我 unknown Ｑuoted"
    ids, offsets = again.encode_with_offsets(text)
    assert (ids.tolist(), offsets) == (
        tokenizer.encode_with_offsets(text)[0].tolist(),
        tokenizer.encode_with_offsets(text)[1],
    )
    assert UNKNOWN_ID in ids
    assert again.to_json() == tokenizer.to_json()


def tokenizer_json(**changes: object) -> str:
    return json.dumps(json.loads(WordTokenizer.from_words(["dog"]).to_json()) | changes)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1, 2]",
        "not json",
        "[" * 100_000,
        tokenizer_json(normalizer=None),
        tokenizer_json(pre_tokenizer={"type": "Whitespace"}),
        tokenizer_json(model={"type": "WordLevel"}),
        tokenizer_json(model={"vocab": {"[PAD]": 0, "[UNK]": 1, "dog": 3}}),
        tokenizer_json(model={"vocab": {"[PAD]": 0, "[UNK]": 1, "dog": "2"}}),
        tokenizer_json(model={"vocab": {"[UNK]": 0, "[PAD]": 1, "dog": 2}}),
        tokenizer_json(model={"vocab": {"[PAD]": 0, "[UNK]": 1, "\ud800": 2}}),
    ],
    ids=range(12),
)
def test_damaged_json_is_one_line(text):
    with pytest.raises(ModelError, match=r"^tokenizer\.json: not a tokenizer of this library \([^\n]*\)\.$"):
        WordTokenizer.from_json(text)


def test_a_text_of_ten_megabytes():
    tokenizer = WordTokenizer.from_words(["lorem", "ipsum"])
    text = "Lorem ipsum, " * 800_000
    assert len(text) > 10_000_000
    ids = tokenizer.encode([text]).ids
    assert len(ids) == 1_600_000
    assert (ids[::2] == 2).all()
    assert (ids[1::2] == 3).all()
