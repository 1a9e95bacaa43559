"""`haxmlnet check`: what is in the data, and what should be mended before training."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from haxmlnet.cli.flags import add_quiet_flag, add_reading_flags, read_options
from haxmlnet.errors import DataError

if TYPE_CHECKING:
    from haxmlnet.data import ReadOptions
    from haxmlnet.data.survey import Survey

DESCRIPTION = """\
Read documents and report their number, labels, lengths, and what deserves a look: lines that cannot be read, empty
and duplicate texts, documents without labels. With --test also what training and test documents share. Of sparse
files, which have no texts, it counts features instead of words.
"""
BAR_WIDTH = 40
ADVICE = {
    "bad_lines": ("lines that cannot be read", "Mend them, or train with --on-error skip"),
    "empty_texts": (
        "documents with an empty text",
        "Add the text, or leave them out: nothing can be learned from them",
    ),
    "documents_without_labels": ("documents without labels", "Fine in small numbers; else see --label-field"),
    "empty_rows": ("documents without features", "Leave them out: nothing can be learned from them"),
    "duplicate_texts": ("texts that were there before", "Leave them out, or join their labels"),
    "duplicate_rows": ("rows of features that were there before", "Leave them out, or join their labels"),
    "duplicate_ids": ("ids that were there before", "Give each document its own, or results cannot be told apart"),
    "shared_texts": ("test texts that are in training, too", "Leave them out of one, or the figures flatter"),
    "shared_rows": ("test rows that are in training, too", "Leave them out of one, or the figures flatter"),
    "unknown_labels": ("labels of test that training lacks", "These can never be found; add documents that have them"),
}


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "check",
        help="look at data before training",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", metavar="DATA", help="file or directory of documents, or - for standard input")
    parser.add_argument("--test", metavar="FILE", help="test documents to compare with; a directory stands for its own")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    add_quiet_flag(parser)
    add_reading_flags(parser, labels=True, on_error="skip")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, count, print."""
    from haxmlnet.data import find_file
    from haxmlnet.data.survey import shared_contents, unknown_labels

    options = read_options(arguments)
    surveys, reports, titles = {}, {}, {"both": "train and test"}
    for part, path, split in (("data", arguments.data, options.split), ("test", arguments.test, "test")):
        if path:
            titles[part] = str(find_file(path, replace(options, split=split)))
            surveys[part], reports[part] = _surveyed(arguments.quiet, titles[part], options)
    if arguments.test:
        train, test = surveys["data"], surveys["test"]
        if train.content != test.content:
            raise DataError(
                f"{titles['test']}: has {test.content}, but {titles['data']} has {train.content}. Give both."
            )
        reports["both"] = {
            f"shared_{train.content}": vars(shared_contents(train, test)),
            "unknown_labels": vars(unknown_labels(train, test)),
        }
    if arguments.json:
        print(json.dumps(reports))
    else:
        _print_reports(reports, titles)


def _surveyed(quiet: bool, path: str, options: ReadOptions) -> tuple[Survey, dict[str, Any]]:
    from haxmlnet.cli.console import chosen_progress, counted
    from haxmlnet.data import SkipReport, is_sparse, iterate_documents, read_features
    from haxmlnet.data.survey import survey_documents, survey_features

    skipped = SkipReport()
    with chosen_progress(quiet).stage("check", None, "documents") as advance:
        if is_sparse(path, options):
            survey = survey_features(read_features(path, options, report=skipped))
        else:
            documents = iterate_documents(path, options, with_labels=True, report=skipped)
            survey = survey_documents(counted(documents, advance))
    bad_lines = {"count": skipped.n_skipped, "examples": skipped.messages}
    return survey, {**survey.summary(), "bad_lines": bad_lines}


def _print_reports(reports: dict[str, dict[str, Any]], titles: dict[str, str]) -> None:
    from haxmlnet.cli.console import print_table

    for part, report in reports.items():
        if "n_documents" in report:
            size = f"{report['n_documents']:,} documents, {report['n_labels']:,} labels"
            size += f", {report['n_features']:,} features" if "n_features" in report else ""
            print_table(f"{titles[part]}: {size}", ["", "mean", "median", "least", "most"], _rows(report))
            print("  documents    labels")
            print("\n".join(_bars(report["labels_by_documents"])), end="\n\n")
    found = [line for part, report in reports.items() for line in _findings(titles[part], report)]
    print("\n".join(found) if found else "Nothing to mend.")


def _rows(report: dict[str, Any]) -> Iterator[list[str]]:
    names = {
        "labels_per_document": "labels per document",
        "documents_per_label": "documents per label",
        "words_per_document": "words per document",
        "features_per_document": "features per document",
    }
    for key, name in names.items():
        if key not in report:
            continue
        yield [name, *(_number(report[key][column]) for column in ("mean", "median", "min", "max"))]


def _bars(histogram: dict[str, int]) -> Iterator[str]:
    most = max(histogram.values())
    last = max((i for i, n_labels in enumerate(histogram.values()) if n_labels), default=-1)
    for name, n_labels in list(histogram.items())[: last + 1]:
        yield f"{name:>11} {n_labels:>9,} {'#' * -(-n_labels * BAR_WIDTH // most)}".rstrip()


def _findings(title: str, report: dict[str, Any]) -> Iterator[str]:
    for key, (what, advice) in ADVICE.items():
        finding = report.get(key)
        if finding and finding["count"]:
            yield f"{title}: {what}: {finding['count']:,}. {advice}. The first:"
            for example in finding["examples"]:
                yield f"  {_printable(example)}"


def _number(value: float) -> str:
    return f"{value:,.2f}".removesuffix("0").removesuffix("0").removesuffix(".")


def _printable(text: str) -> str:
    """Keep a label from breaking the line or the encoding of the terminal."""
    encoding = sys.stdout.encoding or "utf-8"
    return (text if text.isprintable() else repr(text)).encode(encoding, "backslashreplace").decode(encoding)
