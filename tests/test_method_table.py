"""The walk from the paper to the code: every row of the method page's table names code that exists."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "concepts" / "method.md"
PACKAGE = ROOT / "src" / "haxmlnet"

# | label-wise attention (eq. 1) | $m_j$ | [`network/attention.py`](../../src/haxmlnet/...) `LabelAttention.forward` |
ROW = re.compile(
    r"\| (?P<step>.+?) \| (?P<symbol>.*?) \| \[`(?P<shown>[^`]+)`\]\((?P<link>[^)]+)\) `(?P<name>[\w.]+)` \|"
)
MIN_ROWS = 5


@dataclass(frozen=True)
class Row:
    """One step of the paper, and where it is in the code."""

    step: str
    shown: str
    file: Path
    name: str


def find_table(text: str) -> list[str]:
    """Give the lines below the header of the table from equations to functions, or nothing."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        cells = [cell.strip().lower() for cell in line.strip("|").split("|")]
        if line.startswith("|") and "equation" in cells[0] and cells[1].startswith("symbol"):
            assert set(lines[i + 1]) <= set("|-: "), "the header is followed by its rule"
            below = lines[i + 2 :]
            end = next((n for n, row in enumerate(below) if not row.startswith("|")), len(below))
            return below[:end]
    return []


def parse_row(line: str, page: Path = PAGE) -> Row:
    found = ROW.fullmatch(line.rstrip())
    assert found, f"not '| step | symbol | [`file`](link) `name` |': {line}"
    return Row(found["step"], found["shown"], (page.parent / found["link"]).resolve(), found["name"])


def defines(source: str, name: str) -> bool:
    """Whether a module defines the function or class, or `Class.method`."""
    body = ast.parse(source).body
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = next((node for node in body if isinstance(node, kinds) and node.name == part), None)
        if found is None:
            return False
        body = found.body if isinstance(found, ast.ClassDef) else []
    return True


LINES = find_table(PAGE.read_text("utf-8"))


def test_the_page_has_the_table():
    assert len(LINES) >= MIN_ROWS, f"{PAGE}: a table 'equation or step of the paper | symbol | code'"


@pytest.mark.parametrize("line", LINES)
def test_a_row_names_code_that_exists(line):
    row = parse_row(line)
    assert row.file.is_relative_to(PACKAGE), "the link leads into the package"
    assert row.file.is_file(), f"{row.file} does not exist"
    assert row.file.as_posix().endswith(f"/{row.shown}")
    assert defines(row.file.read_text("utf-8"), row.name), f"{row.shown} does not define {row.name}"


def test_tables_are_found_among_text():
    other = "| a | b |\n|---|---|\n| x | y |\n"
    table = "| Equation or step of the paper | Symbol | Code |\n|---|---|---|\n| 1 |\n| 2 |\n"
    assert find_table(f"# Title\n\n{other}\n{table}\nMore text.\n") == ["| 1 |", "| 2 |"]
    assert find_table("# Title\n\n| a | b |\n|---|---|\n") == []


def test_rows_have_one_form():
    link = "../../src/haxmlnet/network/attention.py"
    line = f"| attention (eq. 1) | $a_{{tj}}, m_j$ | [`network/attention.py`]({link}) `LabelAttention.forward` |"
    row = parse_row(line)
    assert (row.step, row.name) == ("attention (eq. 1)", "LabelAttention.forward")
    assert row.file == PACKAGE / "network" / "attention.py"
    for wrong in (
        line.replace(" `LabelAttention.forward`", ""),
        line.replace("forward`", "forward` `two`"),
        "| a | b |",
    ):
        with pytest.raises(AssertionError, match="not '"):
            parse_row(wrong)


def test_definitions_are_found():
    source = (
        "import os\nSIZE = 1\ndef outer():\n  def inner(): ...\nclass A:\n  async def f(self): ...\n  class B: ...\n"
    )
    assert [name for name in ("outer", "A", "A.f", "A.B") if not defines(source, name)] == []
    assert [name for name in ("inner", "outer.inner", "f", "A.g", "SIZE", "os") if defines(source, name)] == []
