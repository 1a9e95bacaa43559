"""Documents from files and to files, in whatever format they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from haxmlnet.data.documents import DEFAULT_OPTIONS, Document, ReadOptions, SkipReport
from haxmlnet.data.feature_corpus import FeatureCorpus
from haxmlnet.data.formats.fields import show
from haxmlnet.data.formats.recognition import choose_output_format, find_features, find_file, recognize_format
from haxmlnet.data.formats.registry import FEATURE_OUTPUT_FORMATS, FORMATS, OUTPUT_FORMATS, check_format
from haxmlnet.data.formats.source import STANDARD_INPUT, open_source
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
        read = FORMATS[recognize_format(source, options, with_labels)].read
        yield from skip_errors(read(source, options, with_labels), source.name, options, report)


def skip_errors(
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
        read = FORMATS[recognize_format(source, options, with_labels)].read_features
        if read is None:
            raise source.error("the file has texts, not features. Read it as documents.")
        corpus = read(source, options, with_labels, report)
        if not len(corpus):
            raise _nothing_read(source.name, report, report.n_skipped - n_skipped_before)
    return corpus


def _nothing_read(where: str, report: SkipReport, n_skipped: int) -> DataError:
    if not n_skipped:
        return DataError(f"{where}: the file has no document. Give a file with at least one.")
    first = f" The first: {report.messages[0]}" if n_skipped == report.n_skipped else ""
    return DataError(f"{where}: none of {n_skipped} documents can be used.{first}")


def is_sparse(path: str | Path, options: ReadOptions = DEFAULT_OPTIONS) -> bool:
    """Return whether documents are sparse features without texts; of standard input, only the format can tell."""
    if options.format is not None:
        return FORMATS[check_format(options.format)].is_sparse
    if str(path) == STANDARD_INPUT:
        return False
    with open_source(find_file(path, options)) as source:
        return FORMATS[recognize_format(source, options, with_labels=False)].is_sparse


def write_documents(
    documents: Iterable[Document], path: str | Path, format: str | None = None, drop_ids: bool = False
) -> int:
    """Write documents so that reading them gives the same ids, texts and labels; return their number.

    The format is told by the name of the file if it is not given; .gz and .zst are compressed. A document
    that the format cannot hold is an error, and the file stays as it was; `drop_ids` allows formats without ids
    to number the documents anew.
    """
    form = OUTPUT_FORMATS[choose_output_format(path, format)]
    assert form.write is not None
    if form.has_ids or drop_ids:
        return form.write(documents, Path(path))

    def check_ids() -> Iterator[Document]:
        for n, document in enumerate(documents, start=1):
            _check_number(path, n, document.id)
            yield document

    return form.write(check_ids(), Path(path))


def write_features(corpus: FeatureCorpus, path: str | Path, format: str | None = None, drop_ids: bool = False) -> int:
    """Write features so that reading them gives the same matrices and names; return the number of documents.

    The format is told by the name of the file if it is not given; text files may be .gz or .zst. The names of labels
    go to a file beside it. No sparse format has ids: `drop_ids` allows them to be numbered anew.
    """
    form = FEATURE_OUTPUT_FORMATS[choose_output_format(path, format, FEATURE_OUTPUT_FORMATS)]
    assert form.write_features is not None
    if not drop_ids:
        for n, document_id in enumerate(corpus.ids, start=1):
            _check_number(path, n, document_id)
    form.write_features(corpus, Path(path))
    return len(corpus)


def _check_number(path: object, n: int, document_id: str) -> None:
    if document_id != str(n):
        raise DataError(
            f"{path}: cannot hold document {n} with the id {show(document_id)}: the format has no ids. "
            "Use --drop-ids to number the documents."
        )
