"""Parquet tables, read some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from haxmlnet.data.readers.arrow_rows import (
    BATCH_ROWS,
    arrow_records,
    check_types,
    metadata_classes,
    needed_columns,
    row_document,
)
from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.source import Source
from haxmlnet.errors import DataError

BUFFER_SIZE = 1 << 20  # without one, pyarrow reads a column of a whole row group at once


def read_parquet(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read a table whose label column has lists of strings, or strings as in CSV."""
    if source.path is None or source.packing or not source.is_parquet:
        raise _unusable(source)
    number = 0
    with _opened(source) as file:
        schema = file.schema_arrow
        classes = metadata_classes(schema, options.label_field)
        columns = _checked_columns(source, schema, options, with_labels, classes is not None)
        for record in _records(source, file, columns):
            number += 1
            try:
                yield row_document(record, options, with_labels, number, classes)
            except DataError as error:
                yield source.error(error, number)
        if number != file.metadata.num_rows:
            raise source.error(f"the table ends after {number} of {file.metadata.num_rows} rows. Copy the file again.")


def _unusable(source: Source) -> DataError:
    if not source.is_parquet:
        return source.error(f"not a Parquet file, got {source.head[:4]!r} at its start. Choose another --format.")
    if source.packing:
        return source.error(f"a Parquet file within {source.packing}. Unpack it: Parquet is compressed already.")
    return source.error("Parquet is read from its end, which a pipe does not have. Give a file.")


def _opened(source: Source) -> Any:
    import pyarrow.parquet as pq

    with explain_arrow(source.name, "Parquet"):
        return pq.ParquetFile(source.path, page_checksum_verification=True, buffer_size=BUFFER_SIZE)


def _checked_columns(
    source: Source, schema: Any, options: ReadOptions, with_labels: bool, has_classes: bool
) -> list[str]:
    try:
        columns = needed_columns(schema.names, options, with_labels)
        check_types(schema, columns, options, with_labels, has_classes)
    except DataError as error:
        raise source.error(error) from error
    return columns


def _records(source: Source, file: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    with explain_arrow(source.name, "Parquet"):
        yield from arrow_records(file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False), columns)


@contextmanager
def explain_arrow(where: str, what: str) -> Iterator[None]:
    """Say of what pyarrow cannot read that it is damaged."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError) as failure:
        if isinstance(failure, DataError):
            raise
        reason = " ".join(str(failure).split())[:80]
        raise DataError(
            f"{where}: the {what} data is damaged ({reason}). Copy or download the file again."
        ) from failure
