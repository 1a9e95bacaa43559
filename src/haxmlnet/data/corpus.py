"""`Corpus`: documents in memory, as the ids, texts and label sets that methods are fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from haxmlnet.data.readers import ReadOptions, SkipReport, find_file, iterate_documents
from haxmlnet.data.readers.documents import DEFAULT_OPTIONS
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
        n_skipped_before = report.n_skipped
        corpus = cls([], [], [], str(path))
        # A label occurs in many documents: keeping one string for all of them saves most of their memory.
        one_string: dict[str, str] = {}
        for document in iterate_documents(path, options, with_labels=with_labels, report=report):
            corpus.ids.append(document.id)
            corpus.texts.append(document.text)
            corpus.labels.append(tuple([one_string.setdefault(label, label) for label in document.labels]))
        if with_labels and not one_string:
            raise DataError(
                f"{path}: none of {len(corpus)} documents has a label in {options.label_field!r}. "
                "Use --label-field to name the field with the labels."
            )
        corpus.n_skipped = report.n_skipped - n_skipped_before
        return corpus
