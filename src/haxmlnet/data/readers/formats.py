"""The formats documents are read from. A new one is a reader function and a line in `FORMATS`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from haxmlnet.data.readers.documents import DEFAULT_OPTIONS, Document, ReadOptions, SkipReport
from haxmlnet.data.readers.json_lines import read_json_lines
from haxmlnet.data.readers.plain_text import read_plain_text
from haxmlnet.data.readers.source import Source, open_source
from haxmlnet.data.readers.tables import read_csv, read_tsv
from haxmlnet.errors import DataError, SettingError

Reader = Callable[[Source, ReadOptions, bool], Iterator[Document | DataError]]
"""Yields a document, or the error of one that may be skipped; what concerns the whole file it raises."""


class Format(NamedTuple):
    """How a format is read, and the file names that tell it."""

    read: Reader
    suffixes: tuple[str, ...] = ()


FORMATS: dict[str, Format] = {
    "jsonl": Format(read_json_lines, (".jsonl", ".ndjson", ".json")),
    "csv": Format(read_csv, (".csv",)),
    "tsv": Format(read_tsv, (".tsv", ".tab")),
    "text": Format(read_plain_text),
}


def iterate_documents(
    path: str | Path,
    options: ReadOptions = DEFAULT_OPTIONS,
    *,
    with_labels: bool,
    report: SkipReport | None = None,
) -> Iterator[Document]:
    """Read documents one by one from a file, plain or gzip, or from standard input ("-").

    Without labels, as for prediction, the label field is neither needed nor looked at.
    With `on_error="skip"` documents that cannot be used are counted in `report`; a file that
    cannot be read to its end, or has no usable document, is an error in any case.
    """
    report = SkipReport() if report is None else report
    n_skipped_before = report.n_skipped
    n_documents = 0
    with open_source(path) as source:
        reader = FORMATS[_format_of(source, options, with_labels)].read
        for document in reader(source, options, with_labels):
            if isinstance(document, DataError):
                if options.on_error == "stop":
                    raise document
                report.add(document)
            else:
                n_documents += 1
                yield document
        if not n_documents:
            raise _nothing_read(source, report, report.n_skipped - n_skipped_before)


def _format_of(source: Source, options: ReadOptions, with_labels: bool) -> str:
    if options.format is not None:
        if options.format not in FORMATS:
            raise SettingError(f"format must be one of {', '.join(FORMATS)}, got {options.format!r}.")
        return options.format
    name = source.name.lower().removesuffix(".gz")
    for format_name, (_, suffixes) in FORMATS.items():
        if name.endswith(suffixes):
            return format_name
    return _format_of_content(source, options, with_labels)


def _format_of_content(source: Source, options: ReadOptions, with_labels: bool) -> str:
    if re.match(rb'\s*\{\s*["}]', source.head):
        return "jsonl"
    if not with_labels:
        return "text"
    header = source.head.partition(b"\n")[0].decode(errors="replace")
    for format_name, delimiter in (("tsv", "\t"), ("csv", ",")):
        if options.label_field in [name.strip(' "\r') for name in header.split(delimiter)]:
            return format_name
    raise source.error(f"cannot tell the format. Use --format with one of {', '.join(FORMATS)}.")


def _nothing_read(source: Source, report: SkipReport, n_skipped: int) -> DataError:
    if not n_skipped:
        return source.error("the file has no document. Give a file with at least one.")
    first = f" The first: {report.messages[0]}" if n_skipped == report.n_skipped else ""
    return source.error(f"none of {n_skipped} documents can be used.{first}")
