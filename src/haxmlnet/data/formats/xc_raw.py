"""Raw text of the Extreme Classification Repository: trn.json and tst.json, with the names of the labels in lbl.json.

    trn.json:  {"uid": "id-1", "title": "heading", "content": "first text", "target_ind": [0, 2], "target_rel": [1, 1]}
    lbl.json:  {"uid": "A1", "title": "Voices of the Wind"}

The labels of a document are line numbers, from 0, of lbl.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.fields import DEFAULT_ID_FIELD, show
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.jsonl import Record, read_records
from haxmlnet.data.formats.label_name_files import (
    ID_FIELD,
    LABEL_FILE,
    make_distinct_names,
    read_label_names,
    read_titles,
)
from haxmlnet.data.formats.lines import cannot_hold
from haxmlnet.data.formats.source import PACKED_SUFFIXES, Source, find_beside, open_source
from haxmlnet.data.output_files import open_outputs
from haxmlnet.errors import DataError

LABEL_FIELD = "target_ind"
_WEIGHT_FIELD = "target_rel"


def read_xc_raw(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read objects whose labels are lines of the label file; without one, the numbers are the names."""
    options = replace(options, label_field=LABEL_FIELD)
    label_file = find_beside(source.path, LABEL_FILE) if with_labels else None
    names = read_label_names(label_file) if label_file else None

    def prepare(record: Record) -> Record:
        if ID_FIELD in record and options.id_field == DEFAULT_ID_FIELD:
            record.setdefault(DEFAULT_ID_FIELD, record[ID_FIELD])
        if not {"text", "content"} & record.keys() and "title" in record:
            record["content"] = ""  # the sets of titles have nothing else
        if with_labels and LABEL_FIELD in record:
            record[LABEL_FIELD] = _name_labels(record, names)
        return record

    return read_records(source, options, with_labels, prepare)


def _name_labels(record: Record, names: list[str] | None) -> list[str]:
    indices, weights = record[LABEL_FIELD], record.get(_WEIGHT_FIELD)
    if not isinstance(indices, list):
        raise DataError(f"{LABEL_FIELD!r} must be a list of integers, got {show(indices)}. Write [] for none.")
    if isinstance(weights, list) and len(weights) != len(indices):
        raise DataError(
            f"{LABEL_FIELD!r} has {len(indices)} values and {_WEIGHT_FIELD!r} has {len(weights)}. Make them match."
        )
    for index in indices:
        if type(index) is not int or index < 0:
            raise DataError(f"{LABEL_FIELD!r} must hold integers from 0, but one is {show(index)}. Fix it.")
        if names is not None and index >= len(names):
            raise DataError(
                f"{LABEL_FIELD!r} has the label {show(index)}, but {LABEL_FILE} ends with {len(names) - 1}. "
                "Use the label file of the same data set."
            )
    return [str(index) if names is None else names[index] for index in indices]


def write_xc_raw(documents: Iterable[Document], path: Path) -> int:
    """Write objects with the numbers of their labels, whose titles are added to lbl.json beside them."""
    packing = path.suffix if path.suffix in PACKED_SUFFIXES else ""
    label_path = find_beside(path, LABEL_FILE) or path.with_name(LABEL_FILE + packing)
    titles, uids = read_titles(label_path) if label_path.is_file() else ([], [])
    columns = {name: column for column, name in enumerate(make_distinct_names(label_path, titles, uids))}
    taken, n_before, n_documents = set(titles), len(columns), 0
    with open_outputs((path, label_path)) as (stream, label_stream):
        for n_documents, document in enumerate(documents, start=1):
            for label in document.labels:
                if label in columns:
                    continue
                if label != label.strip() or not label:
                    reason = f"a label begins or ends with a space, got {show(label)}"
                    raise cannot_hold(path, n_documents, document, reason)
                if label in taken:
                    reason = f"several labels in {label_path.name} share the title {show(label)}"
                    raise cannot_hold(path, n_documents, document, reason)
                columns[label] = len(columns)
            indices = [columns[label] for label in document.labels]
            record = {ID_FIELD: document.id, "title": "", "content": document.text, LABEL_FIELD: indices}
            stream.write(_make_json_line({**record, _WEIGHT_FIELD: [1.0] * len(indices)}))

        # The labels that were there before keep their lines, to the letter.
        if label_path.is_file():
            with open_source(label_path) as source:
                for _, block in source.blocks():
                    label_stream.write(block)
        for label, column in islice(columns.items(), n_before, None):
            label_stream.write(_make_json_line({ID_FIELD: str(column), "title": label}))
    if not columns:
        label_path.unlink()  # a file without a line is no file of labels
    return n_documents


def _make_json_line(record: Record) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()


XC_RAW = Format(
    read_xc_raw,
    write_xc_raw,
    files=("{short}.json",),
    find_companions=lambda path: [find_beside(path, LABEL_FILE)],
)
