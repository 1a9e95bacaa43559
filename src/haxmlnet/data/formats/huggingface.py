"""Directories that `datasets` wrote with `save_to_disk`.

state.json:                     {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], ...}
dataset_info.json:              {"features": {"labels": {"feature": {"dtype": "string", ...}, ...}, ...}}
data-00000-of-00001.arrow, ...: an Arrow stream with the columns id, text and labels
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.arrow_rows import (
    Rows,
    explain_arrow,
    find_classes,
    find_metadata_classes,
    iterate_records,
    make_schema,
    rows_to_documents,
    select_typed_columns,
    write_batches,
)
from haxmlnet.data.formats.fields import show
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.source import Source, open_source
from haxmlnet.errors import DataError

STATE_FILE = "state.json"
FILES_KEY = "_data_files"
_INFO_FILE = "dataset_info.json"
_ARROW_FILE = "data-00000-of-00001.arrow"
_INDICES_KEY = "_indices_data_files"
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"


def read_huggingface(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read the Arrow files that state.json names, one after the other; numbers of classes become their names."""
    if source.path is None:
        raise source.error("a data set is a directory, which a pipe cannot hold. Give the directory.")
    files = _list_files(source, source.path)
    classes = None
    info_path = source.path.with_name(_INFO_FILE)
    if with_labels and info_path.is_file():
        with open_source(info_path) as info_source:
            classes = find_classes(_parse_json(info_source).get("features"), options.label_field)

    n_rows = 0
    for file in files:
        try:
            is_there = file.is_file()
        except OSError:  # a name longer than the file system takes
            is_there = False
        if not is_there:
            raise source.error(f"there is no {show(file.name)} beside it, which it names. Save the data set again.")
        for document in _read_arrow(file, options, with_labels, classes, n_rows):
            n_rows += 1
            yield document


def _list_files(source: Source, path: Path) -> list[Path]:
    state = _parse_json(source)
    if state.get(_INDICES_KEY):
        raise source.error("the order of the rows is in files of its own. Load the data set and save it again.")
    files = state.get(FILES_KEY)
    entries = files if isinstance(files, list) else []
    names = [file.get("filename") if isinstance(file, dict) else None for file in entries]
    if not names or not all(isinstance(name, str) and name and Path(name).name == name for name in names):
        raise source.error(f"{FILES_KEY!r} must name the Arrow files, got {show(files)}. Save the data set again.")
    return [path.with_name(str(name)) for name in names]


def _parse_json(source: Source) -> dict[str, Any]:
    content = b"".join(line for _, line in source.lines())
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as failure:
        reason = " ".join(str(failure).split())[:80]
        raise source.error(f"not JSON ({reason}). Save the data set again.") from failure
    if not isinstance(value, dict):
        raise source.error(f"must be one JSON object, got {show(value)}. Save the data set again.")
    return value


def _read_arrow(
    file: Path, options: ReadOptions, with_labels: bool, classes: list[str] | None, n_before: int
) -> Iterator[Document | DataError]:
    import pyarrow as pa

    with explain_arrow(str(file), "Arrow"), pa.OSFile(str(file), "rb") as stream:
        reader = pa.ipc.open_stream(stream)
        classes = classes or find_metadata_classes(reader.schema, options.label_field)
        columns = select_typed_columns(reader.schema, options, with_labels, classes is not None, str(file))
        rows = Rows(iterate_records(reader, columns), classes)
        yield from rows_to_documents(rows, str(file), options, with_labels, n_before)

        # A file that was cut between two batches looks whole to pyarrow.
        size, place = stream.size(), stream.tell()
        stream.seek(max(0, size - len(_STREAM_END)))
        if place != size or stream.read() != _STREAM_END:
            raise ValueError("it does not end where the table ends")


def write_huggingface(documents: Iterable[Document], path: Path) -> int:
    """Write a directory as `datasets` does with `save_to_disk`; it must not be there before."""
    import pyarrow as pa

    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"{path}: is there already. Give the name of a new directory.")
    temporary = path.absolute().with_name(f".tmp-{secrets.token_hex(6)}")
    try:
        temporary.mkdir()
    except OSError as failure:
        raise DataError(f"{path}: cannot be written: {failure.strerror}. Check the folder.") from failure
    string = {"dtype": "string", "_type": "Value"}
    features = {"id": string, "text": string, "labels": {"feature": string, "_type": "Sequence"}}
    state: dict[str, object] = {
        FILES_KEY: [{"filename": _ARROW_FILE}],
        "_fingerprint": secrets.token_hex(8),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    try:
        schema = make_schema().with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        arrow_path = str(temporary / _ARROW_FILE)
        with pa.OSFile(arrow_path, "wb") as stream, pa.ipc.new_stream(stream, schema) as writer:
            n_documents = write_batches(documents, writer, schema)
        (temporary / _INFO_FILE).write_text(json.dumps({"features": features}, indent=2), "utf-8")
        (temporary / STATE_FILE).write_text(json.dumps(state, indent=2), "utf-8")
        temporary.replace(path.absolute())
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return n_documents


HUGGINGFACE = Format(
    read_huggingface,
    write_huggingface,
    files=(STATE_FILE, "{split}/" + STATE_FILE),
    find_companions=lambda path: sorted(file for file in path.parent.iterdir() if file.is_file() and file != path),
)
