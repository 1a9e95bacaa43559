"""An input file, plain or gzip or standard input, as numbered lines of bytes."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from haxmlnet.errors import DataError

STANDARD_INPUT = "-"
_BUFFER_SIZE = 1 << 17
_HEAD_SIZE = 4096
_GZIP_MAGIC = b"\x1f\x8b"
_FOREIGN_MAGIC = {
    codecs.BOM_UTF16_LE: ("UTF-16 text", "Convert it to UTF-8: iconv -f UTF-16 -t UTF-8"),
    codecs.BOM_UTF16_BE: ("UTF-16 text", "Convert it to UTF-8: iconv -f UTF-16 -t UTF-8"),
    b"PK\x03\x04": ("a zip archive", "Unpack it first"),
    b"\xfd7zXZ\x00": ("an xz archive", "Unpack it, or compress with gzip"),
    b"\x28\xb5\x2f\xfd": ("a zstd archive", "Unpack it, or compress with gzip"),
}


class Source:
    """An open input file: its name for messages, its first bytes, and its lines."""

    def __init__(self, name: str, stream: io.BufferedReader) -> None:
        self.name = name
        self.n_lines = 0
        self._stream: io.BufferedReader | gzip.GzipFile = stream
        with self._explain_failures():
            if stream.peek(2).startswith(_GZIP_MAGIC):
                self._stream = gzip.GzipFile(fileobj=stream)
            self.head = self._stream.peek(_HEAD_SIZE)[:_HEAD_SIZE]
            if self.head.startswith(codecs.BOM_UTF8):
                self._stream.read(len(codecs.BOM_UTF8))
                self.head = self.head.removeprefix(codecs.BOM_UTF8)
        self._refuse_what_is_not_text()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Give each line, with its end, and its 1-based number."""
        with self._explain_failures():
            for line in self._stream:
                self.n_lines += 1
                yield self.n_lines, line

    def error(self, message: object, line: int | None = None) -> DataError:
        """Make an error that begins with where it is."""
        where = self.name if line is None else f"{self.name}:{line}"
        return DataError(f"{where}: {message}")

    def _refuse_what_is_not_text(self) -> None:
        if not self.head:
            raise self.error("the file is empty. Give a file with at least one document.")
        for magic, (what, remedy) in _FOREIGN_MAGIC.items():
            if self.head.startswith(magic):
                raise self.error(f"the file is {what}, got {magic!r} at its start. {remedy}.")
        if b"\0" in self.head:
            raise self.error("the file is binary (it has NUL bytes). Give UTF-8 text, plain or gzip.")

    @contextmanager
    def _explain_failures(self) -> Iterator[None]:
        try:
            yield
        except EOFError as failure:
            raise self.error(
                "the gzip data ends too early after this line. Copy or download the file again.", self.n_lines
            ) from failure
        except (gzip.BadGzipFile, zlib.error) as failure:
            raise self.error(
                f"the gzip data is damaged after this line ({failure}). Copy or download the file again.",
                self.n_lines,
            ) from failure
        except OSError as failure:
            raise self.error(f"cannot be read: {failure.strerror or failure}.") from failure


@contextmanager
def open_source(path: str | Path) -> Iterator[Source]:
    """Open a file, or standard input for "-", which stays open afterwards."""
    if str(path) == STANDARD_INPUT:
        buffer = sys.stdin.buffer
        if not isinstance(buffer, io.BufferedReader):
            buffer = io.BufferedReader(cast(io.RawIOBase, buffer))
        yield Source("<stdin>", buffer)
        return
    with _open_file(path) as stream:
        yield Source(str(path), stream)


def _open_file(path: str | Path) -> io.BufferedReader:
    try:
        return io.BufferedReader(io.FileIO(path), _BUFFER_SIZE)
    except (OSError, ValueError) as failure:
        if isinstance(failure, FileNotFoundError):
            reason = "no such file. Check the path"
        elif Path(path).is_dir():
            reason = "is a directory. Give a file"
        else:
            reason = f"cannot be opened: {failure.strerror if isinstance(failure, OSError) else failure}"
        raise DataError(f"{path}: {reason}.") from failure
