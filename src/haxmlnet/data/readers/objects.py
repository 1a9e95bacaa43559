"""Tables in memory to documents: pandas, polars, Arrow, and `datasets`, none of which has to be installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from haxmlnet.data.readers.arrow_rows import BATCH_ROWS, arrow_records, metadata_classes, needed_columns, row_document
from haxmlnet.data.readers.documents import DEFAULT_OPTIONS, Document, ReadOptions, SkipReport
from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.reading import usable_documents
from haxmlnet.errors import DataError


class _Table(NamedTuple):
    """The rows of a table, with the columns that are needed, and the names of its classes."""

    records: Iterable[dict[str, Any]]
    classes: list[str] | None = None


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
    `__dataframe__` will do. Labels are lists or arrays of strings or whole numbers, or strings as in CSV; the
    classes of `datasets` get their names. A document without an id has the number of its row, from 1.
    """
    where = type(table).__name__
    return usable_documents(_documents(table, where, options, with_labels), where, options, report)


def _documents(table: Any, where: str, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    try:
        records, classes = _opened(table, options, with_labels)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    for number, record in enumerate(_explained(records, where), start=1):
        try:
            if with_labels:
                record[options.label_field] = _plain_labels(record[options.label_field])
            yield row_document(record, options, with_labels, number, classes)
        except DataError as error:
            yield DataError(f"{where}:{number}: {error}")


def _opened(table: Any, options: ReadOptions, with_labels: bool) -> _Table:
    if isinstance(table, Mapping) and all(hasattr(part, "column_names") for part in table.values()):
        table = _chosen_split(table, options.split)
    if hasattr(table, "with_format") and hasattr(table, "iter"):
        return _open_dataset(table, options, with_labels)
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        columns = needed_columns([str(name) for name in table.columns], options, with_labels)
        return _Table(_frame_records(table, columns))
    if hasattr(table, "collect_schema") and hasattr(table, "collect"):
        columns = needed_columns(table.collect_schema().names(), options, with_labels)
        table = table.select(columns).collect()
    return _open_arrow(table, options, with_labels)


def _chosen_split(parts: Mapping[str, Any], split: str) -> Any:
    if split not in parts:
        raise DataError(f"there is no {split!r}, got {show(list(parts))}. Give one of them.")
    return parts[split]


def _open_dataset(table: Any, options: ReadOptions, with_labels: bool) -> _Table:
    """Open a data set of `datasets`; its own iteration knows the order of its rows."""
    batches = iter(table.with_format("arrow").iter(batch_size=BATCH_ROWS))
    first = next(batches, None)
    if first is None:
        return _Table([])
    columns = needed_columns(first.column_names, options, with_labels)
    records = (record for batch in chain([first], batches) for record in arrow_records(batch.to_batches(), columns))
    return _Table(records, _object_classes(table.features, options.label_field))


def _object_classes(features: Any, field: str) -> list[str] | None:
    feature = features.get(field) if isinstance(features, Mapping) else None
    for _ in range(2):
        feature = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", feature)
    names = getattr(feature, "names", None)
    return list(names) if isinstance(names, list | tuple) else None


def _frame_records(frame: Any, columns: list[str]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(frame), BATCH_ROWS):
        part = frame.iloc[start : start + BATCH_ROWS]
        values = [part[name].tolist() for name in columns]
        for row in zip(*values, strict=True):
            yield dict(zip(columns, row, strict=True))


def _open_arrow(table: Any, options: ReadOptions, with_labels: bool) -> _Table:
    if hasattr(table, "scanner"):
        columns = needed_columns(table.schema.names, options, with_labels)
        table = table.scanner(columns=columns)  # of a data set on disk, only these are read
    reader = _arrow_reader(table)
    columns = needed_columns(reader.schema.names, options, with_labels)
    return _Table(arrow_records(reader, columns), metadata_classes(reader.schema, options.label_field))


def _arrow_reader(table: Any) -> Any:
    import pyarrow as pa

    if hasattr(table, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(table)
    if hasattr(table, "to_reader"):
        return table.to_reader()
    if hasattr(table, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(table).to_reader()
    raise DataError("not a table. Give a pandas, polars or Arrow table, or a data set of datasets.")


def _explained(records: Iterable[dict[str, Any]], where: str) -> Iterator[dict[str, Any]]:
    import pyarrow as pa

    try:
        yield from records
    except pa.ArrowException as failure:
        raise DataError(f"{where}: the table cannot be read ({' '.join(str(failure).split())[:80]}).") from failure


def _plain_labels(value: Any) -> Any:
    """Give the labels of arrays and tuples as a list, and the numbers of numpy as those of Python."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [label.item() if hasattr(label, "item") else label for label in value]
    return value
