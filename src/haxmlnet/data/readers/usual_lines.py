"""JSON lines in which all is usual to documents, many lines at once, in a fraction of the time one by one takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import DEFAULT_ID_FIELD, without_repetitions

_STRING, _INTEGER, _ABSENT, _ABSENT_OR_NULL = {str}, {int}, {UnsetType}, {UnsetType, type(None)}


class UsualLines:
    """Reads lines whose fields are of the types they should be; the library checks them as it reads."""

    def __init__(self, options: ReadOptions, with_labels: bool) -> None:
        self.may_lack_ids = options.id_field == DEFAULT_ID_FIELD
        self.with_labels = with_labels
        self.text_names, fields = _text_fields(options.text_field)
        fields.append(("identity", str | int | UnsetType, _field(options.id_field, UNSET)))
        if with_labels:
            fields.append(("labels", tuple[str, ...], _field(options.label_field)))
        self._decode_these = _decoder(fields, forbid_others=True)
        self._decode_among_others = _decoder(fields, forbid_others=False)
        self._has_others = False

    @classmethod
    def of(cls, options: ReadOptions, with_labels: bool) -> UsualLines | None:
        """Make the reader, unless one field is to be two things at once."""
        fields = options.text_field if isinstance(options.text_field, tuple) else (options.text_field,)
        names = [options.id_field, *(("text", "content", "title") if fields == (None,) else fields)]
        names += [options.label_field] if with_labels else []
        return cls(options, with_labels) if len(set(names)) == len(names) else None

    def read(self, lines: list[bytes], first: int) -> list[Document] | None:
        """Give the documents of lines, the first of which has a number; None if one line needs a closer look."""
        records = self._decoded(lines)
        if records is None:
            return None
        ids, texts = self._ids(records, first), self._texts(records)
        labels = _different_labels([record.labels for record in records]) if self.with_labels else repeat(())
        if ids is None or texts is None or labels is None:
            return None
        return list(map(tuple.__new__, repeat(Document), zip(ids, texts, labels, strict=False)))

    def _decoded(self, lines: list[bytes]) -> list[Any] | None:
        if not self._has_others:
            with suppress(ValueError, RecursionError):
                return list(map(self._decode_these, lines))
        try:
            # The library does not look into the strings of other fields.
            _check_encoding(lines)
            records = list(map(self._decode_among_others, lines))
        except (ValueError, RecursionError):
            return None
        self._has_others = True
        return records

    def _ids(self, records: list[Any], first: int) -> Iterable[str] | None:
        ids = [record.identity for record in records]
        types = set(map(type, ids))
        if types == _STRING:
            return ids
        if types == _INTEGER:
            return map(str, ids)
        if types == _ABSENT and self.may_lack_ids:
            return map(str, range(first, first + len(ids)))
        return None

    def _texts(self, records: list[Any]) -> Iterable[str] | None:
        if self.text_names is None:
            return _titled_texts(records)
        parts: Iterable[Any] = map(attrgetter(*self.text_names), records)
        return parts if len(self.text_names) == 1 else map("\n".join, parts)


def _decoder(fields: list[tuple[str, Any, Any]], *, forbid_others: bool) -> Callable[[bytes], Any]:
    record = msgspec.defstruct("Line", fields, kw_only=True, gc=False, forbid_unknown_fields=forbid_others)
    return msgspec.json.Decoder(record).decode


def _field(name: str, *default: Any) -> Any:
    return msgspec.field(name=name, default=default[0]) if default else msgspec.field(name=name)


def _text_fields(field: str | tuple[str, ...] | None) -> tuple[list[str] | None, list[tuple[str, Any, Any]]]:
    if field is None:
        optional = {"text": str | UnsetType, "content": str | UnsetType, "title": str | None | UnsetType}
        return None, [(name, kind, _field(name, UNSET)) for name, kind in optional.items()]
    fields = (field,) if isinstance(field, str) else field
    names = [f"text_{i}" for i in range(len(fields))]
    return names, [(name, str, _field(field)) for name, field in zip(names, fields, strict=True)]


def _check_encoding(lines: list[bytes]) -> None:
    for line in lines:
        if not line.isascii():
            line.decode()


def _titled_texts(records: list[Any]) -> list[str] | None:
    texts = [record.text for record in records]
    if set(map(type, texts)) == _ABSENT:
        texts = [record.content for record in records]
    if set(map(type, texts)) != _STRING:
        return None
    titles = [record.title for record in records]
    if set(map(type, titles)) <= _ABSENT_OR_NULL:
        return texts
    return [
        f"{title}\n{text}" if isinstance(title, str) and not text.startswith(title) else text
        for title, text in zip(titles, texts, strict=True)
    ]


def _different_labels(labels: list[tuple[str, ...]]) -> list[tuple[str, ...]] | None:
    if not all(map(str.strip, chain.from_iterable(labels))):
        return None
    if any([len(some) > 1 and len(set(some)) < len(some) for some in labels]):  # noqa: C419 - a list is faster
        return list(map(without_repetitions, labels))
    return labels
