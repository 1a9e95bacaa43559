"""Raw text of the Extreme Classification Repository: trn.json, tst.json, and label names in lbl.json."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import DEFAULT_ID_FIELD, show
from haxmlnet.data.readers.json_lines import Record, read_records
from haxmlnet.data.readers.label_names import ID_FIELD, LABEL_FILE, read_label_names
from haxmlnet.data.readers.source import Source, find_beside
from haxmlnet.errors import DataError

LABEL_FIELD = "target_ind"
WEIGHT_FIELD = "target_rel"


def read_repository(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read objects whose labels are line numbers, from 0, of the label file; without one, the numbers are the names."""
    options = replace(options, label_field=LABEL_FIELD)
    label_file = find_beside(source.path, LABEL_FILE) if with_labels else None
    names = read_label_names(label_file) if label_file else None

    def prepare(record: Record) -> Record:
        if ID_FIELD in record and options.id_field == DEFAULT_ID_FIELD:
            record.setdefault(DEFAULT_ID_FIELD, record[ID_FIELD])
        if not {"text", "content"} & record.keys() and "title" in record:
            record["content"] = ""  # the sets of titles have nothing else
        if with_labels and LABEL_FIELD in record:
            record[LABEL_FIELD] = _label_names(record, names)
        return record

    return read_records(source, options, with_labels, prepare)


def _label_names(record: Record, names: list[str] | None) -> list[str]:
    indices, weights = record[LABEL_FIELD], record.get(WEIGHT_FIELD)
    if not isinstance(indices, list):
        raise DataError(f"{LABEL_FIELD!r} must be a list of whole numbers, got {show(indices)}. Write [] for none.")
    if isinstance(weights, list) and len(weights) != len(indices):
        raise DataError(
            f"{LABEL_FIELD!r} has {len(indices)} values and {WEIGHT_FIELD!r} has {len(weights)}. Make them match."
        )
    return [_label_name(index, names) for index in indices]


def _label_name(index: object, names: list[str] | None) -> str:
    if type(index) is not int or index < 0:
        raise DataError(f"{LABEL_FIELD!r} must hold whole numbers from 0, but one is {show(index)}. Mend it.")
    if names is None:
        return str(index)
    if index >= len(names):
        raise DataError(
            f"{LABEL_FIELD!r} has the label {show(index)}, but {LABEL_FILE} ends with {len(names) - 1}. "
            "Use the label file of the same data set."
        )
    return names[index]
