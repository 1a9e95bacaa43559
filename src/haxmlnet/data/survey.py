"""What documents are like before anything is trained on them: counts, and what deserves a look."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from statistics import median
from typing import Any

from haxmlnet.data.documents import Document
from haxmlnet.data.feature_corpus import FeatureCorpus

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
    """Counts of documents, read one by one; of the contents only digests are stored."""

    n_features: int | None = None
    """Set where documents have features instead of words."""
    sizes: array[int] = field(default_factory=lambda: array("q"))
    """The number of words, or features, of each document."""
    labels: array[int] = field(default_factory=lambda: array("q"))
    label_counts: Counter[str] = field(default_factory=Counter)
    content_ids: dict[bytes, str] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    empty: Finding = field(default_factory=Finding)
    no_labels: Finding = field(default_factory=Finding)
    duplicates: Finding = field(default_factory=Finding)
    duplicate_ids: Finding = field(default_factory=Finding)

    @property
    def n_documents(self) -> int:
        """Documents read."""
        return len(self.sizes)

    @property
    def content(self) -> str:
        """What documents consist of."""
        return "texts" if self.n_features is None else "rows"

    def add(self, document: Document) -> None:
        """Take one more document into account; texts that differ in spaces only are the same."""
        words = document.text.split()
        self.add_content(document.id, len(words), " ".join(words).encode(), document.labels)

    def add_content(self, document_id: str, size: int, content: bytes, labels: tuple[str, ...]) -> None:
        """Take one more document into account, whatever its content is."""
        self.sizes.append(size)
        self.labels.append(len(labels))
        self.label_counts.update(labels)
        if not labels:
            self.no_labels.add(document_id)
        if document_id in self.ids:
            self.duplicate_ids.add(document_id)
        self.ids.add(document_id)
        if not size:
            self.empty.add(document_id)
        else:
            digest = blake2b(content, digest_size=16).digest()
            if digest in self.content_ids:
                self.duplicates.add(f"{document_id} = {self.content_ids[digest]}")
            else:
                self.content_ids[digest] = document_id

    def summary(self) -> dict[str, Any]:
        """Return everything as plain values."""
        size = {} if self.n_features is None else {"n_features": self.n_features}
        unit = "words" if self.n_features is None else "features"
        return {
            "n_documents": self.n_documents,
            "n_labels": len(self.label_counts),
            **size,
            "labels_per_document": spread(self.labels),
            "documents_per_label": spread(self.label_counts.values()),
            "labels_by_documents": count_by_frequency(self.label_counts),
            f"{unit}_per_document": spread(self.sizes),
            f"empty_{self.content}": vars(self.empty),
            "documents_without_labels": vars(self.no_labels),
            f"duplicate_{self.content}": vars(self.duplicates),
            "duplicate_ids": vars(self.duplicate_ids),
        }


def survey_documents(documents: Iterable[Document]) -> Survey:
    """Look at documents one by one."""
    survey = Survey()
    for document in documents:
        survey.add(document)
    return survey


def survey_features(corpus: FeatureCorpus) -> Survey:
    """Look at documents that have features instead of texts."""
    survey = Survey(n_features=corpus.features.shape[1])
    indices, values = corpus.features.indices, corpus.features.data
    bounds = pairwise(corpus.features.indptr.tolist())
    for document_id, (start, stop), labels in zip(corpus.ids, bounds, corpus.labels, strict=True):
        content = indices[start:stop].tobytes() + values[start:stop].tobytes()
        survey.add_content(document_id, stop - start, content, labels)
    return survey


def find_shared_contents(train: Survey, test: Survey) -> Finding:
    """Find the contents of the test documents that are in the training documents, too."""
    shared = Finding()
    for digest, test_id in test.content_ids.items():
        if digest in train.content_ids:
            shared.add(f"{test_id} = {train.content_ids[digest]}")
    return shared


def find_unknown_labels(train: Survey, test: Survey) -> Finding:
    """Find the labels that only the test documents have."""
    unknown = Finding()
    for label in test.label_counts:
        if label not in train.label_counts:
            unknown.add(label)
    return unknown


def spread(values: Iterable[int]) -> dict[str, float]:
    """Return mean, median, minimum and maximum; of nothing, zeros."""
    numbers = list(values) or [0]
    return {
        "mean": round(sum(numbers) / len(numbers), 2),
        "median": median(numbers),
        "min": min(numbers),
        "max": max(numbers),
    }


def count_by_frequency(counts: Counter[str]) -> dict[str, int]:
    """Count labels by the number of their documents, from rare to frequent."""
    ends = (*(start - 1 for start in BUCKET_STARTS[1:]), None)
    names = [
        f"{start}+" if end is None else f"{start}" if end == start else f"{start}-{end}"
        for start, end in zip(BUCKET_STARTS, ends, strict=True)
    ]
    histogram = dict.fromkeys(names, 0)
    for count in counts.values():
        histogram[names[bisect_right(BUCKET_STARTS, count) - 1]] += 1
    return histogram
