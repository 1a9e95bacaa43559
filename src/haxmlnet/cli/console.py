"""What people see: progress bars and remarks on standard error, tables on standard output."""

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
    """Bars where standard error is a terminal, now and then a line where it is not, and one for each remark."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Show the units done, how many a second, the time left and the latest note."""
        if not self.console.is_terminal:
            yield _StageLines(name, total, unit, self.say).advance
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
        """Print the line above the bar."""
        self.console.print(line, markup=False)


class _RateColumn(ProgressColumn):
    """Units a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{_rate(speed)}/s")


class _StageLines:
    """Says how far a stage is, every half minute: what a log file is given instead of a bar."""

    def __init__(self, name: str, total: int | None, unit: str, say: Callable[[str], None]) -> None:
        self.name, self.total, self.unit, self.say = name, total, unit, say
        self.done = 0.0
        self.started = self.said = time.monotonic()

    def advance(self, n: float, note: str = "") -> None:
        self.done += n
        now = time.monotonic()
        if now - self.said >= LINE_SECONDS:
            self.said = now
            self.say(self._line(now - self.started, note))

    def _line(self, seconds: float, note: str) -> str:
        speed = self.done / seconds
        parts = [f"{self.done:,.0f} {self.unit}", f"{_rate(speed)}/s"]
        if self.total is not None:
            parts[0] = f"{self.done:,.0f} of {self.total:,} {self.unit}"
            left = timedelta(seconds=round(max(self.total - self.done, 0) / speed)) if speed > 0 else "unknown time"
            parts.append(f"{left} left")
        return f"{self.name}: {', '.join([*parts, note] if note else parts)}"


def _rate(speed: float) -> str:
    return f"{speed:,.0f}" if speed >= 10 else f"{speed:.2g}"


def chosen_progress(quiet: bool) -> Progress:
    """Give the progress for a command."""
    return Progress() if quiet else ConsoleProgress()


def counted(items: Iterable[Item], advance: Callable[..., None]) -> Iterator[Item]:
    """Pass items on, and tell a stage of them now and then, as each time takes longer than reading one."""
    for n, item in enumerate(items, start=1):
        yield item
        if n % UPDATE_EVERY == 0:
            advance(UPDATE_EVERY)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to standard output; numbers are on the right."""
    table = Table()
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 120
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    if title:
        console.print(title, soft_wrap=True)  # a title inside the table would be folded to the table's width
    console.print(table)


def say_skipped(report: SkipReport, progress: Progress) -> None:
    """Tell how many documents were left out, and why the first ones were."""
    if report.n_skipped:
        progress.say(f"skipped {report.n_skipped} bad documents; the first:")
        for message in report.messages:
            progress.say(f"  {message}")
