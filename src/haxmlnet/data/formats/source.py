"""An input file, plain, gzip or zstd, or standard input, as numbered lines of bytes."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import cast

from haxmlnet.errors import DataError

STANDARD_INPUT = "-"
BLOCK_SIZE = 1 << 23
PACKED_SUFFIXES = (".gz", ".zst")
_BUFFER_SIZE = 1 << 17
_HEAD_SIZE = 4096
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_PARQUET_MAGIC = b"PAR1"
_ZIP_MAGIC = b"PK\x03\x04"
_FOREIGN_MAGIC = {
    codecs.BOM_UTF16_LE: ("UTF-16 text", "Convert it to UTF-8: iconv -f UTF-16 -t UTF-8"),
    codecs.BOM_UTF16_BE: ("UTF-16 text", "Convert it to UTF-8: iconv -f UTF-16 -t UTF-8"),
    _ZIP_MAGIC: ("a zip archive", "Unpack it first"),
    b"\xfd7zXZ\x00": ("an xz archive", "Unpack it, or compress with gzip"),
    b"BZh91AY&SY": ("a bzip2 archive", "Unpack it, or compress with gzip"),
}


class Source:
    """An open input file: its name for messages, its first bytes, and its lines."""

    def __init__(self, name: str, stream: io.BufferedReader, path: Path | None = None) -> None:
        self.name = name
        self.path = path
        """None for standard input, which has no files beside it."""
        self.n_lines = 0
        self.packing = ""
        self._first: list[bytes] = []
        self._stream: io.BufferedReader | gzip.GzipFile = stream
        with self._explain_failures():
            start = stream.peek(len(_ZSTD_MAGIC))
            if start.startswith(_GZIP_MAGIC):
                self.packing, self._stream = "gzip", gzip.GzipFile(fileobj=stream)
            elif start.startswith(_ZSTD_MAGIC):
                import pyarrow as pa

                self.packing = "zstd"
                unpacked = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")
                self._stream = io.BufferedReader(unpacked, _BUFFER_SIZE)
            self.head = self._stream.peek(_HEAD_SIZE)[:_HEAD_SIZE]
            if self.head.startswith(codecs.BOM_UTF8):
                self._stream.read(len(codecs.BOM_UTF8))
                self.head = self.head.removeprefix(codecs.BOM_UTF8)

        # Text may begin with these four letters, too, but the first page of a table always has NUL bytes.
        self.is_parquet = self.head.startswith(_PARQUET_MAGIC) and b"\0" in self.head
        self.is_matrix = self.head.startswith(_ZIP_MAGIC) and name.endswith(".npz")
        if not self.is_parquet and not self.is_matrix:
            self._check_text()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield each 1-based line number and the line, with its end."""
        first, self._first = self._first, []
        with self._explain_failures():
            for line in chain(first, self._stream):
                self.n_lines += 1
                yield self.n_lines, line

    def line_blocks(self, size: int) -> Iterator[tuple[int, list[bytes]]]:
        """Yield lists of lines of about `size` bytes, each with the 1-based number of its first line.

        Lines of standard input come at once, one by one, as the next may take its time.
        """
        if self.path is None or self.packing:
            yield from self._gather_lines(0 if self.path is None else size)
            return
        block, self._first = self._first, []
        with self._explain_failures():
            while block := block or self._stream.readlines(size):
                first, self.n_lines = self.n_lines + 1, self.n_lines + len(block)
                yield first, block
                block = []

    def _gather_lines(self, size: int) -> Iterator[tuple[int, list[bytes]]]:
        # `readlines` would lose the lines before the place where packed data are damaged.
        block: list[bytes] = []
        missing = size
        try:
            for number, line in self.lines():
                block.append(line)
                missing -= len(line)
                if missing <= 0:
                    yield number - len(block) + 1, block
                    block, missing = [], size
        except DataError:
            yield self.n_lines - len(block) + 1, block
            raise
        if block:
            yield self.n_lines - len(block) + 1, block

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines, megabytes at a time, and the 1-based number of the first; the last line has an end."""
        rest, self._first = b"".join(self._first), []
        at_end = False
        with self._explain_failures():
            while not at_end:
                more, failure = self._read_block()
                at_end = failure is None and len(more) < BLOCK_SIZE
                rest += more
                if at_end and rest and not rest.endswith(b"\n"):
                    rest += b"\n"
                cut = rest.rfind(b"\n") + 1
                if cut:
                    first, self.n_lines = self.n_lines + 1, self.n_lines + rest.count(b"\n", 0, cut)
                    yield first, rest[:cut]
                    rest = rest[cut:]
                if failure is not None:
                    raise failure

    def _read_block(self) -> tuple[bytes, Exception | None]:
        """Read some megabytes; what came before a failure is returned with it, so that its line is known."""
        pieces: list[bytes] = []
        size = 0
        try:
            while size < BLOCK_SIZE and (piece := self._stream.read1(BLOCK_SIZE - size)):
                pieces.append(piece)
                size += len(piece)
        except (EOFError, OSError, zlib.error) as failure:
            return b"".join(pieces), failure
        return b"".join(pieces), None

    def first_line(self) -> bytes:
        """Look at the first line, however long it is; `lines` still begins with it."""
        if not self._first:
            with self._explain_failures():
                self._first = [self._stream.readline()]
        return self._first[0]

    def count_lines(self) -> int:
        """Read the lines that are left, and count all."""
        for _ in self.lines():
            pass
        return self.n_lines

    def error(self, message: object, line: int | None = None) -> DataError:
        """Make an error that begins with where it is."""
        where = self.name if line is None else f"{self.name}:{line}"
        return DataError(f"{where}: {message}")

    def _check_text(self) -> None:
        if not self.head:
            raise self.error("the file is empty. Give a file with at least one document.")
        for magic, (what, remedy) in _FOREIGN_MAGIC.items():
            if self.head.startswith(magic):
                raise self.error(f"the file is {what}, got {magic!r} at its start. {remedy}.")
        if b"\0" in self.head:
            raise self.error("the file is binary (it has NUL bytes). Give UTF-8 text, plain, gzip or zstd.")

    @contextmanager
    def _explain_failures(self) -> Iterator[None]:
        try:
            yield
        except (OSError, EOFError, zlib.error) as failure:
            is_zstd = self.packing == "zstd" and isinstance(failure, OSError) and failure.errno is None
            if isinstance(failure, OSError) and not isinstance(failure, gzip.BadGzipFile) and not is_zstd:
                raise self.error(f"cannot be read: {failure.strerror or failure}.") from failure
            ends_early = isinstance(failure, EOFError) or (is_zstd and "Truncated" in str(failure))
            what = "ends too early after this line" if ends_early else f"is damaged after this line ({failure})"
            raise self.error(
                f"the {self.packing} data {what}. Copy or download the file again.", self.n_lines
            ) from failure


def decode_line(line: bytes) -> str:
    """Decode a line, or say at which byte it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as failure:
        around = line[max(0, failure.start - 10) : failure.start + 10]
        raise DataError(
            f"not UTF-8 at byte {failure.start + 1} of the line, got {around!r}. Convert the file to UTF-8."
        ) from failure


