"""From a path to its documents, in whatever format they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from haxmlnet.data.features import FeatureCorpus
from haxmlnet.data.readers.documents import DEFAULT_OPTIONS, Document, ReadOptions, SkipReport
from haxmlnet.data.readers.formats import FORMATS, checked_format
from haxmlnet.data.readers.recognition import find_features, find_file, format_of
from haxmlnet.data.readers.source import STANDARD_INPUT, open_source
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
    with open_source(find_file(path, options)) as source:
        reader = FORMATS[format_of(source, options, with_labels)].read
        yield from usable_documents(reader(source, options, with_labels), source.name, options, report)


def usable_documents(
    documents: Iterable[Document | DataError], where: str, options: ReadOptions, report: SkipReport | None
) -> Iterator[Document]:
    """Pass documents on, and stop at errors or count them, as the options say; without any document, complain."""
    report = SkipReport() if report is None else report
    n_skipped_before = report.n_skipped
    n_documents = 0
    for document in documents:
        if isinstance(document, DataError):
            if options.on_error == "stop":
                raise document
            report.add(document)
        else:
            n_documents += 1
            yield document
    if not n_documents:
        raise _nothing_read(where, report, report.n_skipped - n_skipped_before)


def read_features(
    path: str | Path,
    options: ReadOptions = DEFAULT_OPTIONS,
    *,
    with_labels: bool = True,
    report: SkipReport | None = None,
) -> FeatureCorpus:
    """Read documents that come as sparse features, without texts, from a file or a directory.

    With `on_error="skip"` rows that cannot be used are left out and counted in `report`.
    """
    report = SkipReport() if report is None else report
    n_skipped_before = report.n_skipped
    with open_source(find_features(path, options)) as source:
        form = FORMATS[format_of(source, options, with_labels)]
        if form.read_features is None:
            raise source.error("the file has texts, not features. Read it as documents.")
        corpus = form.read_features(source, options, with_labels, report)
        if not len(corpus):
            raise _nothing_read(source.name, report, report.n_skipped - n_skipped_before)
    return corpus


def is_sparse(path: str | Path, options: ReadOptions = DEFAULT_OPTIONS) -> bool:
    """Say whether documents are sparse features without texts; of standard input, only the format can tell."""
    if options.format is not None:
        return FORMATS[checked_format(options.format)].is_sparse
    if str(path) == STANDARD_INPUT:
        return False
    with open_source(find_file(path, options)) as source:
        return FORMATS[format_of(source, options, with_labels=False)].is_sparse


def _nothing_read(where: str, report: SkipReport, n_skipped: int) -> DataError:
    if not n_skipped:
        return DataError(f"{where}: the file has no document. Give a file with at least one.")
    first = f" The first: {report.messages[0]}" if n_skipped == report.n_skipped else ""
    return DataError(f"{where}: none of {n_skipped} documents can be used.{first}")
