"""From the named fields of a record, as JSON and tables have them, to a `Document`."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.errors import DataError

SHOWN_LENGTH = 60
DEFAULT_ID_FIELD = ReadOptions.id_field
_LIKELY_SEPARATORS = ";|,\t"


def show(value: object) -> str:
    """Show a value as it may stand in a message: on one line and short."""
    shortener = reprlib.Repr()
    shortener.maxstring = shortener.maxother = SHOWN_LENGTH
    shown = shortener.repr(value)
    return shown if len(shown) <= SHOWN_LENGTH else shown[: SHOWN_LENGTH - 3] + "..."


def to_document(record: Mapping[str, object], options: ReadOptions, with_labels: bool, default_id: int) -> Document:
    """Make a document; the errors it raises do not say where, as only the reader knows."""
    parts = (
        _read_id(record, options.id_field, default_id),
        _read_text(record, options.text_field),
        _read_labels(record, options) if with_labels else (),
    )
    # Half the time of Document(*parts), which counts when there are millions.
    return tuple.__new__(Document, parts)


def split_labels(labels: str, separator: str) -> list[str]:
    """Split a string of labels; spaces around a label do not belong to it."""
    if separator.isspace():
        return [label.strip() for label in labels.split(separator) if label.strip()]
    return [label.strip() for label in labels.split(separator)] if labels.strip() else []


def drop_repetitions(labels: Sequence[str]) -> tuple[str, ...]:
    """Keep each label once, where it comes first."""
    return tuple(labels) if len(set(labels)) == len(labels) else tuple(dict.fromkeys(labels))


def refuse_half_characters(*parts: str) -> None:
    """Refuse the lone surrogates that JSON escapes can spell, as nothing can write them again."""
    for part in parts:
        if part.isascii():
            continue
        try:
            part.encode()
        except UnicodeEncodeError as failure:
            around = show(part[max(0, failure.start - 10) : failure.start + 10])
            raise DataError(f"half a surrogate pair is no character, got {around}. Write both halves.") from failure


def missing_field(field: str, there: Iterable[str], flag: str) -> DataError:
    """Make the error for a field that is not there; `flag` is the option that names it."""
    names = reprlib.Repr()
    names.maxlist = 12
    names.maxstring = SHOWN_LENGTH
    return DataError(f"there is no {field!r}, got the fields {names.repr(list(there))}. Use {flag} to name it.")


def _read_id(record: Mapping[str, object], field: str, default_id: int) -> str:
    value = record.get(field)
    if isinstance(value, str):
        return value
    if field not in record:
        if field != DEFAULT_ID_FIELD:
            raise missing_field(field, record, "--id-field")
        return str(default_id)
    if type(value) is int:
        return str(value)
    raise DataError(f"{field!r} must be a string or an integer, got {show(value)}. Fix it or leave it out.")


def _read_text(record: Mapping[str, object], field: str | tuple[str, ...] | None) -> str:
    if field is not None:
        fields = (field,) if isinstance(field, str) else field
        return "\n".join([_read_string(record, part) for part in fields])
    body = record.get("text")
    if not isinstance(body, str):
        body = _read_string(record, "content" if "content" in record and "text" not in record else "text")
    if record.get("title") is None:
        return body
    title = _read_string(record, "title")
    return body if body.startswith(title) else f"{title}\n{body}"


def _read_string(record: Mapping[str, object], field: str) -> str:
    if field not in record:
        raise missing_field(field, record, "--text-field")
    value = record[field]
    if not isinstance(value, str):
        raise DataError(f"{field!r} must be a string, got {show(value)}. Fix it or leave the document out.")
    return value


def _read_labels(record: Mapping[str, object], options: ReadOptions) -> tuple[str, ...]:
    field = options.label_field
    value = record.get(field)
    if type(value) is list:
        try:
            if all(map(str.strip, value)):
                return drop_repetitions(value)
        except TypeError:  # one is no string
            pass
    if field not in record:
        raise missing_field(field, record, "--label-field")

    if isinstance(value, str) and options.label_separator:
        value = split_labels(value, options.label_separator)
    if not isinstance(value, list):
        advice = "Write [] for a document without labels."
        if isinstance(value, str):
            separator = next((mark for mark in _LIKELY_SEPARATORS if mark in value), _LIKELY_SEPARATORS[0])
            advice = f"Use --label-separator {separator!r} for strings."
        raise DataError(f"{field!r} must be a list of strings, got {show(value)}. {advice}")
    labels = []
    for label in value:
        if type(label) is not int and not isinstance(label, str):
            raise DataError(f"{field!r} must be a list of strings, but one is {show(label)}. Make it a string.")
        if isinstance(label, str) and not label.strip():
            raise DataError(f"{field!r} has an empty label, got {show(value)}. Leave empty labels out.")
        labels.append(str(label))
    return drop_repetitions(labels)
