"""`WordTokenizer`: text to word ids, quickly, or with character offsets by the Rust `tokenizers` library."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from haxmlnet.data.cores import usable_cores
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.errors import ModelError
from haxmlnet.text.blocks import iterate_blocks, map_ahead
from haxmlnet.text.rust import SPECIAL_WORDS, rust_tokenizer
from haxmlnet.text.words import Words, WordTable, split_texts

__all__ = ["SPECIAL_WORDS", "WordTokenizer"]


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
            return cls(_words_of(json.loads(text)))
        except (ValueError, RecursionError) as error:
            raise ModelError(f"tokenizer.json: not a tokenizer of this library ({error}).") from None

    def to_json(self) -> str:
        """Give the tokenizer in the Hugging Face `tokenizer.json` format."""
        return str(self._rust.to_str())

    @property
    def n_words(self) -> int:
        """Number of word ids, the two special ones included."""
        return len(self.words)

    def encode(self, texts: Sequence[str], advance: Callable[[int], None] = lambda n: None) -> TokenArray:
        """Turn texts into word ids, calling `advance` with the number of texts done now and then."""
        blocks = list(iterate_blocks(texts))
        encoded: list[TokenArray] = []
        for tokens in map_ahead(self._encode_block, blocks, max(min(len(blocks), usable_cores()), 1)):
            encoded.append(tokens)
            advance(len(tokens))
        return encoded[0] if len(encoded) == 1 else concatenated(encoded)

    def encode_with_offsets(self, text: str) -> tuple[NDArray[np.int32], list[tuple[int, int]]]:
        """Turn one text into word ids and the (start, end) of each word in the text as it came."""
        encoding = self._rust.encode(text, add_special_tokens=False)
        return np.array(encoding.ids, np.int32), _with_combined_characters(text, encoding.offsets)

    def _encode_block(self, texts: list[str]) -> TokenArray:
        words, lengths = split_texts(texts)
        return TokenArray.from_lengths(self._table.find(words, UNKNOWN_ID), lengths)

    @cached_property
    def _table(self) -> WordTable:
        table = WordTable(Words.from_list(self.words))
        assert table.n_words == self.n_words, "a word is there twice"
        return table

    @cached_property
    def _rust(self) -> Tokenizer:
        return rust_tokenizer({word: i for i, word in enumerate(self.words)})


def _words_of(parsed: object) -> list[str]:
    """Check what tokenizer.json holds, and give its words in the order of their ids."""
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


def concatenated(parts: Sequence[TokenArray]) -> TokenArray:
    """Put the documents of several arrays that lie one after the other into one."""
    if not parts:
        return TokenArray.from_lists([])
    ids = np.concatenate([part.ids for part in parts])
    return TokenArray.from_lengths(ids, np.concatenate([part.lengths for part in parts]))


def _with_combined_characters(text: str, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    # Where an "e" and an accent became one letter, the library's offsets stop after the "e".
    limits = [*(start for start, _ in offsets[1:]), len(text)]
    extended = []
    for (start, end), limit in zip(offsets, limits, strict=False):
        while end < limit and unicodedata.category(text[end])[0] in "LMN":
            end += 1
        extended.append((start, end))
    return extended
