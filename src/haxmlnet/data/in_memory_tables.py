"""Tables in memory to documents: pandas, polars, Arrow, and `datasets`, none of which has to be installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from haxmlnet.data.document_files import skip_errors
from haxmlnet.data.documents import DEFAULT_OPTIONS, Document, ReadOptions, SkipReport
from haxmlnet.data.formats.arrow_rows import (
    BATCH_ROWS,
    Rows,
    find_metadata_classes,
    iterate_records,
    rows_to_documents,
    select_columns,
)
from haxmlnet.data.formats.fields import show
from haxmlnet.errors import DataError


def documents_of_table(
    table: Any,
    options: ReadOptions = DEFAULT_OPTIONS,
    *,
    with_labels: bool = True,
    report: SkipReport | None = None,
) -> Iterator[Document]:
    """Read documents from a table in memory, whose columns the options name.

    A table is a pandas or polars DataFrame, a polars LazyFrame, an Arrow table, stream or data set, a `datasets`
    Dataset, or a DatasetDict, of which `options.split` is read; anything else with `__arrow_c_stream__` or
    `__dataframe__` will do. Labels are lists or arrays of strings or integers, or strings as in CSV; the
    classes of `datasets` get their names. A document without an id has the number of its row, from 1.
    """
    where = type(table).__name__
    return skip_errors(_iterate_documents(table, where, options, with_labels), where, options, report)


def _iterate_documents(
    table: Any, where: str, options: ReadOptions, with_labels: bool
) -> Iterator[Document | DataError]:
    import pyarrow as pa

    try:
        opened = _open_table(table, options, with_labels)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    if with_labels:
        opened = opened._replace(records=_convert_labels(opened.records, options.label_field))
    try:
        yield from rows_to_documents(opened, where, options, with_labels)
    except pa.ArrowException as failure:
        raise DataError(f"{where}: the table cannot be read ({' '.join(str(failure).split())[:80]}).") from failure


def _convert_labels(records: Iterable[dict[str, Any]], field: str) -> Iterator[dict[str, Any]]:
    """Convert arrays and tuples of labels to lists, and the numbers of numpy to those of Python."""
    for record in records:
        value = record[field]
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, tuple | list):
            value = [label.item() if hasattr(label, "item") else label for label in value]
        record[field] = value
        yield record


def _open_table(table: Any, options: ReadOptions, with_labels: bool) -> Rows:
    if isinstance(table, Mapping) and all(hasattr(part, "column_names") for part in table.values()):
        if options.split not in table:
            raise DataError(f"there is no {options.split!r}, got {show(list(table))}. Give one of them.")
        table = table[options.split]
    if hasattr(table, "with_format") and hasattr(table, "iter"):
        return _open_dataset(table, options, with_labels)
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        columns = select_columns([str(name) for name in table.columns], options, with_labels)
        return Rows(_iterate_frame(table, columns))
    if hasattr(table, "collect_schema") and hasattr(table, "collect"):
        columns = select_columns(table.collect_schema().names(), options, with_labels)
        table = table.select(columns).collect()
    if hasattr(table, "scanner"):
        columns = select_columns(table.schema.names, options, with_labels)
        table = table.scanner(columns=columns)  # of a data set on disk, only these are read
    reader = _open_arrow(table)
    columns = select_columns(reader.schema.names, options, with_labels)
    return Rows(iterate_records(reader, columns), find_metadata_classes(reader.schema, options.label_field))


def _open_dataset(table: Any, options: ReadOptions, with_labels: bool) -> Rows:
    """Open a data set of `datasets`; its own iteration knows the order of its rows."""
    batches = iter(table.with_format("arrow").iter(batch_size=BATCH_ROWS))
    first = next(batches, None)
    if first is None:
        return Rows([])
    columns = select_columns(first.column_names, options, with_labels)
    records = (record for batch in chain([first], batches) for record in iterate_records(batch.to_batches(), columns))

    # The labels may be a list of classes, described by a list of one or by an object.
    feature = table.features.get(options.label_field) if isinstance(table.features, Mapping) else None
    for _ in range(2):
        feature = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", feature)
    names = getattr(feature, "names", None)
    return Rows(records, list(names) if isinstance(names, list | tuple) else None)


def _iterate_frame(frame: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(frame), BATCH_ROWS):
        part = frame.iloc[start : start + BATCH_ROWS]
        values = [part[name].tolist() for name in columns]
        for row in zip(*values, strict=True):
            yield dict(zip(columns, row, strict=True))


def _open_arrow(table: Any) -> Any:
    import pyarrow as pa

    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table)
    if hasattr(table, "to_reader"):
        return table.to_reader()
    if hasattr(table, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(table).to_reader()
    raise DataError("not a table. Give a pandas, polars or Arrow table, or a data set of datasets.")
