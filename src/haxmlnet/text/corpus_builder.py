"""From texts and labels to a `PreparedCorpus`: read in blocks, tokenised side by side, numbered anew at the end."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data import Document, SkipReport
from haxmlnet.data.arrays import GrowingArray, csr_view
from haxmlnet.data.labels import LabelIndex
from haxmlnet.data.prepared import FIRST_WORD_ID, PreparedCorpus, write_prepared
from haxmlnet.data.tokens import TokenArray
from haxmlnet.errors import DataError
from haxmlnet.progress import Progress
from haxmlnet.text.collector import WordCollector, blocks_of

_BLOCK_IDS = 4_000_000
_SOME_DOCUMENTS = 256
Advance = Callable[[int], None]


def prepare_documents(
    documents: Iterable[Document],
    directory: Path | None,
    source: str,
    report: SkipReport,
    advance: Advance = lambda n: None,
) -> PreparedCorpus:
    """Prepare documents one after the other, in a new directory or in memory; none of them stays alive.

    At the end, the directory holds the corpus; its ids are memory-mapped from there.
    """
    labels = _LabelCollector()
    words = _collect_words(blocks_of(labels.take_from(documents)), directory, advance)
    if not labels.ids:
        raise DataError(
            f"{source}: none of {len(words.tokens)} documents has a label. "
            "Use --label-field to name the field with the labels."
        )
    names, targets = labels.matrix()
    corpus = _joined(words, names, targets, source, report)
    if directory is not None:
        write_prepared(corpus, directory)
    return corpus


def prepare_texts(
    texts: Sequence[str], label_index: LabelIndex, targets: sp.csr_array, progress: Progress | None = None
) -> PreparedCorpus:
    """Prepare texts with their 0/1 matrix of labels, in memory."""
    with (progress or Progress()).stage("words", len(texts), "documents") as advance:
        words = _collect_words(blocks_of(texts), None, advance)
    return _joined(words, label_index.names.tolist(), targets, "", SkipReport())


@dataclass(frozen=True)
class _Words:
    """Tokens numbered by frequency, the words in the order of their ids, and the documents of each."""

    tokens: TokenArray
    words: list[str]
    frequencies: NDArray[np.int64]


class _Numbers(dict[str, int]):
    """Numbers names as they are asked for."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


@dataclass
class _LabelCollector:
    """Labels numbered as they come; labels are few compared with documents, and stay in memory."""

    ids: _Numbers = field(default_factory=_Numbers)
    flat: array[int] = field(default_factory=lambda: array("i"))
    lengths: array[int] = field(default_factory=lambda: array("i"))

    def take_from(self, documents: Iterable[Document]) -> Iterator[str]:
        """Keep the labels of the documents, and pass their texts on."""
        stream = iter(documents)
        # Some documents at a time, in calls that loop in C: there are millions of labels.
        while some := list(islice(stream, _SOME_DOCUMENTS)):
            _, texts, labels = zip(*some, strict=True)
            self.flat.extend(map(self.ids.__getitem__, chain.from_iterable(labels)))
            self.lengths.extend(map(len, labels))
            yield from texts

    def matrix(self) -> tuple[list[str], sp.csr_array]:
        """Give the names of the labels in alphabetical order, and the matrix (documents x labels) in that order."""
        names = sorted(self.ids)
        rank = np.empty(len(names), np.int32)
        rank[[self.ids[name] for name in names]] = np.arange(len(names), dtype=np.int32)
        label_ids = rank[np.frombuffer(self.flat, np.int32)] if self.flat else np.zeros(0, np.int32)
        bounds = np.zeros(len(self.lengths) + 1, np.int64)
        np.cumsum(np.frombuffer(self.lengths, np.int32) if self.lengths else [], out=bounds[1:])
        ones = np.ones(len(label_ids), np.float32)
        matrix = csr_view(ones, label_ids, bounds, len(names))
        matrix.sum_duplicates()
        matrix.data[:] = 1
        return names, matrix


def _collect_words(blocks: Iterable[list[str]], directory: Path | None, advance: Advance) -> _Words:
    collector = WordCollector()
    file = None if directory is None else directory / "first_ids.npy"
    growing = GrowingArray(np.int32, file)
    lengths = [np.zeros(0, np.int64)]
    for tokens in collector.encode_blocks(blocks):
        growing.append(tokens.packed().ids)
        lengths.append(tokens.lengths)
        advance(len(tokens))
    order = collector.most_frequent(collector.n_words, 1)
    ids = _renumbered(growing.close(), order, None if directory is None else directory / "ids.npy")
    if file is not None:
        file.unlink()
    tokens = TokenArray.from_lengths(ids, np.concatenate(lengths))
    return _Words(tokens, collector.spell(order), collector.document_frequencies[order])


def _renumbered(first_ids: NDArray[np.int32], order: NDArray[np.int64], file: Path | None) -> NDArray[np.int32]:
    new_ids = np.empty(len(order), np.int32)
    new_ids[order] = np.arange(FIRST_WORD_ID, FIRST_WORD_ID + len(order), dtype=np.int32)
    growing = GrowingArray(np.int32, file)
    for start in range(0, len(first_ids), _BLOCK_IDS):
        growing.append(new_ids[first_ids[start : start + _BLOCK_IDS]])
    return growing.close()


def _joined(
    words: _Words, label_names: list[str], targets: sp.csr_array, source: str, report: SkipReport
) -> PreparedCorpus:
    lines = "".join([f"{word}\n" for word in words.words]).encode()
    names = json.dumps(label_names, ensure_ascii=False).encode()
    return PreparedCorpus(
        words.tokens,
        np.concatenate([np.zeros(FIRST_WORD_ID, np.int64), words.frequencies]),
        targets.indices.astype(np.int32, copy=False),
        targets.indptr.astype(np.int64),
        np.frombuffer(lines, np.uint8),
        np.frombuffer(names, np.uint8),
        len(label_names),
        source,
        report,
    )
