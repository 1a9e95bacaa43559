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
_BUFFER_SIZE = 1 << 17
_HEAD_SIZE = 4096
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_PARQUET_MAGIC = b"PAR1"
_ZIP_MAGIC = b"PK\x03\x04"
_MATRIX_SUFFIX = ".npz"
BLOCK_SIZE = 1 << 23
PACKED_SUFFIXES = (".gz", ".zst")
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
            self._unpack(stream)
            self.head = self._stream.peek(_HEAD_SIZE)[:_HEAD_SIZE]
            if self.head.startswith(codecs.BOM_UTF8):
                self._stream.read(len(codecs.BOM_UTF8))
                self.head = self.head.removeprefix(codecs.BOM_UTF8)
        # Text may begin with these four letters, too, but the first page of a table always has NUL bytes.
        self.is_parquet = self.head.startswith(_PARQUET_MAGIC) and b"\0" in self.head
        self.is_matrix = self.head.startswith(_ZIP_MAGIC) and name.endswith(_MATRIX_SUFFIX)
        if not self.is_parquet and not self.is_matrix:
            self._refuse_what_is_not_text()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Give each line, with its end, and its 1-based number."""
        first, self._first = self._first, []
        with self._explain_failures():
            for line in chain(first, self._stream):
                self.n_lines += 1
                yield self.n_lines, line

    def line_blocks(self, size: int) -> Iterator[tuple[int, list[bytes]]]:
        """Give lines, some together until they have `size` bytes, and the 1-based number of the first.

        Lines of standard input come at once, one by one, as the next may take its time.
        """
        if self.path is None or self.packing:
            yield from self._gathered_lines(0 if self.path is None else size)
            return
        block, self._first = self._first, []
        with self._explain_failures():
            while block := block or self._stream.readlines(size):
                first, self.n_lines = self.n_lines + 1, self.n_lines + len(block)
                yield first, block
                block = []

    def _gathered_lines(self, size: int) -> Iterator[tuple[int, list[bytes]]]:
        # Reading many lines at once would lose those before the place where packed data are damaged.
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
        """Give whole lines, many at a time, and the 1-based number of the first; the last line always has an end."""
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
        """Read some megabytes; what came before a failure is given with it, so that its line is known."""
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

    def error(self, message: object, line: int | None = None) -> DataError:
        """Make an error that begins with where it is."""
        where = self.name if line is None else f"{self.name}:{line}"
        return DataError(f"{where}: {message}")

    def _unpack(self, stream: io.BufferedReader) -> None:
        start = stream.peek(len(_ZSTD_MAGIC))
        if start.startswith(_GZIP_MAGIC):
            self.packing, self._stream = "gzip", gzip.GzipFile(fileobj=stream)
        elif start.startswith(_ZSTD_MAGIC):
            import pyarrow as pa

            self.packing = "zstd"
            unpacked = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")
            self._stream = io.BufferedReader(unpacked, _BUFFER_SIZE)

    def _refuse_what_is_not_text(self) -> None:
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
            if self.packing == "zstd" and failure.errno is None:
                raise self._damaged_zstd(failure) from failure
            raise self.error(f"cannot be read: {failure.strerror or failure}.") from failure

    def _damaged_zstd(self, failure: OSError) -> DataError:
        what = "ends too early" if "Truncated" in str(failure) else "is damaged"
        return self.error(f"the zstd data {what} after this line. Copy or download the file again.", self.n_lines)


def find_beside(path: Path | None, name: str) -> Path | None:
    """Look for a file, plain or packed, in the folder of another one."""
    if path is None:
        return None
    candidates = [path.with_name(name + suffix) for suffix in ("", *PACKED_SUFFIXES)]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def bare_name(name: str) -> str:
    """Give a file's name without its folders and without the suffix of its packing."""
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
    with _open_file(path) as stream:
        yield Source(str(path), stream, Path(path))


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
