"""Directories that `datasets` wrote with `save_to_disk`: state.json, dataset_info.json and Arrow files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from haxmlnet.data.readers.arrow_rows import (
    arrow_records,
    check_types,
    feature_classes,
    metadata_classes,
    needed_columns,
    row_document,
)
from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.parquet import explain_arrow
from haxmlnet.data.readers.source import Source, open_source
from haxmlnet.errors import DataError

STATE_FILE = "state.json"
FILES_KEY = "_data_files"
INFO_FILE = "dataset_info.json"
_INDICES_KEY = "_indices_data_files"
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"


def read_huggingface(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read the Arrow files that state.json names, one after the other; numbers of classes become their names."""
    if source.path is None:
        raise source.error("a data set is a directory, which a pipe cannot hold. Give the directory.")
    files = _data_files(source)
    classes = _classes(source.path, options.label_field) if with_labels else None
    n_rows = 0
    for file in files:
        if not _is_file(file):
            raise source.error(f"there is no {show(file.name)} beside it, which it names. Save the data set again.")
        for document in _read_file(file, n_rows, options, with_labels, classes):
            n_rows += 1
            yield document


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than the file system takes
        return False


def _data_files(source: Source) -> list[Path]:
    state = _json_object(source)
    if state.get(_INDICES_KEY):
        raise source.error("the order of the rows is in files of its own. Load the data set and save it again.")
    files = state.get(FILES_KEY)
    names = [file.get("filename") if isinstance(file, dict) else None for file in _list(files)]
    if not names or not all(isinstance(name, str) and name and Path(name).name == name for name in names):
        raise source.error(f"{FILES_KEY!r} must name the Arrow files, got {show(files)}. Save the data set again.")
    assert source.path is not None
    return [source.path.with_name(str(name)) for name in names]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _classes(state: Path, field: str) -> list[str] | None:
    path = state.with_name(INFO_FILE)
    if not path.is_file():
        return None
    with open_source(path) as source:
        return feature_classes(_json_object(source).get("features"), field)


def _json_object(source: Source) -> dict[str, Any]:
    content = b"".join(line for _, line in source.lines())
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as failure:
        reason = " ".join(str(failure).split())[:80]
        raise source.error(f"not JSON ({reason}). Save the data set again.") from failure
    if not isinstance(value, dict):
        raise source.error(f"must be one JSON object, got {show(value)}. Save the data set again.")
    return value


def _read_file(
    file: Path, n_before: int, options: ReadOptions, with_labels: bool, classes: list[str] | None
) -> Iterator[Document | DataError]:
    import pyarrow as pa

    with explain_arrow(str(file), "Arrow"), pa.OSFile(str(file), "rb") as stream:
        reader = pa.ipc.open_stream(stream)
        classes = classes or metadata_classes(reader.schema, options.label_field)
        try:
            columns = needed_columns(reader.schema.names, options, with_labels)
            check_types(reader.schema, columns, options, with_labels, classes is not None)
        except DataError as error:
            raise DataError(f"{file}: {error}") from error
        for row, record in enumerate(arrow_records(reader, columns), start=1):
            try:
                yield row_document(record, options, with_labels, n_before + row, classes)
            except DataError as error:
                yield DataError(f"{file}:{row}: {error}")
        _check_end(stream)


def _check_end(stream: Any) -> None:
    """Refuse a file that was cut between two batches, which pyarrow takes for its end."""
    size = stream.size()
    place = stream.tell()
    stream.seek(max(0, size - len(_STREAM_END)))
    if place != size or stream.read() != _STREAM_END:
        raise ValueError("it does not end where the table ends")
