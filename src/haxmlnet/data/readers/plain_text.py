"""Plain text, for prediction: one document a line."""

from __future__ import annotations

from collections.abc import Iterator

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.json_lines import decode
from haxmlnet.data.readers.source import Source
from haxmlnet.errors import DataError


def read_plain_text(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read one document a line; a blank line is an empty document, so that results match lines."""
    if with_labels:
        raise source.error("plain text has no labels. Give JSON lines, CSV or TSV.")
    for number, line in source.lines():
        try:
            text = decode(line)
        except DataError as error:
            yield source.error(error, number)
        else:
            yield Document(str(number), text.rstrip("\r\n"), ())
