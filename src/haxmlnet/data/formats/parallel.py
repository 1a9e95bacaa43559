"""Two files side by side, as AttentionXML, LightXML and PECOS read them: texts in one, labels in the other.

train_texts.txt (or train_raw_texts.txt):   first text
                                            second text
train_labels.txt:                           a b
                                            c
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.lines import check_line, check_text_line, join_labels, write_lines
from haxmlnet.data.formats.plain_text import read_plain_text
from haxmlnet.data.formats.source import (
    Source,
    bare_name,
    count_mismatch,
    decode_line,
    find_beside,
    open_source,
    require_beside,
)
from haxmlnet.errors import DataError, SettingError

_TEXTS_NAME = re.compile(r"(.*?)(raw_)?texts\.txt")


def name_label_file(texts_name: str) -> str | None:
    """Name the label file that belongs to a file of texts: train_labels.txt for train_raw_texts.txt."""
    match = _TEXTS_NAME.fullmatch(bare_name(texts_name))
    return f"{match[1]}labels.txt" if match else None


def read_parallel(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read a document a line, and its labels, separated by spaces, in the same line of the other file."""
    if not with_labels:
        yield from read_plain_text(source, options, False)
        return
    name = name_label_file(source.name)
    if name is None:
        raise source.error("cannot tell the file of the labels. Name the files NAME_texts.txt and NAME_labels.txt.")
    with open_source(require_beside(source, name)) as label_source:
        for line_of_text, label_line in zip_longest(source.lines(), label_source.lines()):
            if line_of_text is None or label_line is None:
                n_texts, n_labels = source.count_lines(), label_source.count_lines()
                raise count_mismatch(source, f"{n_texts} texts", label_source.name, n_labels)
            number = line_of_text[0]
            try:
                text = decode_line(line_of_text[1]).rstrip("\r\n")
            except DataError as error:
                yield source.error(error, number)
                continue
            try:
                labels = tuple(dict.fromkeys(decode_line(label_line[1]).split()))
            except DataError as error:
                yield label_source.error(error, number)
                continue
            yield Document(str(number), text, labels)


def write_parallel(documents: Iterable[Document], path: Path) -> int:
    """Write the text to one file, and the labels, separated by spaces, to the other."""
    label_name = name_label_file(path.name)
    if label_name is None:
        raise SettingError(
            f"{path}: the file of the texts must be named NAME_texts.txt, for labels in NAME_labels.txt."
        )
    label_path = path.with_name(label_name + path.name.removeprefix(bare_name(path.name)))

    def make_lines(document: Document) -> list[str]:
        return [check_text_line(document.text), check_line(join_labels(document.labels))]

    return write_lines(documents, [path, label_path], make_lines)


PARALLEL = Format(
    read_parallel,
    write_parallel,
    has_ids=False,
    suffixes=("_texts.txt",),
    find_companions=lambda path: [find_beside(path, name_label_file(path.name))],
    files=("{split}_raw_texts.txt", "{split}_texts.txt"),
)
