"""Documents to tables: Parquet files, and directories as `datasets` saves them."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from haxmlnet.data.readers import Document
from haxmlnet.data.readers.huggingface import FILES_KEY, INFO_FILE, STATE_FILE
from haxmlnet.data.readers.source import PACKED_SUFFIXES
from haxmlnet.data.writers import replace_file
from haxmlnet.errors import DataError, SettingError

ROWS_PER_GROUP = 10_000
_ARROW_FILE = "data-00000-of-00001.arrow"


def write_parquet(documents: Iterable[Document], path: Path) -> int:
    """Write a table with the columns id, text and labels."""
    import pyarrow.parquet as pq

    if path.suffix in PACKED_SUFFIXES:
        raise SettingError(f"{path}: Parquet is compressed by itself. Leave {path.suffix} out.")
    schema, n_documents = _arrow_schema(), 0
    with (
        replace_file(path) as temporary,
        open(temporary, "wb") as stream,
        pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for batch in _batches(documents, schema):
            writer.write_batch(batch)
            n_documents += batch.num_rows
    return n_documents


def write_huggingface(documents: Iterable[Document], path: Path) -> int:
    """Write a directory as `datasets` does with `save_to_disk`; it must not be there before."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"{path}: is there already. Give the name of a new directory.")
    temporary = path.absolute().with_name(f".tmp-{secrets.token_hex(6)}")
    try:
        temporary.mkdir()
    except OSError as failure:
        raise DataError(f"{path}: cannot be written: {failure.strerror}. Check the folder.") from failure
    try:
        n_documents = _write_arrow(documents, temporary / _ARROW_FILE)
        (temporary / INFO_FILE).write_text(json.dumps({"features": _huggingface_features()}, indent=2), "utf-8")
        (temporary / STATE_FILE).write_text(json.dumps(_huggingface_state(), indent=2), "utf-8")
        temporary.replace(path.absolute())
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return n_documents


def _write_arrow(documents: Iterable[Document], path: Path) -> int:
    import pyarrow as pa

    features = {"info": {"features": _huggingface_features()}}
    schema, n_documents = _arrow_schema().with_metadata({"huggingface": json.dumps(features)}), 0
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_stream(stream, schema) as writer:
        for batch in _batches(documents, schema):
            writer.write_batch(batch)
            n_documents += batch.num_rows
    return n_documents


def _huggingface_features() -> dict[str, Any]:
    string = {"dtype": "string", "_type": "Value"}
    return {"id": string, "text": string, "labels": {"feature": string, "_type": "Sequence"}}


def _huggingface_state() -> dict[str, Any]:
    return {
        FILES_KEY: [{"filename": _ARROW_FILE}],
        "_fingerprint": secrets.token_hex(8),
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }


def _arrow_schema() -> Any:
    import pyarrow as pa

    return pa.schema({"id": pa.string(), "text": pa.string(), "labels": pa.list_(pa.string())})


def _batches(documents: Iterable[Document], schema: Any) -> Iterator[Any]:
    import pyarrow as pa

    rows = iter(documents)
    while group := list(islice(rows, ROWS_PER_GROUP)):
        yield pa.RecordBatch.from_pylist([row._asdict() for row in group], schema)
