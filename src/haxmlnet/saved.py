"""`SavedModel`: reading a model directory. Every file is read once, and checked as it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from haxmlnet.errors import ModelError
from haxmlnet.store import FORMAT, FORMAT_VERSION, HEADER, json_checksum, put_back, unescape_lines

# The dtypes of safetensors that numpy has as well.
_DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
    "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16, "F32": np.float32, "F64": np.float64,
}  # fmt: skip
# Reading and hashing need no GIL, but after each chunk the thread waits to take it again.
_CHUNK_BYTES = 2**24
_ALIGNMENT = 64

Bytes = NDArray[np.uint8]


class SavedModel:
    """The files of a saved model, in memory: what was checked is what is used, even if the files change later."""

    def __init__(self, path: str | Path) -> None:
        self.directory = Path(path)
        self.header = _read_header(self.directory)
        self._contents: dict[str, Bytes] = {}

    def fetch(self) -> SavedModel:
        """Read every file and compare it with its size and checksum in model.json.

        Most of this runs without the GIL, so that another thread can import meanwhile.
        """
        for name, expected in self.header["files"].items():
            self._contents[name] = _read_checked(self.directory / name, expected)
        return self

    def __contains__(self, name: str) -> bool:
        """Return whether the model has a file of this name."""
        return name in self.header["files"]

    def file(self, name: str) -> Path:
        """Return the path of a file, for messages."""
        return self.directory / name

    def text(self, name: str) -> str:
        """Return the text of a file."""
        return self._take(name).tobytes().decode("utf-8")

    def lines(self, name: str) -> list[str]:
        """Return what `write_lines` wrote."""
        return unescape_lines(self.text(name))

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return what `write_arrays` wrote, as views of the bytes read.

        A safetensors file is the size of a JSON header, the header, and the data of all arrays.
        """
        content = self._take(name)
        try:
            data_start = 8 + int.from_bytes(content[:8].tobytes(), "little")
            entries = json.loads(content[8:data_start].tobytes())
            data = content[data_start:]
            return {
                array: data[slice(*entry["data_offsets"])].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
                for array, entry in entries.items()
                if array != "__metadata__"
            }
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(f"{self.file(name)}: not a readable safetensors file ({error}).") from None

    def _take(self, name: str) -> Bytes:
        if name not in self._contents:
            raise ModelError(f"{self.file(name)}: is missing from the model.")
        return self._contents.pop(name)


def _read_header(directory: Path) -> dict[str, Any]:
    file = directory / HEADER
    with suppress(OSError):
        put_back(directory)
    if not directory.is_dir():
        raise ModelError(f"{directory}: no such model directory. Train one with 'haxmlnet fit'.")
    if not file.is_file():
        raise ModelError(f"{directory}: not a model directory, there is no {HEADER} in it.")
    try:
        header = json.loads(file.read_text("utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise ModelError(f"{file}: damaged, it is not JSON ({error}).") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelError(f"{file}: not written by haxmlnet.")
    version = header.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        advice = "Train it again with this version, or predict with the version that wrote it."
        if isinstance(version, int) and version > FORMAT_VERSION:
            advice = "Upgrade haxmlnet."
        raise ModelError(f"{file}: has format version {version}, this version reads {FORMAT_VERSION}. {advice}")
    if json_checksum({k: v for k, v in header.items() if k != "sha256"}) != header.get("sha256"):
        raise ModelError(f"{file}: was altered after it was written (checksum differs).")
    return header


def _read_checked(file: Path, expected: Mapping[str, Any]) -> Bytes:
    """Read a file, and refuse it unless it has the size and checksum expected."""
    if not file.is_file():
        raise ModelError(f"{file}: is missing from the model.")
    digest = hashlib.sha256()
    try:
        with file.open("rb", buffering=0) as stream:
            size = file.stat().st_size
            if size != expected["bytes"]:
                raise ModelError(f"{file}: damaged, expected {expected['bytes']} bytes, got {size}.")
            # If it is a safetensors file, its data starts on a cache line.
            data_start = 8 + int.from_bytes(stream.read(8), "little")
            memory = np.empty(size + _ALIGNMENT, np.uint8)
            shift = -(memory.ctypes.data + data_start) % _ALIGNMENT
            content = memory[shift : shift + size]
            stream.seek(0)
            done = 0
            while n_read := stream.readinto(content[done : done + _CHUNK_BYTES].data):
                digest.update(content[done : done + n_read].data)
                done += n_read
    except OSError as error:
        raise ModelError(f"{file}: cannot be read ({error.strerror or error}).") from None
    if done != size or digest.hexdigest() != expected["sha256"]:
        raise ModelError(f"{file}: damaged or altered (checksum differs).")
    return content
