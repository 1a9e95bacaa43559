"""Files to write, plain or compressed, several at once: all of them appear when all are complete."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from haxmlnet.data.writers import replace_file


@contextmanager
def open_all(paths: Iterable[Path]) -> Iterator[list[BinaryIO]]:
    """Open files that take their places together, the last one first, when all are complete."""
    with ExitStack() as replacing:
        temporaries = [replacing.enter_context(replace_file(path)) for path in paths]
        with ExitStack() as streams:
            yield [streams.enter_context(_open(temporary)) for temporary in temporaries]


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
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
