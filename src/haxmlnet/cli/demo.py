"""`haxmlnet demo`: the whole workflow on the bundled data, from training to predictions."""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

SUMMARY = "train and evaluate on bundled data"
DESCRIPTION = """\
Train HAXMLNet on the bundled vulnerability reports (4,885 texts, 1,111 products), compare it on 1,160 unseen
reports with one-vs-rest linear SVMs, and label three of them. Takes a few minutes on two cores.
"""
SHOWN_METRICS = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@5", "RP@5")
SHOWN_DOCUMENTS = 3


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--out", metavar="MODEL_DIR", help="save the model here; default: it is discarded")


def run(arguments: argparse.Namespace) -> None:
    """Train both methods, save and load HAXMLNet, print the comparison and three documents."""
    from haxmlnet.bundled import cve_small
    from haxmlnet.cli.console import make_progress, print_table
    from haxmlnet.models.haxmlnet import HAXMLNet
    from haxmlnet.models.one_vs_rest import OneVsRestSVM
    from haxmlnet.store import check_replaceable

    if arguments.out:
        check_replaceable(arguments.out)
    progress = make_progress(arguments.quiet)
    train, test = cve_small("train"), cve_small("test")
    progress.say(f"{len(train)} vulnerability reports to train on, {len(test)} to test on")
    model = HAXMLNet().fit(train.texts, train.labels, progress=progress)
    with TemporaryDirectory() as scratch:
        path = Path(arguments.out or Path(scratch) / "model")
        model.save(path)
        model = HAXMLNet.load(path)
    baseline = OneVsRestSVM().fit(train.texts, train.labels, progress=progress)

    rows = []
    for method in (model, baseline):
        values = method.evaluate(test.texts, test.labels).values
        metrics = [f"{values[name]:.2f}" for name in SHOWN_METRICS]
        rows.append([type(method).__name__, *metrics, f"{method.training_['seconds']:.0f}"])
    print_table(f"{len(test)} test documents, percent", ["method", *SHOWN_METRICS, "training s"], rows)

    ranking = model.predict(test.texts[:SHOWN_DOCUMENTS])
    for text, true, scored in zip(test.texts, test.labels, ranking, strict=False):
        rows = [[str(label), f"{score:.2f}", "yes" if label in true else "no"] for label, score in scored]
        print_table(f"{text[:300]}{'...' if len(text) > 300 else ''}", ["predicted label", "score", "true"], rows)
