"""What people see: progress and messages on standard error, tables on standard output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from haxmlnet.data import SkipReport
from haxmlnet.progress import Progress

UPDATE_EVERY = 1_000
LINE_SECONDS = 30
Item = TypeVar("Item")


class ConsoleProgress(Progress):
    """Progress bars if standard error is a terminal, a line every half minute if not; messages in both cases."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Show the units done, the rate, the time left and the latest note."""
        if not self.console.is_terminal:
            yield _StageLog(name, total, unit, self.say).advance
            return
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), TextColumn(unit),
            _RateColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn(), TextColumn("left"),
            TimeRemainingColumn(),
        )  # fmt: skip
        with Bars(*columns, console=self.console, transient=True) as bars:
            task = bars.add_task(name, total=total, note="")
            yield lambda n, note="": bars.update(task, advance=n, **({"note": note} if note else {}))

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, markup=False)


class _RateColumn(ProgressColumn):
    """The number of units per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{_format_rate(speed)}/s")


class _StageLog:
    """Logs every half minute how far a stage is: what a file gets instead of a bar."""

    def __init__(self, name: str, total: int | None, unit: str, say: Callable[[str], None]) -> None:
        self.name, self.total, self.unit, self.say = name, total, unit, say
        self.done = 0.0
        self.started = self.last_said = time.monotonic()

    def advance(self, n: float, note: str = "") -> None:
        self.done += n
        now = time.monotonic()
        if now - self.last_said < LINE_SECONDS:
            return
        self.last_said = now
        speed = self.done / (now - self.started)
        parts = [f"{self.done:,.0f} {self.unit}", f"{_format_rate(speed)}/s"]
        if self.total is not None:
            parts[0] = f"{self.done:,.0f} of {self.total:,} {self.unit}"
            left = timedelta(seconds=round(max(self.total - self.done, 0) / speed)) if speed > 0 else "unknown time"
            parts.append(f"{left} left")
        self.say(f"{self.name}: {', '.join([*parts, note] if note else parts)}")


def _format_rate(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"


def make_progress(quiet: bool) -> Progress:
    """Make the progress display of a command."""
    return Progress() if quiet else ConsoleProgress()


def count_items(items: Iterable[Item], advance: Callable[..., None]) -> Iterator[Item]:
    """Pass items on and advance a stage once in a while, as doing so for each would take longer than reading it."""
    for n, item in enumerate(items, start=1):
        yield item
        if n % UPDATE_EVERY == 0:
            advance(UPDATE_EVERY)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to standard output, all columns but the first right-aligned."""
    table = Table()
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 120
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    if title:
        console.print(title, soft_wrap=True)  # inside the table, a title would be wrapped at its width
    console.print(table)


def report_skipped(report: SkipReport, progress: Progress) -> None:
    """Report how many documents were skipped, and why the first ones were."""
    if report.n_skipped:
        progress.say(f"skipped {report.n_skipped} bad documents; the first:")
        for message in report.messages:
            progress.say(f"  {message}")
