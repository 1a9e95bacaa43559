"""`haxmlnet predict`: label texts with a trained model."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from haxmlnet.cli.flags import add_quiet_flag, add_reading_flags, read_options
from haxmlnet.errors import DataError, SettingError

DESCRIPTION = """\
Rank the best labels of each text. INPUT is JSON lines, CSV, TSV, Parquet, plain text with a document a line,
or one of the forms of other tools; - or nothing is standard input. One JSON object a document is
written, in the order of the input:
{"id": "...", "labels": [{"label": "...", "score": 0.97}, ...]}
"""
CHUNK = 1_000


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "predict",
        help="label texts",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL_DIR", help="a model made by 'haxmlnet fit'")
    parser.add_argument("input", metavar="INPUT", nargs="?", help="file of documents, or - for standard input")
    parser.add_argument("--text", metavar="TEXT", help="label this one text instead of a file")
    parser.add_argument("--k", type=int, default=5, metavar="N", help="labels for each document [5]")
    parser.add_argument(
        "--threshold", type=float, metavar="P", help="leave out labels that score less than this (0 to 1)"
    )
    parser.add_argument("--format", choices=("jsonl", "tsv"), default="jsonl", help="form of the output [jsonl]")
    parser.add_argument("--output", metavar="FILE", help="write here instead of to standard output")
    add_quiet_flag(parser)
    add_reading_flags(parser, labels=False, format_flag="--input-format", split="test")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Load, predict in chunks, write."""
    _check_arguments(arguments)
    from haxmlnet.cli.console import chosen_progress, say_skipped
    from haxmlnet.data import SkipReport, write_predictions
    from haxmlnet.models import load_model

    model = load_model(arguments.model)
    progress, report = chosen_progress(arguments.quiet), SkipReport()
    with _output(arguments.output) as stream:
        for ids, texts in _chunks(arguments, model, report):
            ranking = model.predict(texts, k=arguments.k)
            if arguments.threshold is not None:
                ranking = ranking.above(arguments.threshold)
            write_predictions(stream, ids, ranking, arguments.format)
            stream.flush()
    say_skipped(report, progress)


def _check_arguments(arguments: argparse.Namespace) -> None:
    if arguments.k < 1:
        raise SettingError(f"--k must be at least 1, got {arguments.k}.")
    if arguments.threshold is not None and not 0 <= arguments.threshold <= 1:
        raise SettingError(f"--threshold must be between 0 and 1, got {arguments.threshold}.")
    if arguments.text is not None and arguments.input is not None:
        raise SettingError("give either INPUT or --text, not both.")
    if arguments.text is not None:
        _check_encoding(arguments.text)
    if arguments.text is None and arguments.input is None and sys.stdin.isatty():
        raise DataError("give a file of documents, or --text for one, or pipe documents in.")


def _check_encoding(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:  # Python keeps bytes of the command line that are no UTF-8 as half characters
        raise DataError(f"--text is not UTF-8, got {text!r:.60}.") from None


def _chunks(arguments: argparse.Namespace, model: Any, report: Any) -> Iterator[tuple[list[str], Any]]:
    """Give the ids and the texts, or the features, of some documents at a time."""
    from haxmlnet.data import is_sparse, iterate_documents, read_features

    if arguments.text is not None:
        yield ["1"], [arguments.text]
        return
    source, options = "-" if arguments.input is None else arguments.input, read_options(arguments)
    if model.takes_features and is_sparse(source, options):
        rows = read_features(source, options, with_labels=False, report=report).with_n_features(model.n_features_)
        for start in range(0, len(rows), CHUNK):
            yield rows.ids[start : start + CHUNK], rows.features[start : start + CHUNK]
        return
    documents = iterate_documents(source, options, with_labels=False, report=report)
    while chunk := list(islice(documents, CHUNK)):
        yield [document.id for document in chunk], [document.text for document in chunk]


@contextmanager
def _output(path: str | None) -> Iterator[TextIO]:
    from haxmlnet.data import replace_file

    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8, whatever the terminal's language
        yield sys.stdout
        return
    with (
        replace_file(Path(path)) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream
