"""Documents to files. A new format is a function that makes lines, or writes files, and a line in `OUTPUT_FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from haxmlnet.data import document_lines as lines
from haxmlnet.data.arrow_writers import write_huggingface, write_parquet
from haxmlnet.data.dataset_writers import write_pecos, write_xc
from haxmlnet.data.packed_files import open_all
from haxmlnet.data.readers import Document
from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.parallel import PECOS_NAME, labels_name
from haxmlnet.data.readers.source import bare_name
from haxmlnet.errors import DataError, SettingError

XC_NAMES = ("trn.json", "tst.json")
DocumentWriter = Callable[[Iterable[Document], Path], int]


class OutputFormat(NamedTuple):
    """How a document is written, the endings of names that tell the format, and what it can hold."""

    make_lines: lines.LineMaker | None = None
    suffixes: tuple[str, ...] = ()
    header: str = ""
    has_ids: bool = True
    write: DocumentWriter | None = None
    """For formats that are more than lines."""


OUTPUT_FORMATS: dict[str, OutputFormat] = {
    "jsonl": OutputFormat(lines.json_line, (".jsonl", ".ndjson", ".json")),
    "csv": OutputFormat(lines.csv_line, (".csv",), lines.table_header(",")),
    "tsv": OutputFormat(lines.tsv_line, (".tsv", ".tab"), lines.table_header("\t")),
    "parquet": OutputFormat(suffixes=(".parquet", ".pq"), write=write_parquet),
    "huggingface": OutputFormat(write=write_huggingface),
    "parallel": OutputFormat(lines.parallel_lines, ("_texts.txt",), has_ids=False),
    "xc": OutputFormat(write=write_xc),
    "pecos": OutputFormat(has_ids=False, write=write_pecos),
    "libmultilabel": OutputFormat(lines.libmultilabel_line),
    "fasttext": OutputFormat(lines.fasttext_line, (".fasttext",), has_ids=False),
    "annif-tsv": OutputFormat(lines.annif_tsv_line, has_ids=False),
    "annif-csv": OutputFormat(lines.annif_csv_line, header=lines.ANNIF_HEADER),
    "annif-jsonl": OutputFormat(lines.annif_json_line),
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
    if form.write is not None:
        return form.write(checked, Path(path))
    assert form.make_lines is not None
    n_documents = 0
    with open_all(_files(path, form)) as streams:
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
    name = bare_name(str(path))
    if name in XC_NAMES:
        return "xc"
    if PECOS_NAME.fullmatch(name):
        return "pecos"
    for format_name, form in OUTPUT_FORMATS.items():
        if form.suffixes and name.lower().endswith(form.suffixes):
            return format_name
    raise SettingError(f"{path}: the name does not tell the format. Use --to with one of {', '.join(OUTPUT_FORMATS)}.")


def _made_lines(
    make: Callable[[Document], tuple[str, ...]], document: Document, n: int, path: object
) -> tuple[str, ...]:
    try:
        return make(document)
    except DataError as error:
        raise lines.cannot_hold(path, n, document, error) from error


def _numbered(documents: Iterable[Document], path: object) -> Iterator[Document]:
    for n, document in enumerate(documents, start=1):
        if document.id != str(n):
            raise DataError(
                f"{path}: cannot hold document {n} with the id {show(document.id)}: the format has no ids. "
                "Use --drop-ids to number the documents."
            )
        yield document


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
