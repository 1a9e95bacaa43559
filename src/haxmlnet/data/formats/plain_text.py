"""Plain text, for prediction: one document a line, which has its number for an id.

first text
second text
"""

from __future__ import annotations

from collections.abc import Iterator

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.lines import read_each_line
from haxmlnet.data.formats.source import Source
from haxmlnet.errors import DataError


def read_plain_text(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read one document a line; a blank line is an empty document, so that results match lines."""
    if with_labels:
        raise source.error("plain text has no labels. Give JSON lines, CSV or TSV.")
    return read_each_line(source, lambda line, number: Document(str(number), line, ()), blank_lines_count=True)


PLAIN_TEXT = Format(read_plain_text, has_ids=False)
