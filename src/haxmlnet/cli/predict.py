"""`haxmlnet predict`: label texts with a trained model."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from haxmlnet.cli.flags import add_reading_flags, read_options
from haxmlnet.errors import DataError, SettingError

if TYPE_CHECKING:
    from haxmlnet.data import SkipReport

SUMMARY = "label texts"
DESCRIPTION = """\
Rank the best labels of each text. INPUT is JSON lines, CSV, TSV, Parquet, plain text with one document per line, or a
format of another tool; - or nothing means standard input. The output has one JSON object per document, in input order:
{"id": "...", "labels": [{"label": "...", "score": 0.97}, ...]}
"""
BLOCK_SIZE = 1_000


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", metavar="MODEL_DIR", help="a model made by 'haxmlnet fit'")
    parser.add_argument("input", metavar="INPUT", nargs="?", help="file of documents, or - for standard input")
    parser.add_argument("--text", metavar="TEXT", help="label this text instead of a file")
    parser.add_argument("--k", type=int, default=5, metavar="N", help="labels per document [5]")
    parser.add_argument("--threshold", type=float, metavar="P", help="drop labels with a score below this (0 to 1)")
    parser.add_argument("--format", choices=("jsonl", "tsv"), default="jsonl", help="format of the output [jsonl]")
    parser.add_argument("--output", metavar="FILE", help="write to FILE instead of standard output")
    add_reading_flags(parser, labels=False, format_flag="--input-format", split="test")


def run(arguments: argparse.Namespace) -> None:
    """Load, predict block by block, write."""
    _check(arguments)
    from haxmlnet.cli.console import make_progress, report_skipped
    from haxmlnet.data import SkipReport, write_predictions
    from haxmlnet.models import load_model

    model = load_model(arguments.model)
    report = SkipReport()
    with _open_output(arguments.output) as stream:
        for ids, documents in _read_blocks(arguments, model, report):
            ranking = model.predict(documents, k=arguments.k)
            if arguments.threshold is not None:
                ranking = ranking.above(arguments.threshold)
            write_predictions(stream, ids, ranking, arguments.format)
            stream.flush()
    report_skipped(report, make_progress(arguments.quiet))


def _check(arguments: argparse.Namespace) -> None:
    if arguments.k < 1:
        raise SettingError(f"--k must be at least 1, got {arguments.k}.")
    if arguments.threshold is not None and not 0 <= arguments.threshold <= 1:
        raise SettingError(f"--threshold must be between 0 and 1, got {arguments.threshold}.")
    if arguments.text is None:
        if arguments.input is None and sys.stdin.isatty():
            raise DataError("give a file of documents, or --text for a single one, or pipe documents in.")
        return
    if arguments.input is not None:
        raise SettingError("give either INPUT or --text, not both.")
    try:
        arguments.text.encode()
    except UnicodeEncodeError:  # Python turns bytes of the command line that are not UTF-8 into surrogates
        raise DataError(f"--text is not UTF-8, got {arguments.text!r:.60}.") from None


def _read_blocks(arguments: argparse.Namespace, model: Any, report: SkipReport) -> Iterator[tuple[list[str], Any]]:
    """Yield the ids and the texts, or the features, of one block of documents after the other."""
    from haxmlnet.data import is_sparse, iterate_documents, read_features

    if arguments.text is not None:
        yield ["1"], [arguments.text]
        return
    source, options = "-" if arguments.input is None else arguments.input, read_options(arguments)
    if model.takes_features and is_sparse(source, options):
        rows = read_features(source, options, with_labels=False, report=report).with_n_features(model.n_features_)
        for start in range(0, len(rows), BLOCK_SIZE):
            block = slice(start, start + BLOCK_SIZE)
            yield rows.ids[block], rows.features[block]
        return
    documents = iterate_documents(source, options, with_labels=False, report=report)
    while some := list(islice(documents, BLOCK_SIZE)):
        yield [document.id for document in some], [document.text for document in some]


@contextmanager
def _open_output(path: str | None) -> Iterator[TextIO]:
    from haxmlnet.data import replace_file

    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # JSON is UTF-8 in every locale
        yield sys.stdout
        return
    with (
        replace_file(Path(path)) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as stream,
    ):
        yield stream
