"""Annif's tables and JSON lines, whose labels are URIs of subjects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import DEFAULT_ID_FIELD, show
from haxmlnet.data.readers.json_lines import Record, read_records
from haxmlnet.data.readers.lines import bare_uri, split_uris
from haxmlnet.data.readers.source import Source
from haxmlnet.data.readers.tables import read_table
from haxmlnet.errors import DataError

CSV_LABEL_FIELD = "subject_uris"
JSON_LABEL_FIELD = "subjects"
_ID_FIELD = "document_id"


def read_annif_csv(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read a table with the columns text and subject_uris, and perhaps document_id."""
    header = source.first_line().decode(errors="replace")
    names = [name.strip(' "\r\n') for name in header.split(",")]
    has_ids = options.id_field == DEFAULT_ID_FIELD not in names and _ID_FIELD in names
    options = replace(options, label_field=CSV_LABEL_FIELD, id_field=_ID_FIELD if has_ids else options.id_field)
    return read_table(source, options, with_labels, ",", labels_of=lambda cell, field: split_uris(cell))


def read_annif_jsonl(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read objects whose subjects are strings or have a uri, a label or both; the URI is the name."""
    options = replace(options, label_field=JSON_LABEL_FIELD)

    def prepare(record: Record) -> Record:
        if _ID_FIELD in record and options.id_field == DEFAULT_ID_FIELD:
            record.setdefault(DEFAULT_ID_FIELD, record[_ID_FIELD])
        if with_labels and isinstance(record.get(JSON_LABEL_FIELD), list):
            record[JSON_LABEL_FIELD] = [_subject_name(subject) for subject in record[JSON_LABEL_FIELD]]
        return record

    return read_records(source, options, with_labels, prepare)


def _subject_name(subject: object) -> object:
    if isinstance(subject, dict):
        name = subject.get("uri") or subject.get("label")
        if not isinstance(name, str):
            raise DataError(f"a subject needs a 'uri' or a 'label', got {show(subject)}. Add one.")
        return bare_uri(name)
    return bare_uri(subject) if isinstance(subject, str) else subject
