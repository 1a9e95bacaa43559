"""The cache of prepared corpora: a directory with one entry for each content, the least recently used ones removed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from haxmlnet.data.arrays import DESCRIPTION, open_or_fill, remove_directory
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import DataError, SettingError
from haxmlnet.progress import Progress
from haxmlnet.store import remove_if_stale

DIRECTORY_VARIABLE = "HAXMLNET_CACHE"
SIZE_VARIABLE = "HAXMLNET_CACHE_GB"
DEFAULT_GIGABYTES = 20.0
_ENTRY = re.compile(r"[0-9a-f]{32}")
_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}\.new")
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Cache:
    """A directory of prepared corpora, each under the checksum of what it was made of."""

    directory: Path
    max_bytes: float

    @classmethod
    def at(cls, directory: str | Path | None = None) -> Cache:
        """Use a directory; default: that of $HAXMLNET_CACHE, else one in the user's folder of caches."""
        try:
            place = directory or os.environ.get(DIRECTORY_VARIABLE) or _find_user_caches() / "haxmlnet"
            chosen = Path(place).expanduser()
        except RuntimeError as error:  # the user has no home
            raise SettingError(f"the cache has no place: {error}. Use --cache DIR or --no-cache.") from None
        given = os.environ.get(SIZE_VARIABLE) or DEFAULT_GIGABYTES
        with suppress(ValueError):
            if (size := float(given)) >= 0:
                return cls(chosen, size * 1e9)
        raise SettingError(f"${SIZE_VARIABLE} must be a number of at least 0, got {given!r}.")

    def corpus(self, key: str, fill: Callable[[Path], None], progress: Progress) -> PreparedCorpus:
        """Open the entry of a key, or fill a new one; then remove what was not used for longest beyond the size."""
        entry = self.directory / key
        corpus = open_or_fill(entry, PreparedCorpus.open, fill, progress.say)
        with suppress(OSError):  # the cache may be read-only
            os.utime(entry / DESCRIPTION)
        self.tidy(keep=entry)
        return corpus

    def tidy(self, keep: Path) -> None:
        """Remove what killed processes left a day ago, and what was not used for longest, down to the allowed size."""
        for directory in self._list_directories(_UNFINISHED):
            remove_if_stale(directory)
        parts = [part for entry in self._list_directories(_ENTRY) for part in _list_parts(entry)]
        size = sum(_measure(part) for part in parts)
        for part in sorted(parts, key=lambda part: _read_status(part / DESCRIPTION).st_mtime):
            if size <= self.max_bytes:
                break
            if part != keep and part.is_dir():
                size -= sum(_measure(lost) for lost in _list_parts(part))
                remove_directory(part)

    def _list_directories(self, pattern: re.Pattern[str]) -> Iterator[Path]:
        # Only names that are ours: somebody may give their home as the directory of the cache.
        for directory in (self.directory, *self.directory.glob("*/")):
            if directory == self.directory or _ENTRY.fullmatch(directory.name):
                yield from [path for path in directory.glob("*/") if pattern.fullmatch(path.name)]


def content_key(files: Sequence[Path], facts: Mapping[str, Any], advance: Callable[[int], None]) -> tuple[str, int]:
    """Return the checksum of the files' bytes and of facts about how they are read, and the number of their lines."""
    checksum = hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode())
    n_lines = 0
    for file in files:
        try:
            checksum.update(f"\0{file.stat().st_size}\0".encode())
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    checksum.update(chunk)
                    n_lines += chunk.count(b"\n") if file == files[0] else 0
                    advance(len(chunk))
        except OSError as error:
            raise DataError(f"{file}: cannot be read: {error.strerror or error}.") from None
    return checksum.hexdigest()[:32], n_lines


def _find_user_caches() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _list_parts(entry: Path) -> list[Path]:
    """List an entry and what is cached in it, each of which may be removed by itself."""
    return [entry, *(path for path in entry.glob("*/") if not _UNFINISHED.fullmatch(path.name))]


def _measure(directory: Path) -> int:
    return sum(_read_status(file).st_size for file in directory.glob("*") if file.is_file())


def _read_status(path: Path) -> os.stat_result:
    # Another process may have removed the file in the meantime.
    try:
        return path.stat()
    except OSError:
        return os.stat_result((0,) * 10)
