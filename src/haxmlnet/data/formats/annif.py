"""Annif: TSV without a header, CSV, and JSON lines, whose labels are the URIs of subjects.

first text TAB <http://example.org/a> <http://example.org/b>

document_id,text,subject_uris
id-1,first text,<http://example.org/a> <http://example.org/b>

{"document_id": "id-1", "text": "first text", "subjects": [{"uri": "http://example.org/a", "label": "A"}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.csv_tsv import make_row, read_header_names, read_table
from haxmlnet.data.formats.fields import DEFAULT_ID_FIELD, show
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.jsonl import Record, read_records
from haxmlnet.data.formats.lines import check_line, join_labels, read_each_line, refuse_characters, write_lines
from haxmlnet.data.formats.source import Source
from haxmlnet.errors import DataError

CSV_LABEL_FIELD = "subject_uris"
JSON_LABEL_FIELD = "subjects"
_ID_FIELD = "document_id"


def read_annif_tsv(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read `text TAB <uri> <uri>`, which has no header."""

    def parse(line: str, number: int) -> Document:
        text, tab, uris = line.partition("\t")
        if not tab:
            raise DataError(f"there is no tab, got {show(line)}. Write text TAB <uri> <uri>.")
        return Document(str(number), text, tuple(_split_uris(uris)) if with_labels else ())

    return read_each_line(source, parse)


def write_annif_tsv(documents: Iterable[Document], path: Path) -> int:
    """Write `text TAB <uri> <uri>`."""

    def make_lines(document: Document) -> list[str]:
        refuse_characters(document.text, "\t\n\r\0", "text")
        return [check_line(f"{document.text}\t{_join_uris(document.labels)}")]

    return write_lines(documents, [path], make_lines)


def read_annif_csv(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read a table with the columns text and subject_uris, and perhaps document_id."""
    names = read_header_names(source, ",")
    has_ids = options.id_field == DEFAULT_ID_FIELD not in names and _ID_FIELD in names
    options = replace(options, label_field=CSV_LABEL_FIELD, id_field=_ID_FIELD if has_ids else options.id_field)
    return read_table(source, options, with_labels, ",", lambda cell, field: _split_uris(cell))


def write_annif_csv(documents: Iterable[Document], path: Path) -> int:
    """Write a row with the id, the text and `<uri> <uri>`."""
    header = f"{_ID_FIELD},text,{CSV_LABEL_FIELD}"
    return write_lines(
        documents, [path], lambda document: [make_row(document, _join_uris(document.labels), ",")], header
    )


def read_annif_jsonl(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read objects whose subjects are strings or have a uri, a label or both; the URI is the name."""
    options = replace(options, label_field=JSON_LABEL_FIELD)

    def prepare(record: Record) -> Record:
        if _ID_FIELD in record and options.id_field == DEFAULT_ID_FIELD:
            record.setdefault(DEFAULT_ID_FIELD, record[_ID_FIELD])
        if with_labels and isinstance(record.get(JSON_LABEL_FIELD), list):
            record[JSON_LABEL_FIELD] = [_name_subject(subject) for subject in record[JSON_LABEL_FIELD]]
        return record

    return read_records(source, options, with_labels, prepare)


def write_annif_jsonl(documents: Iterable[Document], path: Path) -> int:
    """Write an object whose subjects have a uri."""

    def make_lines(document: Document) -> list[str]:
        # The reader takes one pair of angle brackets off, as they belong to URIs in other forms.
        uris = [f"<{label}>" if label != _strip_brackets(label) else label for label in document.labels]
        record = {_ID_FIELD: document.id, "text": document.text, JSON_LABEL_FIELD: [{"uri": uri} for uri in uris]}
        return [json.dumps(record, ensure_ascii=False)]

    return write_lines(documents, [path], make_lines)


def _split_uris(uris: str) -> list[str]:
    """Split URIs at spaces; the angle brackets around them are optional."""
    bare = [_strip_brackets(uri) for uri in uris.split()]
    if "" in bare:
        raise DataError(f"there is an empty <>, got {show(uris)}. Leave empty URIs out.")
    return list(dict.fromkeys(bare))


def _join_uris(labels: Iterable[str]) -> str:
    for label in labels:
        refuse_characters(label, "<>", "label")
    return " ".join([f"<{label}>" for label in join_labels(labels).split()])


def _name_subject(subject: object) -> object:
    if isinstance(subject, dict):
        name = subject.get("uri") or subject.get("label")
        if not isinstance(name, str):
            raise DataError(f"a subject needs a 'uri' or a 'label', got {show(subject)}. Add one.")
        return _strip_brackets(name)
    return _strip_brackets(subject) if isinstance(subject, str) else subject


def _strip_brackets(uri: str) -> str:
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


ANNIF_TSV = Format(read_annif_tsv, write_annif_tsv, has_ids=False)
ANNIF_CSV = Format(read_annif_csv, write_annif_csv)
ANNIF_JSONL = Format(read_annif_jsonl, write_annif_jsonl)
