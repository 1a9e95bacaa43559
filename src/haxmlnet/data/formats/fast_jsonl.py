"""JSON lines whose fields have the usual types, decoded many at once in a fraction of the time one by one takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.fields import DEFAULT_ID_FIELD, drop_repetitions

_STRING, _INTEGER, _ABSENT, _ABSENT_OR_NULL = {str}, {int}, {UnsetType}, {UnsetType, type(None)}
_DEFAULT_TEXTS = {"text": str | UnsetType, "content": str | UnsetType, "title": str | None | UnsetType}


class FastDecoder:
    """Decodes lines whose fields are of the types they should be; msgspec checks them as it reads."""

    def __init__(self, options: ReadOptions, with_labels: bool) -> None:
        self.may_lack_ids = options.id_field == DEFAULT_ID_FIELD
        self.with_labels = with_labels
        self.text_names: list[str] | None = None
        fields: list[tuple[str, Any, Any]]
        if options.text_field is None:
            fields = [(name, type_, msgspec.field(name=name, default=UNSET)) for name, type_ in _DEFAULT_TEXTS.items()]
        else:
            texts = (options.text_field,) if isinstance(options.text_field, str) else options.text_field
            self.text_names = [f"text_{i}" for i in range(len(texts))]
            fields = [(name, str, msgspec.field(name=text)) for name, text in zip(self.text_names, texts, strict=True)]
        fields.append(("identity", str | int | UnsetType, msgspec.field(name=options.id_field, default=UNSET)))
        if with_labels:
            fields.append(("labels", tuple[str, ...], msgspec.field(name=options.label_field)))
        self._decode_these = _make_decoder(fields, forbid_others=True)
        self._decode_among_others = _make_decoder(fields, forbid_others=False)
        self._has_others = False

    @classmethod
    def of(cls, options: ReadOptions, with_labels: bool) -> FastDecoder | None:
        """Make the decoder, unless one field is to be two things at once."""
        texts = options.text_field or tuple(_DEFAULT_TEXTS)
        names = [options.id_field, *((texts,) if isinstance(texts, str) else texts)]
        names += [options.label_field] if with_labels else []
        return cls(options, with_labels) if len(set(names)) == len(names) else None

    def read(self, lines: list[bytes], first: int) -> list[Document] | None:
        """Read the documents of lines, the first of which has a number; None if one line needs a closer look."""
        records = self._decode(lines)
        if records is None:
            return None
        ids, texts = self._read_ids(records, first), self._read_texts(records)
        if ids is None or texts is None:
            return None

        labels: Iterable[tuple[str, ...]] = repeat(())
        if self.with_labels:
            given = [record.labels for record in records]
            if not all(map(str.strip, chain.from_iterable(given))):
                return None
            repeats = any([len(some) > 1 and len(set(some)) < len(some) for some in given])  # noqa: C419 - faster
            labels = map(drop_repetitions, given) if repeats else given
        return list(map(tuple.__new__, repeat(Document), zip(ids, texts, labels, strict=False)))

    def _decode(self, lines: list[bytes]) -> list[Any] | None:
        if not self._has_others:
            with suppress(ValueError, RecursionError):
                return list(map(self._decode_these, lines))
        try:
            for line in lines:  # msgspec does not look into the strings of other fields
                if not line.isascii():
                    line.decode()
            records = list(map(self._decode_among_others, lines))
        except (ValueError, RecursionError):
            return None
        self._has_others = True
        return records

    def _read_ids(self, records: list[Any], first: int) -> Iterable[str] | None:
        ids = [record.identity for record in records]
        types = set(map(type, ids))
        if types == _STRING:
            return ids
        if types == _INTEGER:
            return map(str, ids)
        if types == _ABSENT and self.may_lack_ids:
            return map(str, range(first, first + len(ids)))
        return None

    def _read_texts(self, records: list[Any]) -> Iterable[str] | None:
        if self.text_names is not None:
            parts: Iterable[Any] = map(attrgetter(*self.text_names), records)
            return parts if len(self.text_names) == 1 else map("\n".join, parts)
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


def _make_decoder(fields: list[tuple[str, Any, Any]], *, forbid_others: bool) -> Callable[[bytes], Any]:
    record = msgspec.defstruct("Line", fields, kw_only=True, gc=False, forbid_unknown_fields=forbid_others)
    return msgspec.json.Decoder(record).decode
