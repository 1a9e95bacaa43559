"""From a path to its documents, in whatever format they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from haxmlnet.data.readers.documents import DEFAULT_OPTIONS, Document, ReadOptions, SkipReport
from haxmlnet.data.readers.formats import FORMATS
from haxmlnet.data.readers.recognition import find_file, format_of
from haxmlnet.data.readers.source import Source, open_source
from haxmlnet.errors import DataError


def iterate_documents(
    path: str | Path,
    options: ReadOptions = DEFAULT_OPTIONS,
    *,
    with_labels: bool,
    report: SkipReport | None = None,
) -> Iterator[Document]:
    """Read documents one by one from a file, plain, gzip or zstd, or from standard input ("-").

    In a directory, the file of `options.split` is looked for by its name.

    Without labels, as for prediction, the label field is neither needed nor looked at.
    With `on_error="skip"` documents that cannot be used are counted in `report`; a file that
    cannot be read to its end, or has no usable document, is an error in any case.
    """
    report = SkipReport() if report is None else report
    n_skipped_before = report.n_skipped
    n_documents = 0
    with open_source(find_file(path, options)) as source:
        reader = FORMATS[format_of(source, options, with_labels)].read
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


def _nothing_read(source: Source, report: SkipReport, n_skipped: int) -> DataError:
    if not n_skipped:
        return source.error("the file has no document. Give a file with at least one.")
    first = f" The first: {report.messages[0]}" if n_skipped == report.n_skipped else ""
    return source.error(f"none of {n_skipped} documents can be used.{first}")
