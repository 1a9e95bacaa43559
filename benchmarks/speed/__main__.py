"""Speed of haxmlnet, as ratios within one run or seconds that must not be exceeded.

python -m benchmarks.speed                     all rows at full size; the first run trains the models they need
python -m benchmarks.speed tree metrics        some rows
python -m benchmarks.speed tree --scale 0.1    a tenth of the labels and documents

Run it on an otherwise idle machine: the last line, JSON, says how much of the processors other processes used.
Rows:
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.__main__ import DATA
from benchmarks.measuring import round_figures
from benchmarks.processes import OthersClock
from benchmarks.speed.machine import machine
from benchmarks.speed.many_documents import many_documents
from benchmarks.speed.metrics import metrics
from benchmarks.speed.neural_peer import neural_peer
from benchmarks.speed.one_document import one_document
from benchmarks.speed.row import Row, RowFunction, Run, Unavailable
from benchmarks.speed.start import start
from benchmarks.speed.training import training
from benchmarks.speed.tree import tree

ALL = (machine, training, neural_peer, one_document, many_documents, tree, metrics, start)
ROWS: dict[str, RowFunction] = {function.__name__: function for function in ALL}


def measure(names: list[str], run: Run) -> Iterator[Row]:
    """Measure rows one after the other; one that cannot be measured says why."""
    for name in names:
        others = OthersClock()
        try:
            for row in ROWS[name](run):
                row.details["others_share"] = others.share()
                yield row
        except Unavailable as reason:
            yield Row(f"{name}: {reason}", None, "")


def format_row(row: Row) -> str:
    """Return a row of the table."""
    value = "-" if row.value is None else f"{row.value:.4g} {row.unit}"
    verdict = {True: "reached", False: "NOT REACHED", None: ""}[row.reached]
    return f"{row.what:<58}{value:>14}{row.target:>12}  {verdict}".rstrip()


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; return 1 if a target is not reached."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.rows if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {unknown[0]!r}; the rows are {', '.join(ROWS)}")
    run = Run(chosen.work.resolve(), chosen.scale, chosen.seed, chosen.threads, max(chosen.rounds, 1), chosen.data)
    print(f"{'':<58}{'figure':>14}{'target':>12}")
    rows = []
    for row in measure(list(dict.fromkeys(chosen.rows)) or list(ROWS), run):
        rows.append(row)
        print(format_row(row), flush=True)
    reached = all(row.reached is not False for row in rows)
    facts: dict[str, Any] = {"scale": run.scale, "threads": run.threads, "reached": reached}
    print(json.dumps(round_figures({**facts, "rows": [row.as_json() for row in rows]})))
    return int(not reached)


def _parser() -> argparse.ArgumentParser:
    rows = "\n".join(f"  {name:<16}{function.__doc__}" for name, function in ROWS.items())
    parser = argparse.ArgumentParser(
        "python -m benchmarks.speed",
        description=f"{__doc__}{rows}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="the rows to measure (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the labels and documents (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of both sides (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of what takes seconds; the median counts")
    parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help="where the data sets of the bench are")
    parser.add_argument(
        "--work", type=Path, default=Path("runs/speed"),
        help="where matrices and models are kept for the next run (default: runs/speed)",
    )  # fmt: skip
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
