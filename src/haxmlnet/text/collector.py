"""`WordCollector`: texts to word ids, block by block, while the vocabulary grows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from haxmlnet.data.cores import count_cores
from haxmlnet.data.tokens import TokenArray
from haxmlnet.text.blocks import map_ahead
from haxmlnet.text.word_table import WordTable
from haxmlnet.text.words import Words, split_texts


class WordCollector:
    """Texts to word ids, block by block, collecting every word met.

    Words get the ids 0, 1, ... in the order of their first occurrence, whatever the number of threads.
    """

    def __init__(self) -> None:
        self._table = WordTable()
        self._frequencies = np.zeros(0, np.int64)

    def encode_blocks(self, blocks: Iterable[list[str]], n_threads: int | None = None) -> Iterator[TokenArray]:
        """Yield the ids of each block of texts, in order; threads split a few blocks ahead."""
        for block in map_ahead(_split_block, blocks, n_threads or count_cores()):
            ids = self._table.add(block.words)
            if self.n_words > len(self._frequencies):
                longer = np.zeros(max(self.n_words, 2 * len(self._frequencies)), np.int64)
                longer[: len(self._frequencies)] = self._frequencies
                self._frequencies = longer
            self._frequencies[ids] += block.frequencies
            yield TokenArray.from_lengths(ids[block.ids], block.lengths)

    @property
    def n_words(self) -> int:
        """Number of distinct words met."""
        return self._table.n_words

    @property
    def words(self) -> list[str]:
        """The words in the order of their ids."""
        return self.spell(np.arange(self.n_words))

    @property
    def document_frequencies(self) -> NDArray[np.int64]:
        """The number of documents each word is in, by id."""
        return self._frequencies[: self.n_words].copy()

    def spell(self, ids: NDArray[np.int64]) -> list[str]:
        """Return words by their ids."""
        return self._table.spell(ids)

    def most_frequent(self, size: int, min_document_frequency: int) -> NDArray[np.int64]:
        """Choose the ids of the words that most documents have, most frequent first, ties in alphabetical order."""
        frequencies = self._frequencies[: self.n_words]
        candidates = np.flatnonzero(frequencies >= min_document_frequency)
        if len(candidates) > size:
            least = -np.partition(-frequencies[candidates], size - 1)[size - 1]
            candidates = candidates[frequencies[candidates] >= least]
        words = self.spell(candidates)
        by_word = candidates[sorted(range(len(words)), key=words.__getitem__)]
        order = np.argsort(-frequencies[by_word], kind="stable")
        return by_word[order][:size]


class _Block(NamedTuple):
    words: Words  # distinct, in the order of their first occurrence
    ids: NDArray[np.int32]  # positions in `words`
    lengths: NDArray[np.int64]
    frequencies: NDArray[np.int64]


def _split_block(texts: list[str]) -> _Block:
    words, lengths = split_texts(texts)
    table = WordTable()
    ids = table.add(words)
    frequencies = document_frequencies(TokenArray.from_lengths(ids, lengths), table.n_words)
    return _Block(table.words, ids, lengths, frequencies)


def document_frequencies(tokens: TokenArray, n_words: int) -> NDArray[np.int64]:
    """Count in how many documents each word occurs."""
    counts = np.zeros(n_words, np.int64)
    last_document = np.full(n_words, -1, np.int64)
    _count_documents(np.asarray(tokens.ids), tokens.starts, tokens.ends, last_document, counts)
    return counts


@njit(cache=True, nogil=True)
def _count_documents(ids: Any, starts: Any, ends: Any, last_document: Any, counts: Any) -> None:
    """Count the documents of each word; `last_document` starts as -1, and ids beyond the counts are left out."""
    for document in range(len(starts)):
        for position in range(starts[document], ends[document]):
            word = ids[position]
            if word < len(counts) and last_document[word] != document:
                last_document[word] = document
                counts[word] += 1
