"""Two files side by side: texts in one, labels in the other (AttentionXML, LightXML, PECOS)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.json_lines import decode
from haxmlnet.data.readers.label_names import pecos_names_beside
from haxmlnet.data.readers.matrices import load_targets
from haxmlnet.data.readers.plain_text import read_plain_text
from haxmlnet.data.readers.source import Source, bare_name, find_beside, open_source
from haxmlnet.errors import DataError

PECOS_NAME = re.compile(r"X\.(.+)\.txt")
_TEXTS_NAME = re.compile(r"(.*?)(raw_)?texts\.txt")


def labels_name(texts_name: str) -> str | None:
    """Name the label file that belongs to a file of texts: train_labels.txt for train_raw_texts.txt."""
    match = _TEXTS_NAME.fullmatch(bare_name(texts_name))
    return f"{match[1]}labels.txt" if match else None


def read_parallel(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read a document a line, and its labels, separated by spaces, in the same line of the other file."""
    if not with_labels:
        yield from read_plain_text(source, options, False)
        return
    name = labels_name(source.name)
    if name is None:
        raise source.error("cannot tell the file of the labels. Name the files NAME_texts.txt and NAME_labels.txt.")
    with open_source(_beside(source, name)) as labels:
        for text_line, label_line in zip_longest(source.lines(), labels.lines()):
            if text_line is None or label_line is None:
                raise _count_mismatch(source, _count_lines(source), labels.name, _count_lines(labels))
            yield _joined(source, labels, text_line, label_line)


def _joined(
    source: Source, labels: Source, text_line: tuple[int, bytes], label_line: tuple[int, bytes]
) -> Document | DataError:
    number = text_line[0]
    try:
        text = decode(text_line[1]).rstrip("\r\n")
    except DataError as error:
        return source.error(error, number)
    try:
        return Document(str(number), text, tuple(dict.fromkeys(decode(label_line[1]).split())))
    except DataError as error:
        return labels.error(error, number)


def read_pecos(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read X.trn.txt, a document a line, with the matrix of its labels in Y.trn.npz."""
    if not with_labels:
        yield from read_plain_text(source, options, False)
        return
    match = PECOS_NAME.fullmatch(bare_name(source.name))
    if match is None:
        raise source.error("cannot tell the file of the labels. Name the files X.NAME.txt and Y.NAME.npz.")
    path = _beside(source, f"Y.{match[1]}.npz")
    matrix = load_targets(path)
    names = pecos_names_beside(source.path, matrix.shape[1])
    for document in read_plain_text(source, options, False):
        row = source.n_lines - 1
        if row >= matrix.shape[0]:
            break
        if isinstance(document, Document):
            stored = slice(matrix.indptr[row], matrix.indptr[row + 1])
            columns = dict.fromkeys(matrix.indices[stored][matrix.data[stored] != 0].tolist())
            labels = [str(column) if names is None else names[column] for column in columns]
            document = document._replace(labels=tuple(labels))
        yield document
    n_lines = _count_lines(source)
    if n_lines != matrix.shape[0]:
        raise _count_mismatch(source, n_lines, str(path), matrix.shape[0])


def _beside(source: Source, name: str) -> Path:
    path = find_beside(source.path, name)
    if path is None:
        raise source.error(f"there is no {name} beside it, where the labels should be. Put it there.")
    return path


def _count_lines(source: Source) -> int:
    for _ in source.lines():
        pass
    return source.n_lines


def _count_mismatch(source: Source, n_texts: int, labels: str, n_labels: int) -> DataError:
    return source.error(
        f"{n_texts} texts, but {n_labels} rows of labels in {Path(labels).name}. Give both a row for each document."
    )
