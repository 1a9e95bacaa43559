"""`haxmlnet evaluate`: measure a trained model on documents whose labels are known."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from haxmlnet.cli.flags import add_quiet_flag, add_reading_flags, read_options

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
    add_quiet_flag(parser)
    add_reading_flags(parser, labels=True, split="test")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Load, predict, compare, print."""
    from haxmlnet.cli.console import chosen_progress, print_table, say_skipped
    from haxmlnet.data import Corpus, SkipReport
    from haxmlnet.methods import load_model

    progress, skipped = chosen_progress(arguments.quiet), SkipReport()
    model = load_model(arguments.model)
    test = Corpus.read(arguments.test, read_options(arguments), report=skipped)
    say_skipped(skipped, progress)
    started = time.perf_counter()
    report = model.evaluate(
        test.texts, test.labels, propensity_a=arguments.propensity_a, propensity_b=arguments.propensity_b
    )
    seconds = time.perf_counter() - started
    if arguments.json:
        values = {name: value if name == "n_documents" else round(value, 2) for name, value in report.values.items()}
        print(json.dumps({**values, "seconds": round(seconds, 3)}))
        return
    print_table(f"{arguments.model} on {arguments.test}", ["metric", "value"], report.rows())
    rows = report.bucket_rows()
    print_table("by frequency of the label in training", list(rows[0]), [list(row.values()) for row in rows])
    progress.say(f"{len(test)} documents in {seconds:.1f} s")
