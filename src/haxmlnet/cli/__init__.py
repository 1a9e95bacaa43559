"""The command line: one file per command; each parses, calls the library and prints."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from haxmlnet.cli import check, convert, demo, evaluate, fit, inspect, plan, predict
from haxmlnet.cli.flags import add_quiet_flag
from haxmlnet.errors import HaxmlnetError, TrainingInterrupted
from haxmlnet.version import __version__

COMMANDS = {
    "fit": fit,
    "predict": predict,
    "evaluate": evaluate,
    "inspect": inspect,
    "check": check,
    "plan": plan,
    "convert": convert,
    "demo": demo,
}
USER_ERROR = 2
INTERRUPTED = 130

DESCRIPTION = "Give each text the right few labels out of thousands to millions."
EPILOG = """\
first steps:
  haxmlnet demo                                   train on bundled data and see the results
  haxmlnet fit train.jsonl --out model            train on your own texts and labels
  haxmlnet evaluate model test.jsonl              evaluate the model on unseen texts
  haxmlnet predict model new.jsonl --k 5          label new texts

'haxmlnet COMMAND --help' explains each command. Results go to standard output, progress and errors to
standard error. Exit codes: 0 success, 2 an error that one line explains, 3 'plan' found that a training
does not fit into memory, 130 interrupted.
"""


class Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2."""
        self.exit(USER_ERROR, f"{self.prog}: error: {message}. See '{self.prog} --help'.\n")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    layout = argparse.RawDescriptionHelpFormatter
    parser = Parser("haxmlnet", description=DESCRIPTION, epilog=EPILOG, formatter_class=layout)
    parser.add_argument("--version", action="version", version=f"haxmlnet {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=command.SUMMARY, description=command.DESCRIPTION, formatter_class=layout
        )
        command.add_flags(subparser)
        add_quiet_flag(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parse(argv)
    try:
        code: int | None = arguments.run(arguments)
        sys.stdout.flush()
        return code or 0
    except TrainingInterrupted as interruption:
        print(f"haxmlnet: {interruption}", file=sys.stderr)
        return INTERRUPTED
    except KeyboardInterrupt:
        print("haxmlnet: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader is gone (head, less): nothing is wrong
        _discard_output()
        return 0
    except (HaxmlnetError, OSError) as error:
        if isinstance(error, OSError):
            _discard_output()
        print(f"haxmlnet: error: {' '.join(str(error).split())}", file=sys.stderr)
        return USER_ERROR


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    # argparse takes an optional INPUT for absent as soon as a flag follows MODEL_DIR, even if INPUT comes later.
    if len(rest) == 1 and getattr(arguments, "input", "") is None and (rest == ["-"] or not rest[0].startswith("-")):
        arguments.input = rest.pop()
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def _discard_output() -> None:
    # What could not be written is still in the buffer, and Python would try again, and complain, at exit.
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
