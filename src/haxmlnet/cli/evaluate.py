"""`haxmlnet evaluate`: measure a trained model on documents whose labels are known."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from haxmlnet.cli.flags import add_reading_flags, read_options
from haxmlnet.errors import DataError

SUMMARY = "evaluate a model"
DESCRIPTION = """\
Predict the documents of TEST and compare with their labels. All metrics are in percent: P@k, nDCG@k; PSP@k, PSnDCG@k
(propensity-scored: rare labels weigh more); R@5 and RP@5 (recall of all true labels, and of at most 5).
A second table breaks the results down by how frequent a label is in training.
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", metavar="MODEL_DIR", help="a model made by 'haxmlnet fit'")
    parser.add_argument(
        "test", metavar="TEST", help="file or directory of documents with labels, or - for standard input"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument(
        "--propensity-a", type=float, default=0.55, metavar="A", help="0.6 for Amazon, 0.5 for Wikipedia sets [0.55]"
    )
    parser.add_argument(
        "--propensity-b", type=float, default=1.5, metavar="B", help="2.6 for Amazon, 0.4 for Wikipedia sets [1.5]"
    )
    parser.add_argument(
        "--no-filter",
        action="store_true",
        help="count the pairs in filter_labels_test.txt; default: ignore them if that file lies beside TEST",
    )
    add_reading_flags(parser, labels=True, split="test")


def run(arguments: argparse.Namespace) -> None:
    """Load, predict, compare, print."""
    from haxmlnet.cli.console import make_progress, print_table, report_skipped
    from haxmlnet.data import Corpus, SkipReport, is_sparse, read_features
    from haxmlnet.data.filters import filter_pairs
    from haxmlnet.models import load_model

    progress, skipped = make_progress(arguments.quiet), SkipReport()
    options = read_options(arguments)
    model: Any = load_model(arguments.model)
    documents: Any
    if model.takes_features and is_sparse(arguments.test, options):
        rows = read_features(arguments.test, options, report=skipped).with_n_features(model.n_features_)
        documents, labels = rows.features, rows.labels
    else:
        corpus = Corpus.read(arguments.test, options, report=skipped)
        documents, labels = corpus.texts, corpus.labels

    without_filter = arguments.no_filter or arguments.test == "-"
    pairs = None if without_filter else filter_pairs(arguments.test, options)
    if pairs is not None and skipped.n_skipped:
        raise DataError(
            f"{pairs.source}: refers to documents by position, but {skipped.n_skipped} were skipped. "
            "Fix them, or use --no-filter."
        )
    report_skipped(skipped, progress)
    if pairs is not None:
        progress.say(f"{len(pairs)} pairs in {pairs.source} are ignored (--no-filter counts them)")

    started = time.perf_counter()
    report = model.evaluate(
        documents, labels, propensity_a=arguments.propensity_a, propensity_b=arguments.propensity_b, ignored=pairs
    )
    seconds = time.perf_counter() - started
    if arguments.json:
        values = {name: value if name == "n_documents" else round(value, 2) for name, value in report.values.items()}
        print(json.dumps({**values, "seconds": round(seconds, 3)}))
        return
    print_table(f"{arguments.model} on {arguments.test}", ["metric", "value"], report.rows())
    buckets = report.bucket_rows()
    print_table("by frequency of the label in training", list(buckets[0]), [list(row.values()) for row in buckets])
    progress.say(f"{len(labels)} documents in {seconds:.1f} s")
