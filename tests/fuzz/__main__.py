"""Read a hundred thousand damaged files of every format: never a traceback, a hang or a document lost in silence.

    python -m tests.fuzz --files 100000 --seed 0

prints a table and, as its last line, JSON. What fails is saved in a folder of its own, with the command that reads it
again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.campaign import Tally, fuzz
from tests.fuzz.cases import CASE_FILE, load_case
from tests.fuzz.judge import Result, run_case
from tests.fuzz.samples import READABLE

OUTCOMES = ("read", "partly", "refused", "failed")
COLUMNS = {"read": 8, "partly": 8, "refused": 9, "counted": 9, "failed": 8}


def print_table(tally: Tally) -> None:
    """Print a row for each format, then the failures by kind."""
    heads = "".join(f"{name:>{width}}" for name, width in COLUMNS.items())
    print(f"{'format':<15}{'files':>8}{heads}{'ms each':>9}")
    for name, outcomes in sorted(tally.outcomes.items()):
        n_files = sum(outcomes[outcome] for outcome in OUTCOMES)
        row = "".join(f"{outcomes[column]:>{width},}" for column, width in COLUMNS.items())
        print(f"{name:<15}{n_files:>8,}{row}{1000 * tally.seconds[name] / n_files:>9.2f}")
    for (name, kind), count in tally.failures.most_common():
        print(f"FAILED {count:>6,} x {name}: {kind}")


def summarize(tally: Tally, seconds: float) -> dict[str, Any]:
    """Put everything into one object for other programs."""
    total: Counter[str] = sum(tally.outcomes.values(), Counter())
    return {
        "files": sum(total[outcome] for outcome in OUTCOMES),
        **{outcome: total[outcome] for outcome in OUTCOMES},
        "counted": total["counted"],
        "seconds": round(seconds, 1),
        "peak_memory_mb": tally.peak_memory >> 20,
        "formats": {name: dict(outcomes) for name, outcomes in sorted(tally.outcomes.items())},
        "failures": [{"format": name, "kind": kind, "count": n} for (name, kind), n in tally.failures.most_common()],
    }


def run_again(folder: Path) -> Result:
    """Read a saved case once more, in a copy of its folder."""
    case = load_case(folder)
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns(CASE_FILE))
        return run_case(case, Path(copy))


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and give 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=100_000, help="damaged files to read (default: 100,000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--format", action="append", choices=sorted(READABLE), help="only this format; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"), help="folder for what fails")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="read one saved case again, and do nothing else")
    chosen = parser.parse_args(arguments)
    if chosen.again:
        result = run_again(chosen.again)
        print(f"{result.outcome}: {result.reason}")
        return int(result.outcome == "failed")
    started = time.perf_counter()
    tally = fuzz(chosen.files, chosen.seed, chosen.workers, chosen.out, chosen.format)
    print_table(tally)
    if tally.failures:
        print(f"Files are in {chosen.out}. To read one again: python -m tests.fuzz --again {chosen.out}/FOLDER")
    print(json.dumps(summarize(tally, time.perf_counter() - started)))
    return int(bool(tally.failures))


if __name__ == "__main__":
    sys.exit(main())
