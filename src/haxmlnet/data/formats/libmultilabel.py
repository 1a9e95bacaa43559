"""LibMultiLabel: three columns with tabs between them, or two without the ids; labels are separated by spaces.

id-1 TAB a b TAB first text
id-2 TAB c TAB second text
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.fields import show
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.lines import check_line, join_labels, read_each_line, refuse_characters, write_lines
from haxmlnet.data.formats.source import Source
from haxmlnet.errors import DataError


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


def write_libmultilabel(documents: Iterable[Document], path: Path) -> int:
    """Write `id TAB label label TAB text`."""

    def make_lines(document: Document) -> list[str]:
        refuse_characters(document.id, "\t\n\r\0", "id")
        refuse_characters(document.text, "\t\n\r\0", "text")
        return [check_line(f"{document.id}\t{join_labels(document.labels)}\t{document.text}")]

    return write_lines(documents, [path], make_lines)


LIBMULTILABEL = Format(read_libmultilabel, write_libmultilabel, likely_files=("{split}.txt",))
