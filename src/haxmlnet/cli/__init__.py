"""The command line: one file per command; each parses, calls the library and prints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from haxmlnet.cli import check, convert, demo, evaluate, fit, inspect, plan, predict
from haxmlnet.errors import HaxmlnetError, TrainingInterrupted
from haxmlnet.version import __version__

USER_ERROR = 2
INTERRUPTED = 130

DESCRIPTION = "Give each text the right few labels out of thousands to millions."
EPILOG = """\
first steps:
  haxmlnet demo                                   train on bundled data and see the results
  haxmlnet fit train.jsonl --out model            train on your own texts and labels
  haxmlnet evaluate model test.jsonl              measure it on texts it has not seen
  haxmlnet predict model new.jsonl --k 5          label new texts

'haxmlnet COMMAND --help' explains each command. Results go to standard output, everything else to
standard error. Exit codes: 0 success, 2 a mistake that one line explains, 3 'plan' found that a training does not fit
into memory, 130 interrupted.
"""


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a command."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(USER_ERROR, f"{self.prog}: error: {message}. See '{self.prog} --help'.\n")


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    parser = Parser(
        "haxmlnet",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"haxmlnet {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in (fit, predict, evaluate, inspect, check, plan, convert, demo):
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code."""
    arguments = _parsed(argv)
    try:
        code: int | None = arguments.run(arguments)
        sys.stdout.flush()
        return code or 0
    except TrainingInterrupted as interruption:
        print(f"haxmlnet: {interruption}", file=sys.stderr)
        return INTERRUPTED
    except HaxmlnetError as error:
        print(f"haxmlnet: error: {_one_line(error)}", file=sys.stderr)
        return USER_ERROR
    except KeyboardInterrupt:
        print("haxmlnet: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()  # the reader has gone (head, less): nothing is wrong
    except OSError as error:
        _drop_output()
        print(f"haxmlnet: error: {_one_line(error)}", file=sys.stderr)
        return USER_ERROR
    return 0


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    # For argparse an optional INPUT is absent as soon as a flag follows MODEL_DIR, even if it comes later.
    if len(rest) == 1 and getattr(arguments, "input", "") is None and (rest == ["-"] or not rest[0].startswith("-")):
        arguments.input = rest.pop()
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def _drop_output() -> None:
    # What could not be written is still in the buffer, and Python would try and complain again at exit.
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
