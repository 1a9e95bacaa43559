"""Rows of Arrow tables to documents and back: the columns needed, their types, and the names of classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.csv_tsv import parse_label_cell
from haxmlnet.data.formats.fields import missing_field, refuse_half_characters, show, to_document
from haxmlnet.errors import DataError

BATCH_ROWS = 1_000
_ROWS_WRITTEN_AT_ONCE = 10_000
_METADATA_KEY = b"huggingface"
_NO_CLASS = -1


class Rows(NamedTuple):
    """The rows of a table as Python values, in the columns that are needed."""

    records: Iterable[dict[str, Any]]
    classes: list[str] | None = None
    """The names of the labels that are integers."""


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


def select_columns(names: list[str], options: ReadOptions, with_labels: bool) -> list[str]:
    """Select the columns that are needed, if a document can be made from them."""
    text_fields = options.text_field or ("text", "title", "content")
    texts = {text_fields} if isinstance(text_fields, str) else set(text_fields)
    wanted = {*texts, options.id_field} | ({options.label_field} if with_labels else set())
    twice = [name for name in names if name in wanted and names.count(name) > 1]
    if twice:
        raise DataError(f"there are several columns {twice[0]!r}. Rename all but one.")
    to_document(dict.fromkeys(names, ""), options, False, 0)
    if with_labels and options.label_field not in names:
        raise missing_field(options.label_field, names, "--label-field")
    return [name for name in names if name in wanted]


def select_typed_columns(
    schema: Any, options: ReadOptions, with_labels: bool, has_classes: bool, where: str
) -> list[str]:
    """Select the columns that are needed, and refuse those whose values cannot be texts or labels."""
    import pyarrow.types as types

    def check_type(name: str, wanted: str, flag: str, is_right: Callable[[Any], bool]) -> None:
        type_ = schema.field(name).type
        if not is_right(type_):
            raise DataError(f"the column {name!r} must hold {wanted}, got {show(str(type_))}. Use {flag} for another.")

    try:
        columns = select_columns(schema.names, options, with_labels)
        for name in columns:
            if name not in (options.id_field, options.label_field):
                check_type(name, "strings", "--text-field", _is_string)
        if with_labels and not (has_classes and types.is_integer(schema.field(options.label_field).type)):
            check_type(options.label_field, "lists of strings, or strings", "--label-field", _is_labels)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    return columns


def iterate_records(batches: Iterable[Any], columns: list[str]) -> Iterator[dict[str, Any]]:
    """Yield rows of record batches as Python values, after a check of every offset and every string."""
    for batch in batches:
        chosen = batch.select(columns)
        for start in range(0, chosen.num_rows, BATCH_ROWS):
            part = chosen.slice(start, BATCH_ROWS)
            part.validate(full=True)
            yield from part.to_pylist()


def rows_to_documents(
    rows: Rows, where: str, options: ReadOptions, with_labels: bool, n_before: int = 0
) -> Iterator[Document | DataError]:
    """Make a document of each row; its default id counts the rows of the files before this one, too."""
    field = options.label_field
    for number, record in enumerate(rows.records, start=1):
        try:
            if with_labels and rows.classes is not None:
                record[field] = _name_classes(record[field], rows.classes, field)
            elif with_labels and options.label_separator is None and isinstance(record[field], str):
                record[field] = parse_label_cell(record[field], field)
            document = to_document(record, options, with_labels, n_before + number)
            refuse_half_characters(document.text, document.id, *document.labels)
        except DataError as error:
            yield DataError(f"{where}:{number}: {error}")
        else:
            yield document


def find_metadata_classes(schema: Any, field: str) -> list[str] | None:
    """Find the names of classes that `datasets` stores beside the columns of a table."""
    try:
        features = json.loads((schema.metadata or {})[_METADATA_KEY])["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return find_classes(features, field)


def find_classes(features: object, field: str) -> list[str] | None:
    """Find the names of the classes of a column in the description of a data set."""
    feature = features.get(field) if isinstance(features, Mapping) else None
    for _ in range(2):
        if isinstance(feature, list) and len(feature) == 1:
            feature = feature[0]
        elif isinstance(feature, Mapping) and "feature" in feature:
            feature = feature["feature"]
    names = feature.get("names") if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel" else None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _name_classes(value: object, classes: list[str], field: str) -> object:
    if type(value) is int:
        value = [] if value == _NO_CLASS else [value]
    if not isinstance(value, list):
        return value
    for number in value:
        if type(number) is int and not 0 <= number < len(classes):
            raise DataError(f"{field!r} has the class {number}, but there are {len(classes)}, from 0. Fix it.")
    return [classes[number] if type(number) is int else number for number in value]


def _is_string(type_: Any) -> bool:
    import pyarrow.types as types

    if types.is_dictionary(type_):
        return _is_string(type_.value_type)
    return types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)


def _is_labels(type_: Any) -> bool:
    import pyarrow.types as types

    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        # A list column without a single label has the type null inside.
        value = type_.value_type
        return _is_string(value) or types.is_integer(value) or types.is_null(value)
    return _is_string(type_)


def make_schema() -> Any:
    """Describe the columns id, text and labels."""
    import pyarrow as pa

    return pa.schema({"id": pa.string(), "text": pa.string(), "labels": pa.list_(pa.string())})


def write_batches(documents: Iterable[Document], writer: Any, schema: Any) -> int:
    """Write documents as record batches, and return their number."""
    import pyarrow as pa

    rows, n_documents = iter(documents), 0
    while group := list(islice(rows, _ROWS_WRITTEN_AT_ONCE)):
        writer.write_batch(pa.RecordBatch.from_pylist([row._asdict() for row in group], schema))
        n_documents += len(group)
    return n_documents
