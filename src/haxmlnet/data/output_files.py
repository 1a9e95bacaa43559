"""Files to write: each is complete or not there; plain or compressed; several take their places together."""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from haxmlnet.errors import DataError


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; it takes the place of `path` if all went well.

    After an exception `path` is as it was. Devices and pipes such as /dev/stdout are written to directly.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file() and not target.is_dir():
        yield target
        return
    temporary = target.with_name(f".tmp-{secrets.token_hex(6)}{target.suffix}")
    with _explain_failures(path):
        if target.is_dir():
            raise DataError(f"{path}: cannot be written: it is a directory. Give a file name.")
        temporary.touch()
    try:
        yield temporary
        with _explain_failures(path):
            # Without a flush to the disk, a power cut may leave the new name with an empty file behind it.
            with open(temporary, "rb+") as stream:
                os.fsync(stream.fileno())
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _explain_failures(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        raise DataError(f"{path}: cannot be written: {failure.strerror or failure}. Check the folder.") from failure


@contextmanager
def open_outputs(paths: Iterable[Path]) -> Iterator[list[BinaryIO]]:
    """Open files that take their places together, the last one first, when all are complete; .gz and .zst compress."""
    with ExitStack() as replacing:
        temporaries = [replacing.enter_context(replace_file(path)) for path in paths]
        with ExitStack() as streams:
            yield [streams.enter_context(_open_packed(temporary)) for temporary in temporaries]


@contextmanager
def _open_packed(path: Path) -> Iterator[BinaryIO]:
    with open(path, "wb") as stream:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") as packed:
                yield cast(BinaryIO, packed)
        elif path.suffix == ".zst":
            import pyarrow as pa

            with pa.CompressedOutputStream(pa.PythonFile(stream, mode="w"), "zstd") as packed:
                yield packed
        else:
            yield stream
