"""JSON lines: one object a line, with the text, the list of labels and perhaps an id and a title.

{"id": "id-1", "title": "heading", "text": "first text", "labels": ["a", "b"]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.fast_jsonl import FastDecoder
from haxmlnet.data.formats.fields import refuse_half_characters, show, to_document
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.lines import write_lines
from haxmlnet.data.formats.source import Source, decode_line
from haxmlnet.errors import DataError

Record = dict[str, Any]
_DECODER = msgspec.json.Decoder(Record)
_BLOCK_SIZE = 1 << 16  # larger blocks leave the CPU's cache before they are used


def read_jsonl(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read one JSON object a line; blank lines do not count."""
    return read_records(source, options, with_labels)


def read_records(
    source: Source, options: ReadOptions, with_labels: bool, prepare: Callable[[Record], Record] | None = None
) -> Iterator[Document | DataError]:
    """Read JSON objects that `prepare` brings into the form the options describe."""

    def make_document(record: Record, number: int) -> Document:
        return to_document(prepare(record) if prepare else record, options, with_labels, number)

    fast = FastDecoder.of(options, with_labels) if prepare is None else None
    for first, lines in source.line_blocks(_BLOCK_SIZE):
        documents = fast.read(lines, first) if fast else None
        if documents is not None:
            yield from documents
            continue
        for number, line in enumerate(lines, first):
            if not line.isspace():
                yield _read_line(source, number, line, make_document)


def _read_line(
    source: Source, number: int, line: bytes, make_document: Callable[[Record, int], Document]
) -> Document | DataError:
    try:
        return make_document(_DECODER.decode(line), number)
    except (ValueError, RecursionError):
        pass  # what msgspec refuses may be fine for Python's own json, which also explains what is wrong
    try:
        document = make_document(parse_object(line), number)
        if b"\\" in line:
            refuse_half_characters(document.text, document.id, *document.labels)
    except DataError as error:
        return source.error(error, number)
    return document


def parse_object(line: bytes) -> Record:
    """Parse one JSON object, or say at which column it is none."""
    text = decode_line(line)
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


def write_jsonl(documents: Iterable[Document], path: Path) -> int:
    """Write an object with id, text and labels."""
    return write_lines(documents, [path], lambda document: [json.dumps(document._asdict(), ensure_ascii=False)])


JSONL = Format(
    read_jsonl, write_jsonl, suffixes=(".jsonl", ".ndjson", ".json"), files=("{split}.jsonl", "{split}.json")
)