def find_beside(path: Path | None, name: str | None) -> Path | None:
    """Look for a file, plain or packed, in the folder of another one; None where one of them is."""
    if path is None or name is None:
        return None
    candidates = [path.with_name(name + suffix) for suffix in ("", *PACKED_SUFFIXES)]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def require_beside(source: Source, name: str) -> Path:
    """Find the file of the labels in the folder of that of the documents."""
    path = find_beside(source.path, name)
    if path is None:
        raise source.error(f"there is no {name} beside it, where the labels should be. Put it there.")
    return path


def count_mismatch(source: Source, counted: str, labels: str | Path, n_labels: int) -> DataError:
    """Make the error for files of documents and of labels that have different lengths."""
    return source.error(
        f"{counted}, but {n_labels} rows of labels in {Path(labels).name}. Give both a row for each document."
    )


def bare_name(name: str) -> str:
    """Strip a file's name of its folders and of the suffix of its packing."""
    name = Path(name).name
    for suffix in PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


@contextmanager
def open_source(path: str | Path) -> Iterator[Source]:
    """Open a file, or standard input for "-", which stays open afterwards."""
    if str(path) == STANDARD_INPUT:
        buffer = sys.stdin.buffer
        if not isinstance(buffer, io.BufferedReader):
            buffer = io.BufferedReader(cast(io.RawIOBase, buffer))
        yield Source("<stdin>", buffer)
        return
    try:
        stream: io.BufferedReader = io.BufferedReader(io.FileIO(path), _BUFFER_SIZE)
    except (OSError, ValueError) as failure:
        if isinstance(failure, FileNotFoundError):
            reason = "no such file. Check the path"
        elif Path(path).is_dir():
            reason = "is a directory. Give a file"
        else:
            reason = f"cannot be opened: {failure.strerror if isinstance(failure, OSError) else failure}"
        raise DataError(f"{path}: {reason}.") from failure
    with stream:
        yield Source(str(path), stream, Path(path))
