"""Formats with one document a line: fastText, LibMultiLabel and Annif's TSV; and what they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.json_lines import decode
from haxmlnet.data.readers.source import Source
from haxmlnet.errors import DataError

FASTTEXT_PREFIX = "__label__"
# Not \s: fastText splits words at these characters only.
_FASTTEXT_LABEL = re.compile(rf"[ \t\v\f\0]*{FASTTEXT_PREFIX}([^ \t\v\f\0]*)")
_FASTTEXT_WORD = re.compile(r"[^ \t\v\f\0]+")


def read_each_line(
    source: Source, parse: Callable[[str, int], Document], blank_lines_count: bool = False
) -> Iterator[Document | DataError]:
    """Make a document of each line, without its end, and its number."""
    for number, line in source.lines():
        if not blank_lines_count and not line.strip(b" \r\n"):
            continue
        try:
            yield parse(decode(line).rstrip("\r\n"), number)
        except DataError as error:
            yield source.error(error, number)


def read_fasttext(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read `__label__a __label__b text`; labels may stand after the text, too."""

    def parse(line: str, number: int) -> Document:
        labels, text = _split_fasttext(line)
        if not all(label.strip() for label in labels):
            raise DataError(f"'{FASTTEXT_PREFIX}' has no name after it, got {show(line)}. Name it or leave it out.")
        return Document(str(number), text, tuple(dict.fromkeys(labels)) if with_labels else ())

    return read_each_line(source, parse)


def _split_fasttext(line: str) -> tuple[list[str], str]:
    labels: list[str] = []
    end = 0
    while match := _FASTTEXT_LABEL.match(line, end):
        labels.append(match[1])
        end = match.end()
    text = line[end + 1 :] if labels else line
    if FASTTEXT_PREFIX not in text:
        return labels, text
    words = _FASTTEXT_WORD.findall(text)
    late = [word.removeprefix(FASTTEXT_PREFIX) for word in words if word.startswith(FASTTEXT_PREFIX)]
    if late:
        text = " ".join([word for word in words if not word.startswith(FASTTEXT_PREFIX)])
    return labels + late, text


def read_libmultilabel(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read `[id TAB] label label TAB text`; the first line tells whether there are ids."""
    n_columns = 0

    def parse(line: str, number: int) -> Document:
        nonlocal n_columns
        cells = line.split("\t")
        if not n_columns and len(cells) in (2, 3):
            n_columns = len(cells)
        if len(cells) != n_columns:
            wanted = f"{n_columns} columns, as in the first line" if n_columns else "2 or 3 columns"
            raise DataError(
                f"expected {wanted}, got {len(cells)} in {show(line)}. "
                "Write [id TAB] labels TAB text, without a tab in the text."
            )
        labels = tuple(dict.fromkeys(cells[-2].split())) if with_labels else ()
        return Document(cells[0] if n_columns == 3 else str(number), cells[-1], labels)

    return read_each_line(source, parse)


def read_annif_tsv(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read `text TAB <uri> <uri>`, which has no header."""

    def parse(line: str, number: int) -> Document:
        text, tab, uris = line.partition("\t")
        if not tab:
            raise DataError(f"there is no tab, got {show(line)}. Write text TAB <uri> <uri>.")
        return Document(str(number), text, tuple(split_uris(uris)) if with_labels else ())

    return read_each_line(source, parse)


def split_uris(uris: str) -> list[str]:
    """Split URIs at spaces; the angle brackets around them are optional."""
    bare = [bare_uri(uri) for uri in uris.split()]
    if "" in bare:
        raise DataError(f"there is an empty <>, got {show(uris)}. Leave empty URIs out.")
    return list(dict.fromkeys(bare))


def bare_uri(uri: str) -> str:
    """Take the angle brackets off a URI."""
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri
