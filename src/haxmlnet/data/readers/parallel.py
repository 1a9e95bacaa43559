"""Two files side by side: texts in one, labels in the other (AttentionXML, LightXML, PECOS)."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.json_lines import decode
from haxmlnet.data.readers.plain_text import read_plain_text
from haxmlnet.data.readers.source import Source, bare_name, find_beside, open_source
from haxmlnet.errors import DataError

PECOS_NAME = re.compile(r"X\.(.+)\.txt")
PECOS_LABEL_NAMES = "output-items.txt"
# What numpy, scipy and zipfile raise for damaged files; they promise no common type.
_MATRIX_FAULTS = (
    OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, SyntaxError, MemoryError, ArithmeticError,
    RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
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
    matrix = _load_matrix(path)
    names = _pecos_label_names(source, matrix.shape[1])
    for document in read_plain_text(source, options, False):
        row = source.n_lines - 1
        if row >= matrix.shape[0]:
            break
        if isinstance(document, Document):
            columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
            document = document._replace(labels=tuple([names[column] for column in columns]))
        yield document
    n_lines = _count_lines(source)
    if n_lines != matrix.shape[0]:
        raise _count_mismatch(source, n_lines, str(path), matrix.shape[0])


def _load_matrix(path: Path) -> Any:
    import scipy.sparse as sp

    try:
        with open(path, "rb") as stream:
            matrix = sp.csr_array(sp.load_npz(stream))
        matrix.check_format(full_check=True)
        if matrix.dtype.kind not in "biuf":
            raise ValueError(f"its values are {matrix.dtype}")
    except _MATRIX_FAULTS as failure:
        reason = " ".join(str(failure).split())[:80]
        raise DataError(
            f"{path}: not a sparse matrix as scipy saves it ({reason}). Make or download it again."
        ) from failure
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _pecos_label_names(source: Source, n_labels: int) -> list[str]:
    path = find_beside(source.path, PECOS_LABEL_NAMES)
    if path is None:
        return [str(i) for i in range(n_labels)]
    with open_source(path) as file:
        names = []
        for number, line in file.lines():
            try:
                names.append(decode(line).rstrip("\r\n"))
            except DataError as error:
                raise file.error(error, number) from error
        if len(names) != n_labels or len(set(names)) != n_labels or not all(name.strip() for name in names):
            raise file.error(f"expected {n_labels} different names, one a line, got {len(set(names))}. Mend the file.")
    return names


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
