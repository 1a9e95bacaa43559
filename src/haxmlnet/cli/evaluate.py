"""`haxmlnet evaluate`: measure a trained model on documents whose labels are known."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from haxmlnet.cli.flags import add_quiet_flag, add_reading_flags, read_options
from haxmlnet.errors import DataError

DESCRIPTION = """\
Predict the documents of TEST and compare with their labels. All metrics are in percent:
P@k, nDCG@k; PSP@k, PSnDCG@k (rare labels weigh more, by propensities); R@5 and RP@5 (recall against all
true labels, and against at most 5). A second table tells how frequent and rare labels fare.
"""


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "evaluate",
        help="measure a model",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL_DIR", help="a model made by 'haxmlnet fit'")
    parser.add_argument(
        "test", metavar="TEST", help="file or directory of documents with labels, or - for standard input"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument(
        "--propensity-a",
        type=float,
        default=0.55,
        metavar="A",
        help="0.6 for Amazon, 0.5 for Wikipedia sets [0.55]",
    )
    parser.add_argument(
        "--propensity-b",
        type=float,
        default=1.5,
        metavar="B",
        help="2.6 for Amazon, 0.4 for Wikipedia sets [1.5]",
    )
    parser.add_argument(
        "--no-filter",
        action="store_true",
        help="count the pairs of filter_labels_test.txt, which by default are left out where it lies beside TEST",
    )
    add_quiet_flag(parser)
    add_reading_flags(parser, labels=True, split="test")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Load, predict, compare, print."""
    from haxmlnet.cli.console import chosen_progress, print_table, say_skipped
    from haxmlnet.data import SkipReport
    from haxmlnet.models import load_model

    progress, skipped = chosen_progress(arguments.quiet), SkipReport()
    model = load_model(arguments.model)
    documents, labels = _test_documents(arguments, model, skipped)
    pairs = None if arguments.no_filter else _pairs_to_ignore(arguments, skipped)
    say_skipped(skipped, progress)
    if pairs is not None:
        progress.say(f"{len(pairs)} pairs of {pairs.source} do not count (--no-filter: they do)")
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
    rows = report.bucket_rows()
    print_table("by frequency of the label in training", list(rows[0]), [list(row.values()) for row in rows])
    progress.say(f"{len(labels)} documents in {seconds:.1f} s")


def _test_documents(arguments: argparse.Namespace, model: Any, skipped: Any) -> tuple[Any, list[tuple[str, ...]]]:
    """Give the texts, or the features, of the documents and their labels."""
    from haxmlnet.data import Corpus, is_sparse, read_features

    options = read_options(arguments)
    if model.takes_features and is_sparse(arguments.test, options):
        rows = read_features(arguments.test, options, report=skipped).with_n_features(model.n_features_)
        return rows.features, rows.labels
    test = Corpus.read(arguments.test, options, report=skipped)
    return test.texts, test.labels


def _pairs_to_ignore(arguments: argparse.Namespace, skipped: Any) -> Any:
    """Read the filter file beside the documents, if there is one."""
    from haxmlnet.data.filters import filter_pairs

    if arguments.test == "-":
        return None
    pairs = filter_pairs(arguments.test, read_options(arguments))
    if pairs is not None and skipped.n_skipped:
        raise DataError(
            f"{pairs.source}: counts documents by their place, but {skipped.n_skipped} were skipped. "
            "Mend them, or use --no-filter."
        )
    return pairs
