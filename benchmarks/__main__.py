"""The bench on the command line: `python -m benchmarks run`, `tables`, `list`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import Any

from benchmarks.configurations import CONFIGURATIONS
from benchmarks.datasets import find_sets
from benchmarks.planning import Plan
from benchmarks.publishing import publish
from benchmarks.running import ROOT, run_all
from haxmlnet.errors import HaxmlnetError, SettingError
from haxmlnet.models import METHODS

RESULTS = ROOT / "benchmarks" / "results.jsonl"
WORK = ROOT / "runs" / "bench"
DATA = ROOT.parent / "shared" / "data"
RUN_HELP = """\
Run data sets x methods x seeds, each in its own process. A finished run is never repeated; an interrupted one is
begun anew. SET is a folder of --data, or any directory with train and test files that haxmlnet reads; without SET:
eurlex57k, cve_products and cve_small, as far as they are there.
"""


def build_parser() -> argparse.ArgumentParser:
    """Describe the commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compare methods side by side.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run what is not finished yet", description=RUN_HELP)
    run.add_argument("sets", nargs="*", metavar="SET", help="data sets")
    run.add_argument("--data", type=Path, default=DATA, metavar="DIR", help="where the data sets are")
    run.add_argument("--methods", nargs="+", default=[], metavar="NAME", help="configurations or methods; default: all")
    run.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="N", help="one run for each [0]")
    run.add_argument("--split", choices=("test", "dev"), default="test", help="documents to judge on [test]")
    run.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="changes", help="a setting")
    run.add_argument("--threads", type=int, default=2, metavar="N", help="threads of every method [2]")
    run.add_argument("--vectors", type=Path, metavar="FILE", help="word vectors; default: DIR/vectors/*.txt.gz")
    run.add_argument("--busy", action="store_true", help="the machine is busy: tables leave the times out")
    run.add_argument("--again", choices=("busy", "all"), default="", help="repeat finished runs, all or the busy ones")
    run.add_argument("--keep-models", action="store_true", help="keep models and logs of finished runs")
    tables = commands.add_parser("tables", help="write tables and figures of all results")
    tables.add_argument(
        "--files", nargs="+", type=Path, default=[ROOT / "benchmarks/RESULTS.md", ROOT / "docs/results/accuracy.md"]
    )
    tables.add_argument("--figures", type=Path, default=ROOT / "benchmarks/figures", metavar="DIR")
    tables.add_argument("--print", action="store_true", help="print all tables instead of writing them to files")
    for command in (run, tables):
        command.add_argument("--work", type=Path, default=WORK, metavar="DIR", help="inputs, logs, predictions")
        command.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="results, JSON lines")
    commands.add_parser("list", help="list configurations and methods")
    return parser


def parse_changes(changes: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE; a value is JSON, or else text."""
    settings: dict[str, Any] = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not (name and equals):
            raise SettingError(f"--set must be NAME=VALUE, got {change!r}.")
        try:
            settings[name] = json.loads(text)
        except ValueError:
            settings[name] = text
    return settings


def run_command(arguments: argparse.Namespace) -> int:
    """Run what is left; 1 if anything failed."""
    vectors = arguments.vectors or next(iter(sorted((arguments.data / "vectors").glob("*.txt.gz"))), None)
    plan = Plan(
        find_sets(arguments.sets, arguments.data), arguments.methods, arguments.seeds, arguments.split,
        parse_changes(arguments.changes), arguments.threads, vectors, arguments.work, arguments.results,
        arguments.busy, arguments.again, arguments.keep_models,
    )  # fmt: skip
    return 1 if run_all(plan) else 0


def main() -> int:
    """Do one command; a mistake is one line and exit code 2."""
    arguments = build_parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the running method is ended, too
    try:
        if arguments.command == "run":
            return run_command(arguments)
        if arguments.command == "tables":
            publish(arguments.results, arguments.work, [] if arguments.print else arguments.files, arguments.figures)
            return 0
        for name, configuration in CONFIGURATIONS.items():
            print(f"{name}: {configuration.method} {dict(configuration.settings)}")
        print(f"methods without a line of their own: {', '.join(set(METHODS) - set(CONFIGURATIONS)) or 'none'}")
        return 0
    except HaxmlnetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on with the runs that are left", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
