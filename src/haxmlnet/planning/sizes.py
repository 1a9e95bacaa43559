"""`DataSizes`: the few counts of documents and labels that decide how much memory and time a training takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from haxmlnet.config import TextConfig
from haxmlnet.data.prepared import FIRST_WORD_ID, PreparedCorpus
from haxmlnet.errors import SettingError

# Assumed where nothing is given: most published collections are close to these.
WORDS_PER_DOCUMENT = 200.0
LABELS_PER_DOCUMENT = 5.0
# Distinct words of a document: factor * words ** power (Heaps' law). Distinct words of a label grow with its documents.
# Both as measured on EURLEX57K and on vulnerability reports.
HEAPS_FACTOR, HEAPS_POWER = 2.5, 0.69
GROWTH_BY_DOCUMENT = 0.65


@dataclass(frozen=True)
class DataSizes:
    """Counts, and the distributions of what varies: these stay the same when the counts are changed."""

    n_documents: int
    n_labels: int
    labels_per_document: float
    n_words: int
    """Word ids before the settings limit them, padding and the unknown word included."""
    lengths: NDArray[np.int64]
    """Words of each document, or one number that stands for all."""
    label_shares: NDArray[np.float64]
    """Documents of each label over their mean, or 1 for all."""
    most_labels: int
    """Labels of the document that has the most."""
    word_shares: NDArray[np.float64] | None = None
    """Fraction of the documents that hold each word; None: not known."""
    in_memory: bool = False
    """Whether the documents are in memory instead of mapped from files."""

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
        vocabulary = round(50 * float(max(n_documents, 1) * WORDS_PER_DOCUMENT) ** 0.45)  # Heaps' law, for all of them
        return one.replace(
            n_documents, n_labels, WORDS_PER_DOCUMENT, min(LABELS_PER_DOCUMENT, max(n_labels, 1)), vocabulary
        )

    def replace(
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
                f"labels per document must be more than 0 and at most the number of labels, got {labels_per_document}."
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

    def vocabulary(self, config: TextConfig) -> int:
        """Count the word ids that the settings let in."""
        n_words = self.n_words
        if self.word_shares is not None:
            least = (config.min_document_frequency - 0.5) / self.n_documents
            n_words = FIRST_WORD_ID + int(np.count_nonzero(self.word_shares[FIRST_WORD_ID:] > least))
        return min(n_words, config.vocabulary_size + FIRST_WORD_ID)

    def mean_length(self, max_length: int) -> float:
        """Return the mean length of a document in words, truncated to `max_length`."""
        return float(np.minimum(self.lengths, max_length).mean())

    def longest(self, max_length: int) -> int:
        """Return the length of the longest document in words, truncated to `max_length`."""
        return int(min(self.lengths.max(initial=1), max_length))

    def distinct_words(self, vocabulary: int) -> float:
        """Return the mean number of distinct words of a document: entries in its row of TF-IDF."""
        if self.word_shares is not None:
            return float(self.word_shares[:vocabulary].sum())
        mean = float(self.lengths.mean())
        return min(HEAPS_FACTOR * mean**HEAPS_POWER, mean, vocabulary)

    def words_per_label(self, vocabulary: int, most: int) -> float:
        """Estimate the mean number of features of a label, each of which keeps its `most` strongest."""
        documents = self.label_shares * (self.n_pairs / self.n_labels)
        words = self.distinct_words(vocabulary) * documents**GROWTH_BY_DOCUMENT
        return float(np.minimum(words, min(most, vocabulary)).mean())
