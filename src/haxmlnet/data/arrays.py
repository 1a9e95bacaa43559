"""Arrays that grow at their end and are memory-mapped afterwards, and directories of them that are whole or absent."""

from __future__ import annotations

import json
import mmap
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.errors import DataError
from haxmlnet.store import write_text

DESCRIPTION = "arrays.json"
FORMAT = "haxmlnet arrays"
FORMAT_VERSION = 1
Opened = TypeVar("Opened")


class GrowingArray:
    """A one-dimensional array that grows block by block, in memory or in an .npy file.

    The file is open only while a block is written, so that nothing is left to close after a failure.
    """

    def __init__(self, dtype: Any, file: Path | None = None) -> None:
        self.dtype, self.file, self.size = np.dtype(dtype), file, 0
        self._blocks: list[NDArray[Any]] = []
        if file is not None:
            with file.open("wb") as stream:
                self._write_header(stream)

    def append(self, block: NDArray[Any]) -> None:
        """Add numbers at the end; the block must not change afterwards."""
        block = np.ascontiguousarray(block, self.dtype)
        self.size += len(block)
        if self.file is None:
            self._blocks.append(block)
        else:
            with self.file.open("ab") as stream:
                stream.write(block.data)

    def close(self) -> NDArray[Any]:
        """Return the whole array, memory-mapped if it is in a file."""
        if self.file is None:
            return np.concatenate([np.zeros(0, self.dtype), *self._blocks])
        with self.file.open("rb+") as stream:
            self._write_header(stream)
            stream.flush()
            os.fsync(stream.fileno())
        return map_array(self.file)

    def _write_header(self, stream: BinaryIO) -> None:
        # numpy leaves room in the header for the length to grow, so that it can be written again at the end.
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(stream, header)


def write_array(directory: Path | None, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Write a one-dimensional array in one piece, or leave it in memory."""
    if directory is None:
        return array
    growing = GrowingArray(array.dtype, directory / f"{name}.npy")
    growing.append(array)
    return growing.close()


def map_array(file: Path) -> NDArray[Any]:
    """Map an .npy file into memory; what is written to the array stays in this process."""
    try:
        return np.asarray(np.lib.format.open_memmap(file, mode="c"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: damaged, it cannot be mapped into memory ({error}).") from None


def release_pages(*arrays: NDArray[Any]) -> None:
    """Let go of the memory of mapped files that is not needed for a while; when it is, it is read again.

    Nothing may have been written to the arrays. Those that are not mapped stay as they are.
    """
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)


def csr_view(values: NDArray[Any], columns: NDArray[np.int32], bounds: NDArray[Any], n_columns: int) -> sp.csr_array:
    """Make a sparse matrix that shares its arrays; scipy would copy the columns if the bounds had 64 bits."""
    if bounds[-1] < 2**31:
        bounds = bounds.astype(np.int32, copy=False)
    return sp.csr_array((values, columns, bounds), shape=(len(bounds) - 1, n_columns))


def map_bytes(file: Path) -> NDArray[np.uint8]:
    """Map a file of text into memory."""
    if file.stat().st_size == 0:
        return np.zeros(0, np.uint8)
    return np.asarray(np.memmap(file, np.uint8, mode="c"))


def seal(directory: Path, facts: Mapping[str, Any]) -> None:
    """Write the description of a finished directory: facts about it, and the size of each of its files."""
    files = {file.name: file.stat().st_size for file in sorted(directory.iterdir())}
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **facts, "files": files}
    write_text(directory / DESCRIPTION, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_seal(directory: Path) -> dict[str, Any]:
    """Read the facts about a directory of arrays, after comparing the sizes of its files."""
    try:
        content = json.loads((directory / DESCRIPTION).read_text("utf-8"))
        known = content["format"] == FORMAT and content["format_version"] == FORMAT_VERSION
        sizes = {name: (directory / name).stat().st_size for name in content["files"]}
    except FileNotFoundError as error:
        raise DataError(f"{directory}: not whole, {Path(error.filename).name} is missing.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{directory / DESCRIPTION}: damaged, it describes no arrays ({error}).") from None
    if not known:
        raise DataError(f"{directory}: written by another version of haxmlnet.")
    for name, size in content["files"].items():
        if sizes[name] != size:
            raise DataError(f"{directory / name}: damaged, expected {size} bytes, got {sizes[name]}.")
    return dict(content)


def open_or_fill(
    target: Path,
    open_directory: Callable[[Path], Opened],
    fill: Callable[[Path], None],
    say: Callable[[str], None] = lambda line: None,
) -> Opened:
    """Open a directory that an earlier run has made, or fill it; one that is damaged is made anew.

    It is filled under a temporary name, so that another process sees all of it or nothing.
    """
    if target.is_dir():
        try:
            return open_directory(target)
        except DataError as error:
            say(f"{error} It is made anew.")
            remove_directory(target)
    with new_directory_beside(target) as temporary:
        fill(temporary)
    return open_directory(target)


@contextmanager
def new_directory_beside(target: Path) -> Iterator[Path]:
    """Yield a temporary directory to fill; it gets the name `target` unless another process was quicker."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        try:
            temporary.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_directory(directory: Path) -> None:
    """Remove a directory of arrays; to other processes it is gone at once. One that is in use may stay."""
    old = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}.new")
    with suppress(OSError):
        directory.rename(old)
        shutil.rmtree(old, ignore_errors=True)
