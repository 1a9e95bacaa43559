"""What documents are like before anything is trained on them: counts, and what deserves a look."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from statistics import median
from typing import Any

from haxmlnet.data.readers import Document

MAX_EXAMPLES = 5
BUCKET_STARTS = (1, 2, 5, 10, 50, 100, 1_000, 10_000)


@dataclass
class Finding:
    """How often something was found, and the first examples."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(example)


@dataclass
class Survey:
    """Counts of documents, read one by one; of the texts only digests are kept."""

    words: array[int] = field(default_factory=lambda: array("q"))
    labels: array[int] = field(default_factory=lambda: array("q"))
    label_counts: Counter[str] = field(default_factory=Counter)
    text_ids: dict[bytes, str] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    empty_texts: Finding = field(default_factory=Finding)
    no_labels: Finding = field(default_factory=Finding)
    duplicate_texts: Finding = field(default_factory=Finding)
    duplicate_ids: Finding = field(default_factory=Finding)

    @property
    def n_documents(self) -> int:
        """Documents read."""
        return len(self.words)

    def add(self, document: Document) -> None:
        """Take one more document into account; texts that differ in spaces only are the same."""
        words = document.text.split()
        self.words.append(len(words))
        self.labels.append(len(document.labels))
        self.label_counts.update(document.labels)
        if not document.labels:
            self.no_labels.add(document.id)
        if document.id in self.ids:
            self.duplicate_ids.add(document.id)
        self.ids.add(document.id)
        if not words:
            self.empty_texts.add(document.id)
        else:
            digest = _digest(words)
            if digest in self.text_ids:
                self.duplicate_texts.add(f"{document.id} = {self.text_ids[digest]}")
            else:
                self.text_ids[digest] = document.id

    def summary(self) -> dict[str, Any]:
        """Give everything as plain values."""
        return {
            "n_documents": self.n_documents,
            "n_labels": len(self.label_counts),
            "labels_per_document": spread(self.labels),
            "documents_per_label": spread(self.label_counts.values()),
            "labels_by_documents": label_histogram(self.label_counts),
            "words_per_document": spread(self.words),
            "empty_texts": vars(self.empty_texts),
            "documents_without_labels": vars(self.no_labels),
            "duplicate_texts": vars(self.duplicate_texts),
            "duplicate_ids": vars(self.duplicate_ids),
        }


def survey_documents(documents: Iterable[Document]) -> Survey:
    """Look at documents one by one."""
    survey = Survey()
    for document in documents:
        survey.add(document)
    return survey


def shared_texts(train: Survey, test: Survey) -> Finding:
    """Find the texts of the test documents that are in the training documents, too."""
    shared = Finding()
    for digest, test_id in test.text_ids.items():
        if digest in train.text_ids:
            shared.add(f"{test_id} = {train.text_ids[digest]}")
    return shared


def unknown_labels(train: Survey, test: Survey) -> Finding:
    """Find the labels that only the test documents have."""
    unknown = Finding()
    for label in test.label_counts:
        if label not in train.label_counts:
            unknown.add(label)
    return unknown


def spread(values: Iterable[int]) -> dict[str, float]:
    """Give mean, median, minimum and maximum; of nothing, zeros."""
    numbers = list(values) or [0]
    return {
        "mean": round(sum(numbers) / len(numbers), 2),
        "median": median(numbers),
        "min": min(numbers),
        "max": max(numbers),
    }


def label_histogram(counts: Counter[str]) -> dict[str, int]:
    """Count labels by the number of their documents, from rare to frequent."""
    ends = (*(start - 1 for start in BUCKET_STARTS[1:]), None)
    names = [_bucket_name(start, end) for start, end in zip(BUCKET_STARTS, ends, strict=True)]
    histogram = dict.fromkeys(names, 0)
    for count in counts.values():
        histogram[names[bisect_right(BUCKET_STARTS, count) - 1]] += 1
    return histogram


def _bucket_name(start: int, end: int | None) -> str:
    if end is None:
        return f"{start}+"
    return f"{start}" if end == start else f"{start}-{end}"


def _digest(words: list[str]) -> bytes:
    return blake2b(" ".join(words).encode(), digest_size=16).digest()
