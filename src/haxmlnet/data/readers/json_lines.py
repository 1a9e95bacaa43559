"""JSON lines: one object a line, with the text, the list of labels and perhaps an id."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import refuse_half_characters, show, to_document
from haxmlnet.data.readers.source import Source
from haxmlnet.data.readers.usual_lines import UsualLines
from haxmlnet.errors import DataError

Record = dict[str, Any]
_DECODER = msgspec.json.Decoder(Record)
_BLOCK_SIZE = 1 << 16  # larger blocks leave the processor's cache before they are used


def read_json_lines(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read one JSON object a line; blank lines do not count."""
    return read_records(source, options, with_labels)


def read_records(
    source: Source, options: ReadOptions, with_labels: bool, prepare: Callable[[Record], Record] | None = None
) -> Iterator[Document | DataError]:
    """Read JSON objects that `prepare` brings into the form the options describe."""
    usual = UsualLines.of(options, with_labels) if prepare is None else None
    for first, lines in source.line_blocks(_BLOCK_SIZE):
        documents = usual.read(lines, first) if usual else None
        if documents is not None:
            yield from documents
            continue
        for number, line in enumerate(lines, first):
            if not line.isspace():
                yield _read_line(source, number, line, options, with_labels, prepare)


def _read_line(
    source: Source,
    number: int,
    line: bytes,
    options: ReadOptions,
    with_labels: bool,
    prepare: Callable[[Record], Record] | None,
) -> Document | DataError:
    def document_of(record: Record) -> Document:
        return to_document(prepare(record) if prepare else record, options, with_labels, number)

    try:
        return document_of(_DECODER.decode(line))
    except (ValueError, RecursionError):
        pass  # what the fast library refuses may be fine for Python's own, which also explains what is wrong
    try:
        document = document_of(parse_object(line))
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
