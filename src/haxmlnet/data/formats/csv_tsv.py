"""CSV and TSV with a header line; fields that hold separators, quotes or newlines are quoted.

    id,text,labels
    id-1,"first, and more",a;b
    id-2,second text,"[""c;d"", ""e""]"

Labels are separated by ";" (or what the options say), or are a JSON list.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.fields import missing_field, refuse_half_characters, show, split_labels, to_document
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.lines import refuse_characters, write_lines
from haxmlnet.data.formats.source import Source, decode_line
from haxmlnet.errors import DataError

DEFAULT_LABEL_SEPARATOR = ";"
LabelParser = Callable[[str, str], object]
"""Reads a cell with labels; its second argument is the name of the column, for messages."""
_HEADER = ("id", "text", "labels")
_LONGEST_FIELD = 2**31 - 1  # the most a C long holds on every platform


def parse_label_cell(cell: str, field: str) -> object:
    """Read the labels of a cell: a JSON list, or names with ";" between them."""
    if not (cell.startswith("[") and cell.endswith("]")):
        return split_labels(cell, DEFAULT_LABEL_SEPARATOR)
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as failure:
        raise DataError(
            f"{field!r} looks like a list but is not JSON, got {show(cell)}. "
            'Write ["a", "b"], or use --label-separator for strings.'
        ) from failure


def read_table(
    source: Source,
    options: ReadOptions,
    with_labels: bool,
    delimiter: str,
    parse_labels: LabelParser = parse_label_cell,
) -> Iterator[Document | DataError]:
    """Read a table with a header; `parse_labels` reads the cell with the labels where no separator is given."""
    header: list[str] = []
    n_rows = 0
    field = options.label_field
    for line, row in _read_rows(source, delimiter):
        if not header:
            header = _check_header(source, line, row, options, with_labels)
            continue
        n_rows += 1
        try:
            if isinstance(row, DataError):
                raise row
            if len(row) != len(header):
                raise DataError(
                    f"the header has {len(header)} columns, got {len(row)} in {show(row)}. "
                    "Put fields with separators in quotes."
                )
            record: dict[str, object] = dict(zip(header, row, strict=True))
            if with_labels and options.label_separator is None:
                record[field] = parse_labels(str(record[field]), field)
            document = to_document(record, options, with_labels, n_rows)
            refuse_half_characters(document.text, document.id, *document.labels)
        except DataError as error:
            yield source.error(error, line)
        else:
            yield document


def _check_header(
    source: Source, line: int, row: list[str] | DataError, options: ReadOptions, with_labels: bool
) -> list[str]:
    """Take the first row as header, if a document can be made from its columns."""
    try:
        if isinstance(row, DataError):
            raise row
        header = [name.strip() for name in row]
        twice = [name for name, n in Counter(header).items() if name and n > 1]
        if twice:
            raise DataError(f"the header names {show(twice[0])} twice. Rename one of the columns.")
        to_document(dict.fromkeys(header, ""), options, False, 0)
        if with_labels and options.label_field not in header:
            raise missing_field(options.label_field, header, "--label-field")
    except DataError as error:
        raise source.error(error, line) from error
    return header


def _read_rows(source: Source, delimiter: str) -> Iterator[tuple[int, list[str] | DataError]]:
    """Yield the line on which each row starts, and the row, or what is wrong with it; blank lines do not count."""
    csv.field_size_limit(_LONGEST_FIELD)
    faults: list[DataError] = []
    at_end = False

    def decode_lines() -> Iterator[str]:
        nonlocal at_end
        for _, line in source.lines():
            try:
                yield decode_line(line)
            except DataError as fault:  # noted, not raised: the csv module cannot go on after an exception
                faults.append(fault)
                yield line.decode(errors="replace")
        at_end = True

    reader = csv.reader(decode_lines(), delimiter=delimiter, strict=True)
    while True:
        faults.clear()
        start = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as failure:
            if at_end:
                # Never skipped: the open quote has swallowed all rows that follow it.
                raise source.error("a quote opens in this row and never closes. Close it.", start) from failure
            reason = str(failure).partition(" - ")[0]
            advice = "Put such fields in quotes, and double inner quotes."
            yield start, DataError(f"not a valid row ({reason}). {advice}")
            continue
        if row is None:
            return
        if row or faults:
            yield start, faults[-1] if faults else row


def read_header_names(source: Source, delimiter: str) -> set[str]:
    """Look at the names of the columns, without taking the first line away."""
    header = source.first_line().decode(errors="replace")
    return {name.strip(' "\r\n') for name in header.split(delimiter)}


def write_table(documents: Iterable[Document], path: Path, delimiter: str) -> int:
    """Write the columns id, text and labels."""

    def make_lines(document: Document) -> list[str]:
        return [make_row(document, _make_label_cell(document.labels), delimiter)]

    return write_lines(documents, [path], make_lines, delimiter.join(_HEADER))


def make_row(document: Document, label_cell: str, delimiter: str) -> str:
    """Write a row with the id, the text and the labels, quoted where necessary."""
    cells = []
    for name, cell in zip(_HEADER, (document.id, document.text, label_cell), strict=True):
        refuse_characters(cell, "\0", name)
        is_quoted = any(mark in cell for mark in (delimiter, '"', "\r", "\n"))
        cells.append('"' + cell.replace('"', '""') + '"' if is_quoted else cell)
    return delimiter.join(cells)


def _make_label_cell(labels: tuple[str, ...]) -> str:
    """Join labels by the usual separator if they come back the same, else write a JSON list."""
    joined = DEFAULT_LABEL_SEPARATOR.join(labels)
    is_plain = all(label == label.strip() and DEFAULT_LABEL_SEPARATOR not in label for label in labels)
    if is_plain and not joined.startswith("["):
        return joined
    return json.dumps(labels, ensure_ascii=False)


CSV = Format(
    partial(read_table, delimiter=","), partial(write_table, delimiter=","), suffixes=(".csv",), files=("{split}.csv",)
)
TSV = Format(
    partial(read_table, delimiter="\t"),
    partial(write_table, delimiter="\t"),
    suffixes=(".tsv", ".tab"),
    files=("{split}.tsv",),
)
