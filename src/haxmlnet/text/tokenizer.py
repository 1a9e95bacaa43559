"""`WordTokenizer`: text to word ids with character offsets, by the Rust `tokenizers` library."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from haxmlnet.data.tokens import PAD_ID, UNKNOWN_ID, TokenArray
from haxmlnet.errors import DataError, ModelError

# Scripts written without spaces give one word a character; every other run of letters and digits is a word.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}"
WORD_PATTERN = rf"[{_UNSPACED}]|[[\p{{L}}\p{{M}}\p{{N}}]&&[^{_UNSPACED}]]+"
SPECIAL_WORDS = ["[PAD]", "[UNK]"]
CHUNK = 2_000


@dataclass(frozen=True)
class WordTokenizer:
    """Lower-cased words of a text as ids; unknown words are id 1, and id 0 is padding."""

    rust: Tokenizer

    @classmethod
    def from_words(cls, words: Sequence[str]) -> WordTokenizer:
        """Make a tokenizer whose words have the ids 2, 3, ... in the order given."""
        vocabulary = {word: i for i, word in enumerate([*SPECIAL_WORDS, *words])}
        return cls(_rust_tokenizer(vocabulary))

    @classmethod
    def from_json(cls, text: str) -> WordTokenizer:
        """Read what `to_json` wrote."""
        try:
            rust = Tokenizer.from_str(text)
        except Exception as error:  # the Rust library raises bare Exception
            raise ModelError(f"tokenizer.json: not a tokenizer of this library ({error}).") from None
        return cls(rust)

    def to_json(self) -> str:
        """Give the tokenizer in the Hugging Face `tokenizer.json` format."""
        return str(self.rust.to_str())

    @property
    def words(self) -> list[str]:
        """All words in the order of their ids, the two special ones first."""
        vocabulary = self.rust.get_vocab()
        return sorted(vocabulary, key=vocabulary.__getitem__)

    @property
    def n_words(self) -> int:
        """Number of word ids, the two special ones included."""
        return int(self.rust.get_vocab_size())

    def encode(self, texts: Sequence[str], advance: Callable[[int], None] = lambda n: None) -> TokenArray:
        """Turn texts into word ids, calling `advance` with the number of texts done now and then."""
        documents: list[NDArray[np.int32]] = []
        for start in range(0, len(texts), CHUNK):
            chunk = list(texts[start : start + CHUNK])
            encodings = self.rust.encode_batch_fast(chunk, add_special_tokens=False)
            documents += [np.array(encoding.ids, np.int32) for encoding in encodings]
            advance(len(chunk))
        return TokenArray.from_lists(documents)

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int32], list[tuple[int, int]]]:
        """Turn one text into word ids and the (start, end) of each word in the text as it came."""
        encoding = self.rust.encode(text, add_special_tokens=False)
        return np.array(encoding.ids, np.int32), _with_combined_characters(text, encoding.offsets)


def _with_combined_characters(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    # Where an "e" and an accent became one letter, the library's offsets stop after the "e".
    limits = [*(start for start, _ in offsets[1:]), len(text)]
    extended = []
    for (start, end), limit in zip(offsets, limits, strict=False):
        while end < limit and unicodedata.category(text[end])[0] in "LMN":
            end += 1
        extended.append((start, end))
    return extended


def build_vocabulary(
    texts: Sequence[str],
    size: int,
    min_document_frequency: int,
    advance: Callable[[int], None] = lambda n: None,
) -> tuple[WordTokenizer, TokenArray]:
    """Choose the words by the number of documents they are in, and encode the texts with them."""
    every_word = Tokenizer(models.WordLevel(unk_token=SPECIAL_WORDS[UNKNOWN_ID]))
    every_word.normalizer, every_word.pre_tokenizer = _normalizer(), _word_splitter()
    trainer = trainers.WordLevelTrainer(vocab_size=2**31, min_frequency=0, special_tokens=[], show_progress=False)
    every_word.train_from_iterator(texts, trainer, length=len(texts))
    # A trainer that knew the special words would find them in the texts, where "[PAD]" is the word "pad".
    all_words = WordTokenizer.from_words(list(every_word.get_vocab()))
    tokens = all_words.encode(texts, advance)
    words = np.array(all_words.words, dtype=object)
    frequencies = document_frequencies(tokens, len(words))
    kept = _most_frequent(words, frequencies, size, min_document_frequency)
    if len(kept) == 0:
        raise DataError(
            f"no word occurs in {min_document_frequency} or more of the {len(texts)} training documents. "
            "Give texts with words, or lower min_document_frequency."
        )
    new_ids = np.full(len(words), UNKNOWN_ID, np.int32)
    new_ids[PAD_ID] = PAD_ID
    new_ids[kept] = np.arange(len(kept)) + len(SPECIAL_WORDS)
    return WordTokenizer.from_words(words[kept].tolist()), TokenArray(new_ids[tokens.ids], tokens.starts)


def document_frequencies(tokens: TokenArray, n_words: int) -> NDArray[np.int64]:
    """Count in how many documents each word occurs."""
    counts = np.zeros(n_words, np.int64)
    _count_documents(tokens.ids, tokens.starts, np.full(n_words, -1, np.int64), counts)
    return counts


def _most_frequent(
    words: NDArray[np.object_], frequencies: NDArray[np.int64], size: int, min_document_frequency: int
) -> NDArray[np.int64]:
    frequencies = frequencies.copy()
    frequencies[: len(SPECIAL_WORDS)] = 0
    candidates = np.flatnonzero(frequencies >= min_document_frequency)
    # Sorting by the word as well makes the vocabulary independent of the order in which Rust counted.
    by_word = candidates[np.argsort(words[candidates], kind="stable")]
    order = np.argsort(-frequencies[by_word], kind="stable")
    return by_word[order][:size]


def _rust_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    rust = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=SPECIAL_WORDS[UNKNOWN_ID]))
    rust.normalizer, rust.pre_tokenizer = _normalizer(), _word_splitter()
    return rust


def _normalizer() -> normalizers.Normalizer:
    return normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])


def _word_splitter() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(WORD_PATTERN), behavior="removed", invert=True)


@numba.njit(cache=True)
def _count_documents(ids, starts, last_document, counts):  # type: ignore[no-untyped-def]
    for document in range(len(starts) - 1):
        for position in range(starts[document], starts[document + 1]):
            word = ids[position]
            if last_document[word] != document:
                last_document[word] = document
                counts[word] += 1
