"""`WordTokenizer`: text to word ids, quickly, or with character offsets by the Rust `tokenizers` library.

The Rust tokenizer defines what a word is; `words.py` splits texts in the same way, without the GIL.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from haxmlnet.data.cores import count_cores
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.errors import ModelError
from haxmlnet.text.blocks import iterate_blocks, map_ahead
from haxmlnet.text.word_table import WordTable
from haxmlnet.text.words import Words, split_texts

# In scripts written without spaces each character is a word; elsewhere every run of letters and digits is.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}"
WORD_PATTERN = rf"[{_UNSPACED}]|[[\p{{L}}\p{{M}}\p{{N}}]&&[^{_UNSPACED}]]+"
SPECIAL_WORDS = ["[PAD]", "[UNK]"]


def rust_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    """Make the Rust tokenizer of a vocabulary: NFKC, lower case, words, ids."""
    rust = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=SPECIAL_WORDS[1]))
    rust.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    rust.pre_tokenizer = pre_tokenizers.Split(Regex(WORD_PATTERN), behavior="removed", invert=True)
    return rust


@dataclass(frozen=True)
class WordTokenizer:
    """Lower-cased words of a text as ids; unknown words are id 1, and id 0 is padding."""

    words: list[str]
    """All words in the order of their ids, the two special ones first."""

    @classmethod
    def from_words(cls, words: Sequence[str]) -> WordTokenizer:
        """Make a tokenizer whose words, all different, have the ids 2, 3, ... in the order given."""
        return cls([*SPECIAL_WORDS, *words])

    @classmethod
    def from_json(cls, text: str) -> WordTokenizer:
        """Read what `to_json` wrote."""
        try:
            return cls(_parse_words(text))
        except (ValueError, RecursionError) as error:
            raise ModelError(f"tokenizer.json: not a tokenizer of this library ({error}).") from None

    def to_json(self) -> str:
        """Return the tokenizer in the Hugging Face `tokenizer.json` format."""
        return str(self._rust.to_str())

    @property
    def n_words(self) -> int:
        """Number of word ids, including the two special ones."""
        return len(self.words)

    def encode(self, texts: Sequence[str], advance: Callable[[int], None] = lambda n: None) -> TokenArray:
        """Turn texts into word ids, calling `advance` with the number of texts done now and then."""

        def encode_block(block: list[str]) -> TokenArray:
            words, lengths = split_texts(block)
            return TokenArray.from_lengths(self._table.find(words, UNKNOWN_ID), lengths)

        blocks = list(iterate_blocks(texts))
        encoded: list[TokenArray] = []
        for tokens in map_ahead(encode_block, blocks, max(min(len(blocks), count_cores()), 1)):
            encoded.append(tokens)
            advance(len(tokens))
        if len(encoded) == 1:
            return encoded[0]
        ids = [tokens.ids for tokens in encoded] or [np.zeros(0, np.int32)]
        lengths = [tokens.lengths for tokens in encoded] or [np.zeros(0, np.int64)]
        return TokenArray.from_lengths(np.concatenate(ids), np.concatenate(lengths))

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int32], list[tuple[int, int]]]:
        """Turn one text into word ids and the (start, end) of each word in the original text."""
        encoding = self._rust.encode(text, add_special_tokens=False)
        starts = [start for start, _ in encoding.offsets]
        offsets = []
        for (start, end), limit in zip(encoding.offsets, [*starts[1:], len(text)], strict=False):
            # Where an "e" and an accent became one letter, the library's offsets stop after the "e".
            while end < limit and unicodedata.category(text[end])[0] in "LMN":
                end += 1
            offsets.append((start, end))
        return np.array(encoding.ids, np.int32), offsets

    @cached_property
    def _table(self) -> WordTable:
        table = WordTable(Words.from_list(self.words))
        assert table.n_words == self.n_words, "a word is there twice"
        return table

    @cached_property
    def _rust(self) -> Tokenizer:
        return rust_tokenizer({word: i for i, word in enumerate(self.words)})


def _parse_words(text: str) -> list[str]:
    """Check that a tokenizer.json is one of ours, and return its words in the order of their ids."""
    parsed = json.loads(text)
    if not isinstance(parsed, dict) or not isinstance(parsed.get("model"), dict):
        raise ValueError("it has no model")
    ours = json.loads(rust_tokenizer({}).to_str())
    for part in ("normalizer", "pre_tokenizer", "added_tokens"):
        if parsed.get(part) != ours[part]:
            raise ValueError(f"its {part} differs")
    ids = parsed["model"].get("vocab")
    if not isinstance(ids, dict) or set(map(type, ids.values())) - {int}:
        raise ValueError("its model has no vocabulary")
    words = sorted(ids, key=ids.__getitem__)
    if list(map(ids.__getitem__, words)) != list(range(len(words))) or words[: len(SPECIAL_WORDS)] != SPECIAL_WORDS:
        raise ValueError("its words do not have the ids 0, 1, ..., the special words first")
    "".join(words).encode()  # raises ValueError for halves of surrogate pairs
    return words
