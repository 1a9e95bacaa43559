"""What a row of the speed benchmark is given and what it gives."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.__main__ import DATA

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / ".venv-peers/bin/python"
NEURAL_PEERS_PYTHON = ROOT / ".venv-peers-neural/bin/python"


@dataclass(frozen=True)
class Run:
    """What the rows of one run have in common."""

    work: Path
    """Where matrices and models are kept, so that a second run does not make them again."""
    scale: float = 1.0
    """Part of the labels and documents of the published data set."""
    seed: int = 0
    threads: int = 2
    rounds: int = 5
    data: Path = DATA
    """Where the data sets are."""

    def folder(self, name: str) -> Path:
        """Return a directory of the work directory, made if need be."""
        folder = self.work / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@dataclass(frozen=True)
class Row:
    """One figure, and what it has to be; a row without a target is the base of others."""

    what: str
    value: float | None
    unit: str
    target: str = ""
    reached: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the row as a dictionary."""
        return asdict(self)


RowFunction = Callable[[Run], Iterator[Row]]


class Unavailable(Exception):
    """A row cannot be measured here; the message says what to do."""


def needed(environment: Path) -> None:
    """Refuse to go on without the Python of a peer's environment."""
    if not environment.exists():
        name = environment.parent.parent.name
        raise Unavailable(f"there is no environment {name}. Run 'make bench-peers'.")


def at_most(what: str, value: float, unit: str, limit: float, details: dict[str, Any]) -> Row:
    """Make a row whose figure must not be above a limit."""
    return Row(what, value, unit, f"<= {limit:g}", value <= limit, details)


def at_least(what: str, value: float, unit: str, limit: float, details: dict[str, Any]) -> Row:
    """Make a row whose figure must not be below a limit."""
    return Row(what, value, unit, f">= {limit:.4g}", value >= limit, details)


def run_command(command: Sequence[str | Path], environment: dict[str, str] | None = None) -> str:
    """Run a command from the project's root and give its output; if it fails, say so with its last line."""
    done = subprocess.run(
        [str(part) for part in command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise Unavailable(f"{command[0]} ended with {done.returncode}: {lines[-1]}")
    return done.stdout


def median_seconds(action: Callable[[], object], rounds: int) -> tuple[float, list[float]]:
    """Time an action some times; return the median and all times."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times), times
