"""Documents to files that belong together: objects and their labels, texts and their matrix."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from haxmlnet.data.document_lines import cannot_hold, name_line, text_line
from haxmlnet.data.packed_files import open_all
from haxmlnet.data.readers import Document
from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.label_names import (
    ID_FIELD,
    LABEL_FILE,
    PECOS_NAME_FILE,
    distinct_names,
    pecos_names_beside,
    read_titles,
)
from haxmlnet.data.readers.matrices import load_targets
from haxmlnet.data.readers.parallel import PECOS_NAME
from haxmlnet.data.readers.repository import LABEL_FIELD, WEIGHT_FIELD
from haxmlnet.data.readers.source import PACKED_SUFFIXES, bare_name, find_beside, open_source
from haxmlnet.errors import DataError, SettingError


def write_xc(documents: Iterable[Document], path: Path) -> int:
    """Write objects with the numbers of their labels, whose titles are added to lbl.json beside them."""
    label_path = find_beside(path, LABEL_FILE) or path.with_name(LABEL_FILE + _packing(path))
    titles, uids = read_titles(label_path) if label_path.is_file() else ([], [])
    columns = {name: column for column, name in enumerate(distinct_names(label_path, titles, uids))}
    taken, n_before, n_documents = set(titles), len(columns), 0
    with open_all((path, label_path)) as (stream, label_stream):
        for n_documents, document in enumerate(documents, start=1):
            new = [label for label in document.labels if label not in columns]
            for label in new:
                if label in taken or label != label.strip() or not label:
                    raise cannot_hold(path, n_documents, document, _odd_title(label, label_path))
                columns[label] = len(columns)
            stream.write(_xc_line(document, [columns[label] for label in document.labels]))
        _copy_lines(label_path, label_stream)
        for label, column in islice(columns.items(), n_before, None):
            label_stream.write(_json_line({ID_FIELD: str(column), "title": label}))
    if not columns:
        label_path.unlink()  # a file without a line is no file of labels
    return n_documents


def _odd_title(label: str, label_path: Path) -> str:
    if label != label.strip():
        return f"a label begins or ends with a space, got {show(label)}"
    return f"several labels in {label_path.name} share the title {show(label)}"


def _xc_line(document: Document, columns: list[int]) -> bytes:
    record = {ID_FIELD: document.id, "title": "", "content": document.text, LABEL_FIELD: columns}
    return _json_line({**record, WEIGHT_FIELD: [1.0] * len(columns)})


def _copy_lines(path: Path, stream: BinaryIO) -> None:
    if path.is_file():
        with open_source(path) as source:
            for _, block in source.blocks():
                stream.write(block)


def write_pecos(documents: Iterable[Document], path: Path) -> int:
    """Write a text a line, the matrix of the labels in Y.NAME.npz and their names in output-items.txt."""
    match = PECOS_NAME.fullmatch(bare_name(path.name))
    if match is None:
        raise SettingError(f"{path}: the file of the texts must be named X.NAME.txt, for labels in Y.NAME.npz.")
    matrix_path = path.with_name(f"Y.{match[1]}.npz")
    names = _fixed_names(path, matrix_path)
    columns = {name: column for column, name in enumerate(names or ())}
    starts, indices = array("q", [0]), array("q")
    name_path = path.with_name(PECOS_NAME_FILE) if names is None else None
    with open_all([file for file in (path, matrix_path, name_path) if file]) as streams:
        for n, document in enumerate(documents, start=1):
            try:
                streams[0].write(f"{text_line(document.text)}\n".encode())
                indices.extend([_pecos_column(label, columns, names is not None) for label in document.labels])
            except DataError as error:
                raise cannot_hold(path, n, document, error) from error
            starts.append(len(indices))
        _save_targets(streams[1], starts, indices, len(columns))
        if names is None:
            streams[2].writelines(f"{name}\n".encode() for name in columns)
    if names is None and not columns:
        path.with_name(PECOS_NAME_FILE).unlink(missing_ok=True)
    return len(starts) - 1


def _fixed_names(path: Path, matrix_path: Path) -> list[str] | None:
    """Give the names that other matrices in the directory rely on; without any, the names may be written anew."""
    others = [file.name for file in sorted(path.parent.glob("Y.*.npz")) if file.name != matrix_path.name]
    if not others:
        return None
    names = pecos_names_beside(path, load_targets(path.with_name(others[0])).shape[1])
    if names is None:
        raise DataError(
            f"{path}: {others[0]} is there without {PECOS_NAME_FILE}, so its labels have no names. "
            "Write to another directory."
        )
    return names


def _pecos_column(label: str, columns: dict[str, int], is_fixed: bool) -> int:
    if is_fixed and label not in columns:
        raise DataError(
            f"the label {show(label)} is not in {PECOS_NAME_FILE}, on which another matrix relies: "
            "write the part with all labels first"
        )
    return columns.setdefault(name_line(label), len(columns))


def _save_targets(stream: BinaryIO, starts: array[int], indices: array[int], n_labels: int) -> None:
    import numpy as np
    import scipy.sparse as sp

    columns = np.array(indices, np.int32)
    values = np.ones(len(columns), np.float32)
    shape = (len(starts) - 1, n_labels)
    sp.save_npz(stream, sp.csr_matrix((values, columns, np.array(starts, np.int64)), shape=shape))


def _packing(path: Path) -> str:
    return path.suffix if path.suffix in PACKED_SUFFIXES else ""


def _json_line(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()
