"""`PreparedCorpus`: labeled documents as arrays of word and label ids, in memory or memory-mapped from a directory."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view, map_array, map_bytes, read_seal, seal, write_array
from haxmlnet.data.documents import SkipReport
from haxmlnet.data.labels import LabelIndex
from haxmlnet.data.tokens import TokenArray
from haxmlnet.errors import DataError

KIND = "prepared corpus"
FIRST_WORD_ID = 2  # after padding and the unknown word
_BLOCK = 1 << 24


@dataclass(frozen=True)
class PreparedCorpus:
    """Documents as the ids of all their words and labels, ready for any method and any size of vocabulary.

    Words are numbered from 2 on by the number of documents they are in, the most frequent first, and labels
    alphabetically. Opened from a directory, the arrays are memory-mapped: memory grows with use only.
    """

    tokens: TokenArray
    frequencies: NDArray[np.int64]
    """Documents that hold the word, by word id; 0 for padding and the unknown word."""
    label_ids: NDArray[np.int32]
    """Labels of the documents, one document after the other, in ascending order within each."""
    label_bounds: NDArray[np.int64]  # (n + 1,)
    word_lines: NDArray[np.uint8]
    """The words from id 2 on, one a line, as UTF-8."""
    label_json: NDArray[np.uint8]
    """The names of the labels as a JSON list, as UTF-8."""
    n_labels: int
    source: str = ""
    skipped: SkipReport = field(default_factory=SkipReport)
    """Documents that could not be read."""
    directory: Path | None = None
    """Where it lies, and where what is computed of it may be cached; None: in memory."""

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def open(cls, directory: str | Path) -> PreparedCorpus:
        """Map a directory that `prepare` wrote into memory, after checking that it is whole."""
        path = Path(directory)
        if not path.is_dir():
            raise DataError(f"{path}: no such directory. Make a prepared corpus with haxmlnet.prepare.")
        facts = read_seal(path)
        if facts.get("kind") != KIND:
            raise DataError(f"{path}: holds no prepared corpus. Make one with haxmlnet.prepare.")
        bounds = map_array(path / "bounds.npy")
        corpus = cls(
            TokenArray(map_array(path / "ids.npy"), bounds[:-1], bounds[1:]),
            map_array(path / "frequencies.npy"),
            map_array(path / "label_ids.npy"),
            map_array(path / "label_bounds.npy"),
            map_bytes(path / "words.txt"),
            map_bytes(path / "labels.json"),
            int(facts.get("n_labels", 0)),
            str(facts.get("source", "")),
            SkipReport(int(facts.get("n_skipped", 0)), list(facts.get("skip_messages", []))),
            path,
        )
        if corpus._sizes() != facts.get("sizes"):
            raise DataError(f"{path}: damaged, its arrays do not fit together.")
        return corpus

    @cached_property
    def targets(self) -> sp.csr_array:
        """The true labels as a 0/1 matrix (documents x labels)."""
        ones = np.ones(len(self.label_ids), np.float32)
        return csr_view(ones, self.label_ids, self.label_bounds, self.n_labels)

    @cached_property
    def label_index(self) -> LabelIndex:
        """The names of the labels."""
        return LabelIndex(np.array(json.loads(self.label_json.tobytes()), dtype=object))

    @property
    def n_words(self) -> int:
        """Number of word ids, padding and the unknown word included."""
        return len(self.frequencies)

    def words(self, n_words: int | None = None) -> list[str]:
        """Return the words from id 2 on, for a vocabulary of `n_words` ids or of all."""
        n_listed = (self.n_words if n_words is None else n_words) - FIRST_WORD_ID
        return self.word_lines.tobytes().decode().split("\n", n_listed)[:n_listed]

    def vocabulary_limit(self, size: int, min_document_frequency: int) -> int:
        """Return the number of word ids of a vocabulary: at most `size` words, each in so many documents."""
        n_frequent = int(np.count_nonzero(self.frequencies[FIRST_WORD_ID:] >= min_document_frequency))
        if n_frequent == 0:
            raise DataError(
                f"no word occurs in {min_document_frequency} or more of the {len(self)} training documents. "
                "Give texts with words, or lower min_document_frequency."
            )
        return FIRST_WORD_ID + min(size, n_frequent)

    @cached_property
    def digest(self) -> str:
        """A checksum of the documents, the words and the labels."""
        checksum = hashlib.sha256()
        for array in (self.tokens.ids, self.tokens.lengths, self.label_ids, self.label_bounds, self.word_lines):
            for start in range(0, max(len(array), 1), _BLOCK):
                checksum.update(np.ascontiguousarray(array[start : start + _BLOCK]).data)
            checksum.update(str(len(array)).encode())
        return checksum.hexdigest()

    def _sizes(self) -> list[int]:
        """Return the lengths of the arrays, and what the bounds say of two of them: the description of a directory."""
        arrays = (self.tokens.starts, self.tokens.ids, self.frequencies, self.label_bounds, self.label_ids)
        last = [int(ends[-1]) if len(ends) else 0 for ends in (self.tokens.ends, self.label_bounds)]
        return [len(array) for array in arrays] + last


def write_prepared(corpus: PreparedCorpus, directory: Path) -> None:
    """Write a corpus whose ids are in the directory already, and seal it."""
    write_array(directory, "bounds", np.append(corpus.tokens.starts, len(corpus.tokens.ids)))
    write_array(directory, "frequencies", corpus.frequencies)
    write_array(directory, "label_ids", corpus.label_ids)
    write_array(directory, "label_bounds", corpus.label_bounds)
    (directory / "words.txt").write_bytes(corpus.word_lines.data)
    (directory / "labels.json").write_bytes(corpus.label_json.data)
    facts = {
        "kind": KIND, "source": corpus.source, "n_documents": len(corpus), "n_labels": corpus.n_labels,
        "n_skipped": corpus.skipped.n_skipped, "skip_messages": corpus.skipped.messages, "sizes": corpus._sizes(),
    }  # fmt: skip
    seal(directory, facts)
