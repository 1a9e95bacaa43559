"""`haxmlnet check`: what is in the data, and what should be fixed before training."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from haxmlnet.cli.flags import add_reading_flags, read_options
from haxmlnet.errors import DataError

if TYPE_CHECKING:
    from haxmlnet.data import ReadOptions
    from haxmlnet.data.survey import Survey

SUMMARY = "look at data before training"
DESCRIPTION = """\
Read documents and report how many there are, their labels and lengths, and what deserves attention: lines that cannot
be read, empty and duplicate texts, documents without labels. With --test, also what training and test documents share.
In sparse files, which have no texts, features are counted instead of words.
"""
BAR_WIDTH = 40
STATISTICS = {
    "labels_per_document": "labels per document",
    "documents_per_label": "documents per label",
    "words_per_document": "words per document",
    "features_per_document": "features per document",
}
ADVICE = {
    "bad_lines": ("lines that cannot be read", "Fix them, or train with --on-error skip"),
    "empty_texts": ("documents with an empty text", "Add the text or remove them: there is nothing to learn from them"),
    "documents_without_labels": ("documents without labels", "A few do no harm; if there are many, see --label-field"),
    "empty_rows": ("documents without features", "Remove them: there is nothing to learn from them"),
    "duplicate_texts": ("duplicate texts", "Remove them, or merge their labels"),
    "duplicate_rows": ("duplicate rows of features", "Remove them, or merge their labels"),
    "duplicate_ids": ("duplicate ids", "Make ids unique, or results cannot be told apart"),
    "shared_texts": ("test texts that are also in training", "Remove them from one, or the metrics will be too good"),
    "shared_rows": ("test rows that are also in training", "Remove them from one, or the metrics will be too good"),
    "unknown_labels": (
        "test labels that are not in training",
        "They are never predicted; add documents that have them",
    ),
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("data", metavar="DATA", help="file or directory of documents, or - for standard input")
    parser.add_argument(
        "--test", metavar="FILE", help="test documents to compare with; a directory means its test file"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    add_reading_flags(parser, labels=True, on_error="skip")


def run(arguments: argparse.Namespace) -> None:
    """Read, count, print."""
    from haxmlnet.data import find_file
    from haxmlnet.data.survey import find_shared_contents, find_unknown_labels

    options = read_options(arguments)
    surveys, reports, titles = {}, {}, {"both": "train and test"}
    for part, path, split in (("data", arguments.data, options.split), ("test", arguments.test, "test")):
        if path:
            titles[part] = str(find_file(path, replace(options, split=split)))
            surveys[part], reports[part] = _survey(titles[part], options, arguments.quiet)
    if arguments.test:
        train, test = surveys["data"], surveys["test"]
        if train.content != test.content:
            raise DataError(
                f"{titles['test']}: has {test.content}, but {titles['data']} has {train.content}. "
                f"Give {train.content} for both."
            )
        reports["both"] = {
            f"shared_{train.content}": vars(find_shared_contents(train, test)),
            "unknown_labels": vars(find_unknown_labels(train, test)),
        }

    if arguments.json:
        print(json.dumps(reports))
        return
    for part in surveys:
        _print_counts(titles[part], reports[part])
    lines = [line for part, report in reports.items() for line in _list_problems(titles[part], report)]
    print("\n".join(lines) if lines else "Nothing to fix.")


def _survey(path: str, options: ReadOptions, quiet: bool) -> tuple[Survey, dict[str, Any]]:
    from haxmlnet.cli.console import count_items, make_progress
    from haxmlnet.data import SkipReport, is_sparse, iterate_documents, read_features
    from haxmlnet.data.survey import survey_documents, survey_features

    skipped = SkipReport()
    with make_progress(quiet).stage("check", None, "documents") as advance:
        if is_sparse(path, options):
            survey = survey_features(read_features(path, options, report=skipped))
        else:
            documents = iterate_documents(path, options, with_labels=True, report=skipped)
            survey = survey_documents(count_items(documents, advance))
    bad_lines = {"count": skipped.n_skipped, "examples": skipped.messages}
    return survey, {**survey.summary(), "bad_lines": bad_lines}


def _print_counts(title: str, report: dict[str, Any]) -> None:
    from haxmlnet.cli.console import print_table

    size = f"{report['n_documents']:,} documents, {report['n_labels']:,} labels"
    size += f", {report['n_features']:,} features" if "n_features" in report else ""
    rows = [
        [name, *(_format_number(report[key][column]) for column in ("mean", "median", "min", "max"))]
        for key, name in STATISTICS.items()
        if key in report
    ]
    print_table(f"{title}: {size}", ["", "mean", "median", "min", "max"], rows)

    # A bar for each bucket up to the last one with a label in it.
    print("  documents    labels")
    histogram = list(report["labels_by_documents"].items())
    while histogram and not histogram[-1][1]:
        histogram.pop()
    most = max((n_labels for _, n_labels in histogram), default=0)
    for name, n_labels in histogram:
        print(f"{name:>11} {n_labels:>9,} {'#' * -(-n_labels * BAR_WIDTH // most)}".rstrip())
    print()


def _format_number(value: float) -> str:
    return f"{value:,.2f}".removesuffix("0").removesuffix("0").removesuffix(".")


def _list_problems(title: str, report: dict[str, Any]) -> Iterator[str]:
    encoding = sys.stdout.encoding or "utf-8"
    for key, (problem, advice) in ADVICE.items():
        finding = report.get(key)
        if finding and finding["count"]:
            yield f"{title}: {problem}: {finding['count']:,}. {advice}. The first:"
            for example in finding["examples"]:
                # A label must break neither the line nor the encoding of the terminal.
                shown = example if example.isprintable() else repr(example)
                yield f"  {shown.encode(encoding, 'backslashreplace').decode(encoding)}"
