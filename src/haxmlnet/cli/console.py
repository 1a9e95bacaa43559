"""What people see: progress bars and remarks on standard error, tables on standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table

from haxmlnet.data import SkipReport
from haxmlnet.progress import Progress

UPDATE_EVERY = 1_000
Item = TypeVar("Item")


class ConsoleProgress(Progress):
    """Bars where standard error is a terminal, and one line for each remark everywhere."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Show a bar with the units done, the time left and the latest note."""
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), MofNCompleteColumn(), TextColumn(unit),
            TextColumn("{task.fields[note]}"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
        )  # fmt: skip
        with Bars(*columns, console=self.console, transient=True, disable=not self.console.is_terminal) as bars:
            task = bars.add_task(name, total=total, note="")
            yield lambda n, note="": bars.update(task, advance=n, **({"note": note} if note else {}))

    def say(self, line: str) -> None:
        """Print the line above the bar."""
        self.console.print(line, markup=False)


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
