"""Many records to documents at once, column by column: what is usual in a fraction of the time it takes one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import DEFAULT_ID_FIELD, without_repetitions

Record = dict[str, Any]
_STRINGS, _LISTS, _NOTHING = {str}, {list}, {type(None)}


def to_documents(
    records: Sequence[Record], numbers: Sequence[int], options: ReadOptions, with_labels: bool
) -> list[Document] | None:
    """Make the documents that `to_document` makes, or None where one of the records needs a closer look."""
    ids = _ids(records, options.id_field, numbers)
    texts = _texts(records, options.text_field)
    labels: Any = _labels(records, options.label_field) if with_labels else repeat(())
    if ids is None or texts is None or labels is None:
        return None
    return list(map(tuple.__new__, repeat(Document), zip(ids, texts, labels)))  # noqa: B905 - labels may be endless


def _column(records: Sequence[Record], field: str) -> list[Any]:
    return list(map(dict.get, records, repeat(field)))


def _has(records: Sequence[Record], field: str) -> bool:
    return any(map(dict.__contains__, records, repeat(field)))


def _ids(records: Sequence[Record], field: str, numbers: Sequence[int]) -> list[str] | None:
    ids = _column(records, field)
    if set(map(type, ids)) == _STRINGS:
        return ids
    if field == DEFAULT_ID_FIELD and not _has(records, field):
        return list(map(str, numbers))
    return None


def _texts(records: Sequence[Record], field: str | tuple[str, ...] | None) -> list[str] | None:
    if field is None:
        bodies = _strings(records, "text" if _has(records, "text") else "content")
        return bodies if bodies is None or not _has(records, "title") else _with_titles(records, bodies)
    if isinstance(field, str):
        return _strings(records, field)
    columns = [_strings(records, part) for part in field]
    complete = [column for column in columns if column is not None]
    return list(map("\n".join, zip(*complete, strict=True))) if len(complete) == len(columns) else None


def _strings(records: Sequence[Record], field: str) -> list[str] | None:
    values = _column(records, field)
    return values if set(map(type, values)) == _STRINGS else None


def _with_titles(records: Sequence[Record], bodies: list[str]) -> list[str] | None:
    titles = _column(records, "title")
    if not set(map(type, titles)) <= _STRINGS | _NOTHING:
        return None
    return [
        body if title is None or body.startswith(title) else f"{title}\n{body}"
        for title, body in zip(titles, bodies, strict=True)
    ]


def _labels(records: Sequence[Record], field: str) -> list[tuple[str, ...]] | None:
    lists = _column(records, field)
    if set(map(type, lists)) != _LISTS:
        return None
    try:
        if not all(map(str.strip, chain.from_iterable(lists))):
            return None
    except TypeError:  # one is no string
        return None
    if list(map(len, map(set, lists))) == list(map(len, lists)):
        return list(map(tuple, lists))
    return list(map(without_repetitions, lists))
