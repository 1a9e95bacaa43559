"""Tables between markers in Markdown files, and figures.

A file says where it wants a table:

    <!-- bench eurlex57k/test accuracy -->
    <!-- /bench -->

What stands between is replaced. The names are those in `tables.TABLES`; `<!-- bench all -->` is every table of
every test split.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.comparing import add_differences
from benchmarks.figures import draw_accuracy_time, draw_reliability
from benchmarks.records import read_records
from benchmarks.summaries import Group, group_records
from benchmarks.tables import TABLES, all_tables
from haxmlnet.data import replace_file
from haxmlnet.errors import DataError

BEGIN = re.compile(r"^<!-- bench (?P<wish>.+?) -->$", re.MULTILINE)
END = re.compile(r"^<!-- /bench -->$", re.MULTILINE)


def publish(results: Path, work: Path, files: list[Path], figures: Path) -> None:
    """Write the tables into the files and draw the figures; without files, print all tables."""
    groups = add_differences(group_records(read_records(results)), work, results.with_name("differences.json"))
    if not groups:
        raise DataError(f"{results}: no results yet. Begin with 'python -m benchmarks run'.")
    if not files:
        print("\n\n".join(all_tables(group, "figures") for group in groups))
        return
    for group in groups:
        if group.split == "test":
            _draw(group, figures)
    for file in files:
        folder = Path(os.path.relpath(figures, file.parent)).as_posix()
        text = file.read_text("utf-8")
        new = replace_between_markers(text, partial(make_table, groups=groups, figures=folder), str(file))
        if new != text:
            with replace_file(file) as temporary:
                temporary.write_text(new, "utf-8")
            print(f"{file}: tables written")


def replace_between_markers(text: str, content_of: Callable[[str], str | None], source: str) -> str:
    """Replace what stands between each pair of markers; None leaves it as it is."""
    parts, position = [], 0
    while begin := BEGIN.search(text, position):
        end, following = END.search(text, begin.end()), BEGIN.search(text, begin.end())
        if end is None or (following and following.start() < end.start()):
            line = text.count("\n", 0, begin.start()) + 1
            raise DataError(f"{source}:{line}: {begin.group()} has no end. Add a line '<!-- /bench -->' after it.")
        content = content_of(begin["wish"])
        between = text[begin.end() : end.start()] if content is None else f"\n\n{content}\n\n"
        parts += [text[position : begin.end()], between, end.group()]
        position = end.end()
    return "".join([*parts, text[position:]])


def make_table(wish: str, groups: list[Group], figures: str) -> str | None:
    """Return what a marker asks for, or None if there is no result of it yet."""
    tests = [group for group in groups if group.split == "test"]
    if wish == "all":
        return "\n\n".join(all_tables(group, figures) for group in tests) if tests else None
    name, _, table = wish.rpartition(" ")
    if table not in TABLES or "/" not in name:
        raise DataError(f"<!-- bench {wish} -->: use 'all', or DATA/SPLIT and one of {', '.join(TABLES)}.")
    group = next((group for group in groups if group.name == name), None)
    return None if group is None else TABLES[table](group)


def _draw(group: Group, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {"accuracy_time": draw_accuracy_time(group), "reliability": draw_reliability(group)}
    for name, figure in drawn.items():
        with replace_file(folder / f"{name}_{group.data}.svg") as temporary:
            temporary.write_text(figure, "utf-8")
