"""A tiny corpus whose labels are known by construction, and commands run in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[2] / "src"
N_LABELS = 12
LABELS = [f"topic {i:02}" for i in range(N_LABELS)]
SMALL = ["--hidden-size", "8", "--word-size", "8", "--mlp-sizes", "8", "--n-jobs", "1", "--batch-size", "16"]
QUICK = [*SMALL, "--epochs", "1", "--quiet"]


@dataclass
class Outcome:
    """What a command left: its exit code, and both of its outputs."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[Any]:
        """The JSON lines of standard output."""
        return [json.loads(line) for line in self.out.split("\n")[:-1]]  # not splitlines: U+2028 is no end

    def assert_refused(self, *words: str) -> None:
        """Expect exit code 2 and exactly one line, which holds the words."""
        assert self.code == 2, self
        assert self.out == ""
        assert self.err.startswith("haxmlnet")
        assert self.err.count("\n") == 1, self.err
        assert self.err.endswith("\n")
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err


Cli = Callable[..., Outcome]


def documents(n: int = 60) -> list[dict[str, Any]]:
    """Make documents of two labels each: every label has four words that no other label has."""
    made = []
    for i in range(n):
        labels = [i % N_LABELS, (i + 1 + i // N_LABELS) % N_LABELS]
        words = [f"word{label}x{(i + j) % 4}" for label in labels for j in range(3)]
        made.append({"id": f"d{i}", "text": " ".join(words), "labels": [LABELS[label] for label in labels]})
    return made


def write_jsonl(path: Path, lines: Iterable[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def file_contents(directory: Path, pattern: str = "*") -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(directory.glob(pattern))}


# Python runs this in processes of their own. Shells start background jobs with Ctrl-C ignored, hence the signal.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
{setup}
from haxmlnet.cli import main
sys.exit(main())
"""


def process_arguments(arguments: Iterable[object], setup: str = "") -> list[str]:
    return [sys.executable, "-c", PROGRAM.format(setup=setup), *(str(argument) for argument in arguments)]


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCES), "OMP_WAIT_POLICY": "PASSIVE", **variables}


def run_process(
    *arguments: object, setup: str = "", stdin: bytes = b"", variables: dict[str, str] | None = None
) -> Outcome:
    """Run a command in a process of its own."""
    done = subprocess.run(
        process_arguments(arguments, setup),
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        env=environment(**(variables or {})),
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
