"""CSV and TSV with a header line; fields that hold separators, quotes or newlines are quoted."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import (
    missing_field,
    refuse_half_characters,
    show,
    split_labels,
    to_document,
)
from haxmlnet.data.readers.json_lines import decode
from haxmlnet.data.readers.source import Source
from haxmlnet.errors import DataError

DEFAULT_LABEL_SEPARATOR = ";"
LabelParser = Callable[[str, str], object]
"""Reads a cell with labels; its second argument is the name of the column, for messages."""
_LONGEST_FIELD = 2**31 - 1  # the most a C long holds on every platform


def read_csv(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read a table with commas between its columns."""
    return read_table(source, options, with_labels, ",")


def read_tsv(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read a table with tabs between its columns, quoted in the same way as CSV."""
    return read_table(source, options, with_labels, "\t")


def read_table(
    source: Source, options: ReadOptions, with_labels: bool, delimiter: str, labels_of: LabelParser | None = None
) -> Iterator[Document | DataError]:
    """Read a table with a header; `labels_of` reads the cell with the labels where no separator is given."""
    header: list[str] = []
    n_rows = 0
    for line, row in _rows(source, delimiter):
        if not header:
            header = _checked_header(source, line, row, options, with_labels)
            continue
        n_rows += 1
        try:
            yield _row_to_document(header, row, options, with_labels, n_rows, labels_of or label_cell)
        except DataError as error:
            yield source.error(error, line)


def _rows(source: Source, delimiter: str) -> Iterator[tuple[int, list[str] | DataError]]:
    """Give each row, or what is wrong with it, and the line on which it starts; blank lines do not count."""
    csv.field_size_limit(_LONGEST_FIELD)
    lines = _DecodedLines(source)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as failure:
            if lines.at_end:
                # Never skipped: the open quote has swallowed all rows that follow it.
                raise source.error("a quote opens in this row and never closes. Close it.", start) from failure
            lines.take_fault()
            reason = str(failure).partition(" - ")[0]
            yield (
                start,
                DataError(f"not a valid row ({reason}). Put such fields in quotes, and double inner quotes."),
            )
            continue
        if row is None:
            return
        fault = lines.take_fault()
        if fault is not None:
            yield start, fault
        elif row:
            yield start, row


class _DecodedLines:
    """Lines for the csv module, which cannot go on after an exception: faults are noted, not raised."""

    def __init__(self, source: Source) -> None:
        self.at_end = False
        self._fault: DataError | None = None
        self._source = source

    def __iter__(self) -> Iterator[str]:
        for _, line in self._source.lines():
            try:
                text = decode(line)
            except DataError as fault:
                self._fault = fault
                text = line.decode(errors="replace")
            yield text
        self.at_end = True

    def take_fault(self) -> DataError | None:
        """Give the fault noted since the last call, if any."""
        fault, self._fault = self._fault, None
        return fault


def _checked_header(
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


def _row_to_document(
    header: list[str],
    row: list[str] | DataError,
    options: ReadOptions,
    with_labels: bool,
    default_id: int,
    labels_of: LabelParser,
) -> Document:
    if isinstance(row, DataError):
        raise row
    if len(row) != len(header):
        raise DataError(
            f"the header has {len(header)} columns, got {len(row)} in {show(row)}. "
            "Put fields with separators in quotes."
        )
    record: dict[str, object] = dict(zip(header, row, strict=True))
    if with_labels and options.label_separator is None:
        record[options.label_field] = labels_of(str(record[options.label_field]), options.label_field)
    document = to_document(record, options, with_labels, default_id)
    refuse_half_characters(document)
    return document


def label_cell(cell: str, field: str) -> object:
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
