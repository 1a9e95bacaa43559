"""Rows of Arrow tables to documents: which columns are needed, what types they may have, how a row is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import missing_field, refuse_half_characters, show, to_document
from haxmlnet.data.readers.tables import label_cell
from haxmlnet.errors import DataError

BATCH_ROWS = 1_000
_METADATA_KEY = b"huggingface"
NO_CLASS = -1


def needed_columns(names: list[str], options: ReadOptions, with_labels: bool) -> list[str]:
    """Choose the columns that are needed, if a document can be made from them."""
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


def check_types(schema: Any, columns: list[str], options: ReadOptions, with_labels: bool, has_classes: bool) -> None:
    """Refuse columns whose values cannot be texts or labels."""
    import pyarrow.types as kinds

    for name in columns:
        if name not in (options.id_field, options.label_field):
            _check_type(name, schema.field(name).type, "strings", "--text-field", _is_string)
    if with_labels:
        type_ = schema.field(options.label_field).type
        if not (has_classes and kinds.is_integer(type_)):
            _check_type(options.label_field, type_, "lists of strings, or strings", "--label-field", _is_labels)


def arrow_records(batches: Iterable[Any], columns: list[str]) -> Iterator[dict[str, Any]]:
    """Give rows of record batches as Python values, after a check of every offset and every string."""
    for batch in batches:
        chosen = batch.select(columns)
        for start in range(0, chosen.num_rows, BATCH_ROWS):
            part = chosen.slice(start, BATCH_ROWS)
            part.validate(full=True)
            yield from part.to_pylist()


def row_document(
    record: dict[str, Any], options: ReadOptions, with_labels: bool, number: int, classes: list[str] | None = None
) -> Document:
    """Make a document of a row; `classes` names the labels that are whole numbers."""
    field = options.label_field
    if with_labels:
        value = record[field]
        if classes is not None:
            record[field] = _class_names(value, classes, field)
        elif options.label_separator is None and isinstance(value, str):
            record[field] = label_cell(value, field)
    document = to_document(record, options, with_labels, number)
    refuse_half_characters(document)
    return document


def metadata_classes(schema: Any, field: str) -> list[str] | None:
    """Find the names of classes that `datasets` keeps beside the columns of a table."""
    try:
        features = json.loads((schema.metadata or {})[_METADATA_KEY])["info"]["features"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return feature_classes(features, field)


def feature_classes(features: object, field: str) -> list[str] | None:
    """Find the names of the classes of a column in the description of a data set."""
    feature = features.get(field) if isinstance(features, Mapping) else None
    for _ in range(2):
        if isinstance(feature, list) and len(feature) == 1:
            feature = feature[0]
        elif isinstance(feature, Mapping) and "feature" in feature:
            feature = feature["feature"]
    names = feature.get("names") if isinstance(feature, Mapping) and feature.get("_type") == "ClassLabel" else None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _class_names(value: object, classes: list[str], field: str) -> object:
    if isinstance(value, list):
        return [_class_name(number, classes, field) for number in value]
    if type(value) is int:
        return [] if value == NO_CLASS else [_class_name(value, classes, field)]
    return value


def _class_name(number: object, classes: list[str], field: str) -> object:
    if type(number) is not int:
        return number
    if not 0 <= number < len(classes):
        raise DataError(f"{field!r} has the class {number}, but there are {len(classes)}, from 0. Mend it.")
    return classes[number]


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
