"""`DataSizes`: the few numbers about documents and labels that decide how much there is to hold and to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from haxmlnet.data.prepared import FIRST_WORD_ID, PreparedCorpus
from haxmlnet.errors import SettingError
from haxmlnet.models.corpus_features import FEATURES_PER_LABEL

# What is assumed where nothing is said: the statistics of most published collections are near these.
WORDS_PER_DOCUMENT = 200.0
LABELS_PER_DOCUMENT = 5.0
# Different words grow with the words of a document (Heaps' law), and with the documents of a label; both as measured
# on EURLEX57K and on vulnerability reports.
DIFFERENT_WORDS = (2.5, 0.69)
GROWTH_BY_DOCUMENT = 0.65


@dataclass(frozen=True)
class DataSizes:
    """Counts, and the shapes of what varies from document to document; shapes hold for any number of documents."""

    n_documents: int
    n_labels: int
    labels_per_document: float
    n_words: int
    """Word ids that there are before the settings limit them, padding and the unknown word included."""
    lengths: NDArray[np.int64]
    """Words of documents: of all, or one number that stands for all."""
    label_shares: NDArray[np.float64]
    """Documents of labels as multiples of the mean: of all labels, or 1 for all."""
    most_labels: int
    """Labels of the document that has the most."""
    word_shares: NDArray[np.float64] | None = None
    """The part of the documents that each word id is in; None: not known."""
    in_memory: bool = False
    """Whether the documents are in memory, instead of mapped from files."""

    @classmethod
    def of_corpus(cls, corpus: PreparedCorpus) -> DataSizes:
        """Count what is in a corpus."""
        counts = np.bincount(corpus.label_ids, minlength=corpus.n_labels)
        return cls(
            len(corpus),
            corpus.n_labels,
            len(corpus.label_ids) / len(corpus),
            corpus.n_words,
            corpus.tokens.lengths,
            counts / max(counts.mean(), 1e-9),
            int(np.diff(corpus.label_bounds).max(initial=0)),
            corpus.frequencies / len(corpus),
            corpus.directory is None,
        )

    @classmethod
    def of_numbers(cls, n_documents: int, n_labels: int) -> DataSizes:
        """Assume the rest."""
        one = cls(1, 1, 1, FIRST_WORD_ID, np.ones(1, np.int64), np.ones(1), 1)
        sizes = one.changed(documents=n_documents, labels=n_labels, words=WORDS_PER_DOCUMENT)
        sizes = sizes.changed(labels_per_document=min(LABELS_PER_DOCUMENT, n_labels))
        # Heaps' law again, for all documents.
        return sizes.changed(vocabulary=round(50 * float(n_documents * WORDS_PER_DOCUMENT) ** 0.45))

    def changed(
        self,
        documents: int | None = None,
        labels: int | None = None,
        words: float | None = None,
        labels_per_document: float | None = None,
        vocabulary: int | None = None,
    ) -> DataSizes:
        """Take the numbers that are given, and leave the others as they are."""
        for name, value in (("documents", documents), ("labels", labels), ("words", words), ("vocabulary", vocabulary)):
            if value is not None and value < 1:
                raise SettingError(f"{name} must be at least 1, got {value}.")
        if labels_per_document is not None and not 0 < labels_per_document <= (labels or self.n_labels):
            raise SettingError(
                f"labels per document must be more than 0 and no more than all, got {labels_per_document}."
            )
        sizes = replace(self, n_documents=documents or self.n_documents, n_labels=labels or self.n_labels)
        if words is not None:
            sizes = replace(sizes, lengths=np.array([max(round(words), 1)]), word_shares=None)
        if labels_per_document is not None:
            most = min(round(3 * labels_per_document) + 1, sizes.n_labels)
            sizes = replace(sizes, labels_per_document=labels_per_document, most_labels=most)
        if vocabulary is not None:
            sizes = replace(sizes, n_words=vocabulary + FIRST_WORD_ID, word_shares=None)
        return sizes

    @property
    def n_tokens(self) -> int:
        """Words of all documents together."""
        return round(self.n_documents * float(self.lengths.mean()))

    @property
    def n_pairs(self) -> int:
        """Pairs of a document and one of its labels."""
        return round(self.n_documents * self.labels_per_document)

    def vocabulary(self, settings: Mapping[str, Any]) -> int:
        """Count the word ids that the settings let in."""
        n_words = self.n_words
        if self.word_shares is not None:
            least = (settings["min_document_frequency"] - 0.5) / self.n_documents
            n_words = FIRST_WORD_ID + int(np.count_nonzero(self.word_shares[FIRST_WORD_ID:] > least))
        return min(n_words, settings["vocabulary_size"] + FIRST_WORD_ID)

    def read_words(self, max_length: int) -> float:
        """Give the mean number of words that the network reads of a document."""
        return float(np.minimum(self.lengths, max_length).mean())

    def longest(self, max_length: int) -> int:
        """Give the most words that the network reads of a document."""
        return int(min(self.lengths.max(initial=1), max_length))

    def different_words(self, vocabulary: int) -> float:
        """Give the mean number of different words of a document: of entries in its row of TF-IDF."""
        if self.word_shares is not None:
            return float(self.word_shares[:vocabulary].sum())
        factor, power = DIFFERENT_WORDS
        mean = float(self.lengths.mean())
        return min(factor * mean**power, mean, vocabulary)

    def words_per_label(self, vocabulary: int) -> float:
        """Estimate the mean number of features of a label."""
        documents = self.label_shares * (self.n_pairs / self.n_labels)
        words = self.different_words(vocabulary) * documents**GROWTH_BY_DOCUMENT
        return float(np.minimum(words, min(FEATURES_PER_LABEL, vocabulary)).mean())
