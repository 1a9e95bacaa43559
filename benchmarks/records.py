"""`results.jsonl`: one object for each finished run."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from haxmlnet.errors import DataError

Record = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One configuration on one split of one data set with one seed."""

    data: str
    split: str
    name: str
    """The configuration's, with the settings changed on the command line."""
    identity: str
    """A digest of all that makes a run another one: method, settings, threads, documents."""
    seed: int

    @property
    def key(self) -> str:
        """Name the run: a finished run with this key is never repeated."""
        return f"{self.data}/{self.split}/{self.name}/{self.identity}/{self.seed}"

    @property
    def file_name(self) -> str:
        """Name files of the run."""
        words = "".join(c if c.isalnum() else "-" for c in f"{self.data} {self.split} {self.name}")
        return f"{words[:100]}-{self.identity}-{self.seed}"


def identity_of(**parts: Any) -> str:
    """Digest what makes a run another one."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def read_records(path: Path) -> list[Record]:
    """Read all results; of several with one key the last one counts. A torn last line is no result."""
    if not path.exists():
        return []
    lines = path.read_text("utf-8").split("\n")
    records: dict[str, Record] = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            record = json.loads(line)
            records.pop(record["key"], None)
            records[record["key"]] = record
        except (ValueError, KeyError, TypeError):
            if number == len(lines):
                continue
            raise DataError(f"{path}:{number}: not a result of the bench: {line[:60]!r}. Remove the line.") from None
    return list(records.values())


def append_record(path: Path, record: Record) -> None:
    """Add a result as one line, after the torn one that a crash may have left."""
    line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                _cut_torn_line(path)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def _cut_torn_line(path: Path) -> None:
    content = path.read_bytes()
    os.truncate(path, content.rfind(b"\n") + 1)
