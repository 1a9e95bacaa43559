"""Writing the model directory: readable JSON and text, tensors in safetensors, checksums, no pickle.

Everything is written to a temporary name beside the target and renamed, so that a crash, a full disk
or a second try never harms what was there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from haxmlnet.errors import ModelError

HEADER = "model.json"
FORMAT = "haxmlnet model"
FORMAT_VERSION = 3
OLDEST_READ = 2  # in which linear weights are matrices
STALE_SECONDS = 24 * 3600

Arrays = Mapping[str, NDArray[Any]]


@contextmanager
def new_directory(path: str | Path) -> Iterator[Path]:
    """Fill a directory under a temporary name, then put it in the place of `path` in one rename."""
    target = Path(path)
    check_replaceable(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".new", dir=target.parent))
    except OSError as error:
        raise ModelError(f"{target}: cannot be written ({error.strerror or error}).") from None
    try:
        yield temporary
        _replace_directory(temporary, target)
        _remove_unfinished(target)
    except OSError as error:
        raise ModelError(f"{target}: cannot be written ({error.strerror or error}); nothing was changed.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_unfinished(target: Path) -> None:
    """Remove what processes left that were killed while they wrote this model."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.new")
    for directory in target.parent.glob(".*.new/"):
        if ours.fullmatch(directory.name):
            remove_if_stale(directory)


def remove_if_stale(directory: Path) -> None:
    """Remove an unfinished directory if nothing in it was changed for a day: whoever filled it is gone."""
    with suppress(OSError):  # what stays is no reason to fail
        last_change = max(path.stat().st_mtime for path in (directory, *directory.glob("*")))
        if time.time() - last_change > STALE_SECONDS:
            shutil.rmtree(directory)


def check_replaceable(path: str | Path) -> None:
    """Refuse to overwrite anything but a model or an empty directory."""
    target = Path(path)
    try:
        put_back(target)
        replaceable = not target.exists() or _may_be_replaced(target)
    except OSError as error:
        raise ModelError(f"{target}: cannot be written ({error.strerror or error}).") from None
    if not replaceable:
        raise ModelError(f"{target}: exists and is not a haxmlnet model, so it is not overwritten. Choose another.")


def write_header(directory: Path, header: Mapping[str, Any]) -> None:
    """Write model.json last: it lists size and checksum of every other file, and one of its own contents."""
    files = {
        file.name: {"bytes": file.stat().st_size, "sha256": _file_checksum(file)}
        for file in sorted(directory.iterdir())
    }
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **header, "files": files}
    write_text(directory / HEADER, json.dumps({**content, "sha256": json_checksum(content)}, indent=2) + "\n")


def write_text(file: Path, text: str) -> None:
    """Write text and wait until it is on the disk."""
    with file.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def write_lines(file: Path, lines: list[str]) -> None:
    """Write one string a line; a backslash, newline or return inside it is written as \\\\, \\n or \\r."""
    escapes = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r"})
    write_text(file, "".join(line.translate(escapes) + "\n" for line in lines))


def unescaped(text: str) -> list[str]:
    """Give the strings that `write_lines` made the text of."""
    lines = text.split("\n")[:-1]
    return lines if "\\" not in text else [_unescaped(line) for line in lines]


def _unescaped(line: str) -> str:
    if "\\" not in line:
        return line
    parts = line.split("\\\\")
    return "\\".join(part.replace(r"\n", "\n").replace(r"\r", "\r") for part in parts)


def write_arrays(file: Path, arrays: Arrays) -> None:
    """Write named arrays as safetensors."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        # Not ascontiguousarray, which turns a single number into a list of one.
        save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, file)
        file.chmod(0o644)  # safetensors makes its files private
        with file.open("rb+") as stream:
            os.fsync(stream.fileno())
    except SafetensorError as error:
        raise OSError(str(error)) from None


def read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """Read named arrays from a safetensors file."""
    return dict(iterate_arrays(file))


def iterate_arrays(file: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Read named arrays from a safetensors file, one after the other."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as stream:
            for name in stream.keys():  # noqa: SIM118 - it is no mapping
                yield name, stream.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file}: not a readable safetensors file ({error}).") from None


def _may_be_replaced(target: Path) -> bool:
    return target.is_dir() and ((target / HEADER).is_file() or not any(target.iterdir()))


def _replace_directory(new: Path, target: Path) -> None:
    new.chmod(0o755)  # mkdtemp makes it private
    old = _old_name(target)
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    try:
        new.rename(target)
    except OSError:
        put_back(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _old_name(target: Path) -> Path:
    return target.parent / f".{target.name}.old"


def put_back(target: Path) -> None:
    """Give a directory its name back, which a process killed between the two renames of a replacement took."""
    old = _old_name(target)
    if old.is_dir() and not target.exists():
        old.rename(target)


def _file_checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def json_checksum(content: Mapping[str, Any]) -> str:
    """Give a checksum of what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
