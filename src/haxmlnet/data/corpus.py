"""`Corpus`: documents in memory, as the ids, texts and label sets that methods are fitted on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from haxmlnet.data.document_files import iterate_documents
from haxmlnet.data.documents import DEFAULT_OPTIONS, Document, ReadOptions, SkipReport
from haxmlnet.data.formats.recognition import find_file
from haxmlnet.data.in_memory_tables import documents_of_table
from haxmlnet.errors import DataError


@dataclass
class Corpus:
    """Documents column by column; a document may have no label at all."""

    ids: list[str]
    texts: list[str]
    labels: list[tuple[str, ...]]
    source: str = ""
    """Where the documents come from, for messages."""
    n_skipped: int = 0

    def __post_init__(self) -> None:
        assert len(self.ids) == len(self.texts) == len(self.labels)

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def read(
        cls,
        path: str | Path,
        options: ReadOptions = DEFAULT_OPTIONS,
        with_labels: bool = True,
        report: SkipReport | None = None,
    ) -> Corpus:
        """Read a whole file, or standard input ("-"); with labels, at least one document must have some.

        In a directory, the file of `options.split` is looked for by its name.
        """
        path = find_file(path, options)
        report = SkipReport() if report is None else report
        documents = iterate_documents(path, options, with_labels=with_labels, report=report)
        return cls._collect(documents, str(path), options, with_labels, report)

    @classmethod
    def from_table(
        cls,
        table: Any,
        options: ReadOptions = DEFAULT_OPTIONS,
        with_labels: bool = True,
        report: SkipReport | None = None,
    ) -> Corpus:
        """Read a pandas or polars DataFrame, an Arrow table or a `datasets` Dataset, whose columns the options name."""
        report = SkipReport() if report is None else report
        documents = documents_of_table(table, options, with_labels=with_labels, report=report)
        return cls._collect(documents, type(table).__name__, options, with_labels, report)

    @classmethod
    def _collect(
        cls, documents: Iterable[Document], source: str, options: ReadOptions, with_labels: bool, report: SkipReport
    ) -> Corpus:
        n_skipped_before = report.n_skipped
        corpus = cls([], [], [], source)
        # A label occurs in many documents: keeping one string for all of them saves most of their memory.
        one_string: dict[str, str] = {}
        for document in documents:
            corpus.ids.append(document.id)
            corpus.texts.append(document.text)
            corpus.labels.append(tuple([one_string.setdefault(label, label) for label in document.labels]))
        if with_labels and not one_string:
            raise DataError(
                f"{source}: none of {len(corpus)} documents has a label in {options.label_field!r}. "
                "Use --label-field to name the field with the labels."
            )
        corpus.n_skipped = report.n_skipped - n_skipped_before
        return corpus
