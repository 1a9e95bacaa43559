"""Documents to files. A new format is a function that makes lines and a line in `OUTPUT_FORMATS`."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from haxmlnet.data import document_lines as lines
from haxmlnet.data.readers import Document
from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.parallel import labels_name
from haxmlnet.data.readers.source import bare_name
from haxmlnet.data.writers import replace_file
from haxmlnet.errors import DataError, SettingError

ROWS_PER_GROUP = 10_000


class OutputFormat(NamedTuple):
    """How a document is written, the endings of names that tell the format, and what it can hold."""

    make_lines: lines.LineMaker | None
    """None for Parquet, which has no lines."""
    suffixes: tuple[str, ...] = ()
    header: str = ""
    has_ids: bool = True


OUTPUT_FORMATS: dict[str, OutputFormat] = {
    "jsonl": OutputFormat(lines.json_line, (".jsonl", ".ndjson", ".json")),
    "csv": OutputFormat(lines.csv_line, (".csv",), lines.table_header(",")),
    "tsv": OutputFormat(lines.tsv_line, (".tsv", ".tab"), lines.table_header("\t")),
    "parquet": OutputFormat(None, (".parquet", ".pq")),
    "parallel": OutputFormat(lines.parallel_lines, ("_texts.txt",), has_ids=False),
    "libmultilabel": OutputFormat(lines.libmultilabel_line),
    "fasttext": OutputFormat(lines.fasttext_line, (".fasttext",), has_ids=False),
    "annif-tsv": OutputFormat(lines.annif_tsv_line, has_ids=False),
}


def write_documents(
    documents: Iterable[Document], path: str | Path, format: str | None = None, drop_ids: bool = False
) -> int:
    """Write documents so that reading them gives the same ids, texts and labels; give their number.

    The format is told by the name of the file if it is not given; .gz and .zst are compressed. A document
    that the format cannot hold is an error, and the file stays as it was; `drop_ids` allows formats without ids
    to number the documents anew.
    """
    form = OUTPUT_FORMATS[output_format(path, format)]
    checked = documents if form.has_ids or drop_ids else _numbered(documents, path)
    if form.make_lines is None:
        return _write_parquet(checked, path)
    n_documents = 0
    with _open_all(_files(path, form)) as streams:
        if form.header:
            streams[0].write(f"{form.header}\n".encode())
        for n_documents, document in enumerate(checked, start=1):
            for stream, line in zip(streams, _made_lines(form.make_lines, document, n_documents, path), strict=True):
                stream.write(f"{line}\n".encode())
    return n_documents


def output_format(path: str | Path, format: str | None = None) -> str:
    """Check the name of a format, or tell it by the name of the file."""
    if format is not None:
        if format not in OUTPUT_FORMATS:
            raise SettingError(f"format must be one of {', '.join(OUTPUT_FORMATS)}, got {format!r}.")
        return format
    name = bare_name(str(path)).lower()
    for format_name, form in OUTPUT_FORMATS.items():
        if form.suffixes and name.endswith(form.suffixes):
            return format_name
    raise SettingError(f"{path}: the name does not tell the format. Use --to with one of {', '.join(OUTPUT_FORMATS)}.")


def _made_lines(
    make: Callable[[Document], tuple[str, ...]], document: Document, n: int, path: object
) -> tuple[str, ...]:
    try:
        return make(document)
    except DataError as error:
        raise _cannot_hold(path, n, document, f"{error}. Mend it, or choose a format such as jsonl.") from error


def _numbered(documents: Iterable[Document], path: object) -> Iterator[Document]:
    for n, document in enumerate(documents, start=1):
        if document.id != str(n):
            raise _cannot_hold(path, n, document, "the format has no ids. Use --drop-ids to number the documents.")
        yield document


def _cannot_hold(path: object, n: int, document: Document, reason: str) -> DataError:
    return DataError(f"{path}: cannot hold document {n} with the id {show(document.id)}: {reason}")


def _files(path: str | Path, form: OutputFormat) -> tuple[Path, ...]:
    texts = Path(path)
    if form.make_lines is not lines.parallel_lines:
        return (texts,)
    labels = labels_name(texts.name)
    if labels is None:
        raise SettingError(
            f"{path}: the file of the texts must be named NAME_texts.txt, for labels in NAME_labels.txt."
        )
    return texts, texts.with_name(labels + texts.name.removeprefix(bare_name(texts.name)))


@contextmanager
def _open_all(paths: Iterable[Path]) -> Iterator[list[BinaryIO]]:
    """Open files that take their places together, when all are complete."""
    with ExitStack() as replacing:
        temporaries = [replacing.enter_context(replace_file(path)) for path in paths]
        with ExitStack() as streams:
            yield [streams.enter_context(_open(temporary)) for temporary in temporaries]


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    with open(path, "wb") as stream:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") as packed:
                yield cast(BinaryIO, packed)
        elif path.suffix == ".zst":
            import pyarrow as pa

            with pa.CompressedOutputStream(pa.PythonFile(stream, mode="w"), "zstd") as packed:
                yield packed
        else:
            yield stream


def _write_parquet(documents: Iterable[Document], path: str | Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if Path(path).suffix in (".gz", ".zst"):
        raise SettingError(f"{path}: Parquet is compressed by itself. Leave {Path(path).suffix} out.")
    schema = pa.schema({"id": pa.string(), "text": pa.string(), "labels": pa.list_(pa.string())})
    rows, n_documents = iter(documents), 0
    with (
        replace_file(path) as temporary,
        open(temporary, "wb") as stream,
        pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        while group := list(islice(rows, ROWS_PER_GROUP)):
            writer.write_batch(pa.RecordBatch.from_pylist([row._asdict() for row in group], schema))
            n_documents += len(group)
    return n_documents
