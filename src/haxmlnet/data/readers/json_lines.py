"""JSON lines: one object a line, with the text, the list of labels and perhaps an id."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import refuse_half_characters, show, to_document
from haxmlnet.data.readers.record_columns import to_documents
from haxmlnet.data.readers.source import Source
from haxmlnet.errors import DataError

Record = dict[str, Any]
_BLOCK_SIZE = 1 << 16  # larger blocks leave the processor's cache before they are used


def read_json_lines(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read one JSON object a line; blank lines do not count."""
    return read_records(source, options, with_labels)


def read_records(
    source: Source, options: ReadOptions, with_labels: bool, prepare: Callable[[Record], Record] | None = None
) -> Iterator[Document | DataError]:
    """Read JSON objects that `prepare` brings into the form the options describe."""
    for first, lines in source.line_blocks(_BLOCK_SIZE):
        documents = _read_quickly(first, lines, options, with_labels, prepare)
        if documents is not None:
            yield from documents
            continue
        for number, line in enumerate(lines, first):
            if not line.isspace():
                yield _read_with_care(source, number, line, options, with_labels, prepare)


def _read_quickly(
    first: int,
    lines: list[bytes],
    options: ReadOptions,
    with_labels: bool,
    prepare: Callable[[Record], Record] | None,
) -> list[Document] | None:
    """Read lines in which all is well; None means that some line is blank, wrong or unusual."""
    try:
        records = list(map(orjson.loads, lines))
        if set(map(type, records)) != {dict}:
            return None
        if prepare is not None:
            records = list(map(prepare, records))
    except ValueError:  # refused by the library or by `prepare`
        return None
    return to_documents(records, range(first, first + len(records)), options, with_labels)


def _read_with_care(
    source: Source,
    number: int,
    line: bytes,
    options: ReadOptions,
    with_labels: bool,
    prepare: Callable[[Record], Record] | None,
) -> Document | DataError:
    """Read a line by the parser that takes all that Python does, and that explains what is wrong."""
    try:
        record = parse_object(line)
        document = to_document(prepare(record) if prepare else record, options, with_labels, number)
        if b"\\" in line:
            refuse_half_characters(document)
    except DataError as error:
        return source.error(error, number)
    return document


def decode(line: bytes) -> str:
    """Decode a line, or say at which byte it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as failure:
        around = line[max(0, failure.start - 10) : failure.start + 10]
        raise DataError(
            f"not UTF-8 at byte {failure.start + 1} of the line, got {around!r}. Convert the file to UTF-8."
        ) from failure


def parse_object(line: bytes) -> Record:
    """Parse one JSON object, or say at which column it is none."""
    text = decode(line)
    try:
        record = json.loads(text)
    except json.JSONDecodeError as failure:
        near = show(text[max(0, failure.pos - 20) : failure.pos + 30])
        raise DataError(
            f"not JSON at column {failure.pos + 1} ({failure.msg}), got {near}. Write one JSON object a line."
        ) from failure
    except RecursionError as failure:
        raise DataError(f"JSON nested too deeply, got {show(text)}. Make it flat.") from failure
    except ValueError as failure:
        # Python converts no integer of more than 4,300 digits, as that takes quadratic time.
        raise DataError(f"a number has too many digits, got {show(text)}. Make it a string.") from failure
    if not isinstance(record, dict):
        raise DataError(f"a line must be one JSON object, got {show(record)}. Write {{...}} on each line.")
    return record
