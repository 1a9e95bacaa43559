"""Parquet tables, read some rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import missing_field, refuse_half_characters, show, to_document
from haxmlnet.data.readers.source import Source
from haxmlnet.data.readers.tables import label_cell
from haxmlnet.errors import DataError

BATCH_ROWS = 1_000
BUFFER_SIZE = 1 << 20  # without one, pyarrow reads a column of a whole row group at once


def read_parquet(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read a table whose label column has lists of strings, or strings as in CSV."""
    if source.path is None or source.packing or not source.is_parquet:
        raise _unusable(source)
    number = 0
    with _opened(source) as file:
        columns = _checked_columns(source, file.schema_arrow, options, with_labels)
        for record in _records(source, file, columns):
            number += 1
            try:
                yield _to_document(record, options, with_labels, number)
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

    with _explaining(source):
        return pq.ParquetFile(source.path, page_checksum_verification=True, buffer_size=BUFFER_SIZE)


def _records(source: Source, file: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    with _explaining(source):
        for batch in file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
            batch.validate(full=True)
            yield from batch.to_pylist()


@contextmanager
def _explaining(source: Source) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError) as failure:
        if isinstance(failure, DataError):
            raise
        reason = " ".join(str(failure).split())[:80]
        raise source.error(f"the Parquet data is damaged ({reason}). Copy or download the file again.") from failure


def _checked_columns(source: Source, schema: Any, options: ReadOptions, with_labels: bool) -> list[str]:
    """Choose the columns that are needed, if a document can be made from them."""
    text_fields = options.text_field or ("text", "title", "content")
    texts = {text_fields} if isinstance(text_fields, str) else set(text_fields)
    wanted = {*texts, options.id_field} | ({options.label_field} if with_labels else set())
    try:
        twice = [name for name in wanted if schema.names.count(name) > 1]
        if twice:
            raise DataError(f"there are several columns {twice[0]!r}. Rename all but one.")
        to_document(dict.fromkeys(schema.names, ""), options, False, 0)
        if with_labels and options.label_field not in schema.names:
            raise missing_field(options.label_field, schema.names, "--label-field")
        for name in texts & set(schema.names):
            _check_type(name, schema.field(name).type, "strings", "--text-field", _is_string)
        if with_labels:
            label_type = schema.field(options.label_field).type
            _check_type(options.label_field, label_type, "lists of strings, or strings", "--label-field", _is_labels)
    except DataError as error:
        raise source.error(error) from error
    return [name for name in schema.names if name in wanted]


def _check_type(name: str, type_: Any, wanted: str, flag: str, is_right: Callable[[Any], bool]) -> None:
    if not is_right(type_):
        raise DataError(f"the column {name!r} must hold {wanted}, got {show(str(type_))}. Use {flag} for another.")


def _is_string(type_: Any) -> bool:
    import pyarrow.types as kinds

    if kinds.is_dictionary(type_):
        return _is_string(type_.value_type)
    return kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_)


def _is_labels(type_: Any) -> bool:
    import pyarrow.types as kinds

    if kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_):
        # A list column without a single label has the type null inside.
        value = type_.value_type
        return _is_string(value) or kinds.is_integer(value) or kinds.is_null(value)
    return _is_string(type_)


def _to_document(record: dict[str, Any], options: ReadOptions, with_labels: bool, number: int) -> Document:
    field = options.label_field
    if with_labels and options.label_separator is None and isinstance(record[field], str):
        record[field] = label_cell(record[field], field)
    document = to_document(record, options, with_labels, number)
    refuse_half_characters(document)
    return document
