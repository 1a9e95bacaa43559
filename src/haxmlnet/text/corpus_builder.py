"""From texts and labels to a `PreparedCorpus`: texts are tokenised in blocks, then words are numbered by frequency."""

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
from haxmlnet.text.blocks import iterate_blocks
from haxmlnet.text.collector import WordCollector

_BLOCK_IDS = 4_000_000
_DOCUMENTS_AT_ONCE = 256
Advance = Callable[[int], None]


def prepare_documents(
    documents: Iterable[Document],
    directory: Path | None,
    source: str,
    report: SkipReport,
    advance: Advance = lambda n: None,
) -> PreparedCorpus:
    """Prepare a stream of documents, in a new directory or in memory; none of them stays alive.

    At the end, the directory holds the corpus; its ids are memory-mapped from there.
    """
    labels = _LabelCollector()
    words = _number_words(iterate_blocks(labels.take_from(documents)), directory, advance)
    if not labels.ids:
        raise DataError(
            f"{source}: none of {len(words.tokens)} documents has a label. "
            "Use --label-field to name the field with the labels."
        )
    names, targets = labels.to_matrix()
    corpus = _assemble(words, names, targets, source, report)
    if directory is not None:
        write_prepared(corpus, directory)
    return corpus


def prepare_texts(
    texts: Sequence[str], label_index: LabelIndex, targets: sp.csr_array, progress: Progress | None = None
) -> PreparedCorpus:
    """Prepare texts with their 0/1 matrix of labels, in memory."""
    with (progress or Progress()).stage("words", len(texts), "documents") as advance:
        words = _number_words(iterate_blocks(texts), None, advance)
    return _assemble(words, label_index.names.tolist(), targets, "", SkipReport())


@dataclass(frozen=True)
class _Words:
    """Tokens numbered by frequency, the words in the order of their ids, and the document frequency of each."""

    tokens: TokenArray
    words: list[str]
    frequencies: NDArray[np.int64]


def _number_words(blocks: Iterable[list[str]], directory: Path | None, advance: Advance) -> _Words:
    """Tokenise the texts, and number the words by document frequency, the most frequent first."""

    def grow_array(name: str) -> GrowingArray:
        return GrowingArray(np.int32, None if directory is None else directory / name)

    # Ids in the order in which words occur first
    collector = WordCollector()
    first_ids = grow_array("first_ids.npy")
    lengths = [np.zeros(0, np.int64)]
    for tokens in collector.encode_blocks(blocks):
        first_ids.append(tokens.pack().ids)
        lengths.append(tokens.lengths)
        advance(len(tokens))
    mapped = first_ids.close()

    # Ids by frequency
    order = collector.most_frequent(collector.n_words, 1)
    new_ids = np.empty(len(order), np.int32)
    new_ids[order] = np.arange(FIRST_WORD_ID, FIRST_WORD_ID + len(order), dtype=np.int32)
    ids = grow_array("ids.npy")
    for start in range(0, len(mapped), _BLOCK_IDS):
        ids.append(new_ids[mapped[start : start + _BLOCK_IDS]])
    del mapped  # Windows removes no file that is mapped
    if first_ids.file is not None:
        first_ids.file.unlink()

    tokens = TokenArray.from_lengths(ids.close(), np.concatenate(lengths))
    return _Words(tokens, collector.spell(order), collector.document_frequencies[order])


def _assemble(
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


class _Numbers(dict[str, int]):
    """Numbers names in the order in which they are first asked for."""

    def __missing__(self, name: str) -> int:
        number = self[name] = len(self)
        return number


@dataclass
class _LabelCollector:
    """Labels numbered as they come; compared with documents they are few, and stay in memory."""

    ids: _Numbers = field(default_factory=_Numbers)
    flat: array[int] = field(default_factory=lambda: array("i"))
    lengths: array[int] = field(default_factory=lambda: array("i"))

    def take_from(self, documents: Iterable[Document]) -> Iterator[str]:
        """Collect the labels of the documents, and pass on the texts."""
        stream = iter(documents)
        # Many documents at a time, in calls that loop in C: there are millions of labels.
        while some := list(islice(stream, _DOCUMENTS_AT_ONCE)):
            _, texts, labels = zip(*some, strict=True)
            self.flat.extend(map(self.ids.__getitem__, chain.from_iterable(labels)))
            self.lengths.extend(map(len, labels))
            yield from texts

    def to_matrix(self) -> tuple[list[str], sp.csr_array]:
        """Return the label names in alphabetical order, and the 0/1 matrix (documents x labels) in that order."""
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
