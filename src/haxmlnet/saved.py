"""`SavedModel`: a model directory to read from, every file of which is read once and checked as it is read."""

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
from haxmlnet.store import FORMAT, FORMAT_VERSION, HEADER, OLDEST_READ, json_checksum, put_back, unescaped

# The types of safetensors that numpy has as well.
_KINDS = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
    "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16, "F32": np.float32, "F64": np.float64,
}  # fmt: skip
# Read and checked at once: for each of these the thread has to wait for others to let it go on.
_CHUNK = 2**24
_ALIGNMENT = 64

Bytes = NDArray[np.uint8]


class SavedModel:
    """The files of a saved model. What is checked is what is used, whatever becomes of the files afterwards."""

    def __init__(self, path: str | Path) -> None:
        self.directory = Path(path)
        self.header = _parse_header(self.directory)
        self._contents: dict[str, Bytes] = {}

    def fetch(self) -> SavedModel:
        """Read every file, and compare it with size and checksum in model.json; one line says which is wrong and why.

        Most of it needs no lock of Python: other threads go on meanwhile.
        """
        for name, expected in self.header["files"].items():
            self._contents[name] = _checked_content(self.directory / name, expected)
        return self

    def __contains__(self, name: str) -> bool:
        """Say whether the model has such a file."""
        return name in self.header["files"]

    def file(self, name: str) -> Path:
        """Give the path of a file, for messages."""
        return self.directory / name

    def text(self, name: str) -> str:
        """Give the text of a file."""
        return self._take(name).tobytes().decode("utf-8")

    def lines(self, name: str) -> list[str]:
        """Give what `write_lines` wrote."""
        return unescaped(self.text(name))

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Give what `write_arrays` wrote: views of what was read, not copies."""
        content = self._take(name)
        try:
            return _views(content)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelError(f"{self.file(name)}: not a readable safetensors file ({error}).") from None

    def _take(self, name: str) -> Bytes:
        if name not in self._contents:
            raise ModelError(f"{self.file(name)}: is missing from the model.")
        return self._contents.pop(name)


def _parse_header(directory: Path) -> dict[str, Any]:
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
    if not isinstance(version, int) or not OLDEST_READ <= version <= FORMAT_VERSION:
        newer = isinstance(version, int) and version > FORMAT_VERSION
        advice = "Upgrade haxmlnet." if newer else "Train the model anew, or use the haxmlnet that wrote it."
        known = f"{OLDEST_READ} to {FORMAT_VERSION}"
        raise ModelError(f"{file}: has format version {version}, this library reads {known}. {advice}")
    if json_checksum({k: v for k, v in header.items() if k != "sha256"}) != header.get("sha256"):
        raise ModelError(f"{file}: was altered after it was written (checksum differs).")
    return header


def _checked_content(file: Path, expected: Mapping[str, Any]) -> Bytes:
    if not file.is_file():
        raise ModelError(f"{file}: is missing from the model.")
    digest = hashlib.sha256()
    try:
        with file.open("rb", buffering=0) as stream:
            size = file.stat().st_size
            if size != expected["bytes"]:
                raise ModelError(f"{file}: damaged, expected {expected['bytes']} bytes, got {size}.")
            content = _room(size, 8 + int.from_bytes(stream.read(8), "little"))
            stream.seek(0)
            done = 0
            while n_read := stream.readinto(content[done : done + _CHUNK].data):
                digest.update(content[done : done + n_read].data)
                done += n_read
    except OSError as error:
        raise ModelError(f"{file}: cannot be read ({error.strerror or error}).") from None
    if done != size or digest.hexdigest() != expected["sha256"]:
        raise ModelError(f"{file}: damaged or altered (checksum differs).")
    return content


def _room(n_bytes: int, data_start: int) -> Bytes:
    """Give memory for a file whose arrays begin at a position: they will lie where processors read them fastest."""
    room = np.empty(n_bytes + _ALIGNMENT, np.uint8)
    shift = -(room.ctypes.data + data_start) % _ALIGNMENT
    return room[shift : shift + n_bytes]


def _views(content: Bytes) -> dict[str, NDArray[Any]]:
    """Find the arrays in a safetensors file: the size of a JSON header, the header, and all numbers."""
    data_start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    entries = json.loads(content[8:data_start].tobytes())
    data = content[data_start:]
    return {
        name: data[slice(*entry["data_offsets"])].view(_KINDS[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in entries.items()
        if name != "__metadata__"
    }
