"""Raw text of the Extreme Classification Repository: trn.json, tst.json, and label names in lbl.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import DEFAULT_ID_FIELD, show
from haxmlnet.data.readers.json_lines import Record, parse_object, read_records
from haxmlnet.data.readers.source import Source, find_beside, open_source
from haxmlnet.errors import DataError

LABEL_FIELD = "target_ind"
LABEL_FILE = "lbl.json"
_WEIGHT_FIELD = "target_rel"
_ID_FIELD = "uid"


def read_repository(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read objects whose labels are line numbers, from 0, of the label file; without one, the numbers are the names."""
    options = replace(options, label_field=LABEL_FIELD)
    label_file = find_beside(source.path, LABEL_FILE) if with_labels else None
    names = read_label_names(label_file) if label_file else None

    def prepare(record: Record) -> Record:
        if _ID_FIELD in record and options.id_field == DEFAULT_ID_FIELD:
            record.setdefault(DEFAULT_ID_FIELD, record[_ID_FIELD])
        if not {"text", "content"} & record.keys() and "title" in record:
            record["content"] = ""  # the sets of titles have nothing else
        if with_labels and LABEL_FIELD in record:
            record[LABEL_FIELD] = _label_names(record, names)
        return record

    return read_records(source, options, with_labels, prepare)


def read_label_names(path: Path) -> list[str]:
    """Read the titles of the labels; where several labels share one, their uids tell them apart."""
    titles, uids = [], []
    with open_source(path) as source:
        for number, line in source.lines():
            try:
                record = parse_object(line)
                uid = record.get(_ID_FIELD, number - 1)
                titles.append(_title(record) or str(uid))
            except DataError as error:
                raise source.error(error, number) from error
            uids.append(uid)
    counts = Counter(titles)
    names = [title if counts[title] == 1 else f"{title} ({uid})" for title, uid in zip(titles, uids, strict=True)]
    name, n_uses = Counter(names).most_common(1)[0]
    if n_uses > 1:
        raise source.error(f"{n_uses} labels have the title and uid {show(name)}. Give each a uid of its own.")
    return names


def _title(record: Record) -> str:
    title = record.get("title", "")
    if not isinstance(title, str):
        raise DataError(f"'title' must be a string, got {show(title)}. Mend it: the order of the labels counts.")
    try:
        title.encode()
    except UnicodeEncodeError as failure:
        raise DataError(f"half a surrogate pair is no character, got {show(title)}. Write both halves.") from failure
    return title.strip()


def _label_names(record: Record, names: list[str] | None) -> list[str]:
    indices, weights = record[LABEL_FIELD], record.get(_WEIGHT_FIELD)
    if not isinstance(indices, list):
        raise DataError(f"{LABEL_FIELD!r} must be a list of whole numbers, got {show(indices)}. Write [] for none.")
    if isinstance(weights, list) and len(weights) != len(indices):
        raise DataError(
            f"{LABEL_FIELD!r} has {len(indices)} values and {_WEIGHT_FIELD!r} has {len(weights)}. Make them match."
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
