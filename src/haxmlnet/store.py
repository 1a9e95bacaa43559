"""Writing the model directory: JSON and text that a person can read, tensors in safetensors, checksums, no pickle.

Everything is written to a temporary directory beside the target, which is then renamed: a crash, a full disk or
a second try never harms what was there. `saved.py` reads what is written here.
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
FORMAT_VERSION = 4  # no other version is read
STALE_SECONDS = 24 * 3600

Arrays = Mapping[str, NDArray[Any]]


@contextmanager
def new_directory(path: str | Path) -> Iterator[Path]:
    """Fill a temporary directory, then put it in the place of `path` in one rename."""
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

        # What processes left that were killed while they wrote this model
        ours = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.new")
        for directory in target.parent.glob(".*.new/"):
            if ours.fullmatch(directory.name):
                remove_if_stale(directory)
    except OSError as error:
        raise ModelError(f"{target}: cannot be written ({error.strerror or error}); nothing was changed.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_replaceable(path: str | Path) -> None:
    """Refuse to overwrite anything but a model or an empty directory."""
    target = Path(path)
    try:
        put_back(target)
        replaceable = not target.exists() or (
            target.is_dir() and ((target / HEADER).is_file() or not any(target.iterdir()))
        )
    except OSError as error:
        raise ModelError(f"{target}: cannot be written ({error.strerror or error}).") from None
    if not replaceable:
        raise ModelError(f"{target}: exists and is not a haxmlnet model, so it is not overwritten. Choose another.")


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


def put_back(target: Path) -> None:
    """Undo the first rename of a replacement whose process was killed before the second."""
    old = _old_name(target)
    if old.is_dir() and not target.exists():
        old.rename(target)


def _old_name(target: Path) -> Path:
    return target.parent / f".{target.name}.old"


def remove_if_stale(directory: Path) -> None:
    """Remove an unfinished directory in which nothing has changed for a day: its writer is gone."""
    with suppress(OSError):  # a leftover is no reason to fail
        last_change = max(path.stat().st_mtime for path in (directory, *directory.glob("*")))
        if time.time() - last_change > STALE_SECONDS:
            shutil.rmtree(directory)


def write_header(directory: Path, header: Mapping[str, Any]) -> None:
    """Write model.json last: it has the size and checksum of every other file, and a checksum of its own content."""
    files = {}
    for file in sorted(directory.iterdir()):
        with file.open("rb") as stream:
            checksum = hashlib.file_digest(stream, "sha256").hexdigest()
        files[file.name] = {"bytes": file.stat().st_size, "sha256": checksum}
    content = {"format": FORMAT, "format_version": FORMAT_VERSION, **header, "files": files}
    write_text(directory / HEADER, json.dumps({**content, "sha256": json_checksum(content)}, indent=2) + "\n")


def json_checksum(content: Mapping[str, Any]) -> str:
    """Compute a checksum of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_text(file: Path, text: str) -> None:
    """Write text and wait until it is on the disk."""
    with file.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def write_lines(file: Path, lines: list[str]) -> None:
    r"""Write one string a line; a backslash, newline or return inside it becomes \\, \n or \r."""
    escapes = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r"})
    write_text(file, "".join(line.translate(escapes) + "\n" for line in lines))


def unescape_lines(text: str) -> list[str]:
    """Recover the strings from the text that `write_lines` wrote."""
    lines = text.split("\n")[:-1]
    if "\\" not in text:
        return lines
    return ["\\".join(part.replace(r"\n", "\n").replace(r"\r", "\r") for part in line.split("\\\\")) for line in lines]


def write_arrays(file: Path, arrays: Arrays) -> None:
    """Write named arrays as safetensors."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    try:
        # Not ascontiguousarray, which gives a scalar a dimension.
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
    """Read named arrays from a safetensors file, one at a time."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="np") as stream:
            for name in stream.keys():  # noqa: SIM118 - it is no mapping
                yield name, stream.get_tensor(name)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{file}: not a readable safetensors file ({error}).") from None
