"""`haxmlnet plan`: what a training would take on this machine, before it is started."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from haxmlnet.cli.fit import add_cache_flags
from haxmlnet.cli.flags import add_reading_flags, read_options
from haxmlnet.cli.setting_flags import add_setting_flags, choose_settings
from haxmlnet.errors import SettingError

if TYPE_CHECKING:
    from haxmlnet.planning.forecast import Plan
    from haxmlnet.progress import Progress

DOES_NOT_FIT = 3

SUMMARY = "estimate memory and time of a training"
DESCRIPTION = """\
Estimate what a training of HAXMLNet would take, without training: levels and parameters, memory by part, size on disk,
the expected time on this machine, and what to change if it does not fit into memory.

DATA is what 'haxmlnet fit' takes; it is prepared in the cache, where fit finds it again. Without DATA, --labels and
--documents say how much there is; with DATA, they and the other sizes replace what is counted.
Settings are those of 'haxmlnet fit'. The exit code is 0 if the training fits into memory, and 3 if it does not.
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("input", nargs="?", metavar="DATA", help="file or directory of training documents, or -")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--no-calibration", action="store_true", help="skip the times, which take ten seconds")
    sizes = parser.add_argument_group("sizes")
    sizes.add_argument("--labels", type=int, metavar="N", help="labels")
    sizes.add_argument("--documents", type=int, metavar="N", help="training documents")
    sizes.add_argument("--words", type=float, metavar="X", help="words per document [200]")
    sizes.add_argument("--labels-per-document", type=float, metavar="X", help="labels per document [5]")
    sizes.add_argument("--vocabulary", type=int, metavar="N", help="distinct words [by the number of documents]")
    add_cache_flags(parser)
    add_reading_flags(parser, labels=True)
    add_setting_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Count, plan, time, print."""
    settings = choose_settings(arguments)
    if arguments.input is None and not (arguments.labels and arguments.documents):
        raise SettingError("plan: without DATA, --labels and --documents are needed. Give both, or a file.")
    from haxmlnet.cli.console import make_progress, print_table
    from haxmlnet.planning.times import measure_times

    progress = make_progress(arguments.quiet)
    plan = _make_plan(arguments, settings, progress)
    times = None
    if plan.fits and not arguments.no_calibration:
        progress.say("timing a few steps ...")
        times = measure_times(plan.shape)

    description = plan.describe()
    if arguments.json:
        print(json.dumps({**description, "seconds": None if times is None else times.describe()}))
    else:
        _print_sizes(description)
        if times is not None:
            rows = [[name, _format_duration(seconds)] for name, seconds in times.rows()]
            print_table("expected time on this machine", ["", ""], rows)
            print(f"Prediction: {1000 * times.prediction:.2g} ms per document in large batches.")
        print("\n".join(_judge(description)))
    return 0 if plan.fits else DOES_NOT_FIT


def _make_plan(arguments: argparse.Namespace, settings: dict[str, Any], progress: Progress) -> Plan:
    from haxmlnet.cli.console import report_skipped
    from haxmlnet.models.haxmlnet import HAXMLNet
    from haxmlnet.text.prepare import prepare

    with TemporaryDirectory(prefix="haxmlnet-", ignore_cleanup_errors=True) as scratch:
        corpus = None
        if arguments.input is not None:
            directory = Path(scratch) / "train" if arguments.no_cache or arguments.input == "-" else None
            options = read_options(arguments)
            corpus = prepare(arguments.input, directory, options, cache=arguments.cache, progress=progress)
            report_skipped(corpus.skipped, progress)
        return HAXMLNet(**settings).plan(
            corpus,
            documents=arguments.documents,
            labels=arguments.labels,
            words=arguments.words,
            labels_per_document=arguments.labels_per_document,
            vocabulary=arguments.vocabulary,
        )


def _print_sizes(plan: dict[str, Any]) -> None:
    from haxmlnet.cli.console import print_table

    sizes = plan["sizes"]
    print(
        f"{sizes['documents']:,} documents with {sizes['labels_per_document']:.3g} of {sizes['labels']:,} labels and "
        f"{sizes['words_per_document']:.0f} words each, {sizes['words_read_per_document']:.0f} of them read; "
        f"{sizes['vocabulary']:,} distinct words"
    )

    trees = "1 tree" if plan["n_trees"] == 1 else f"{plan['n_trees']} trees"
    columns = ["level", "nodes", "children", "parameters", "candidates in training", "in prediction"]
    rows = [
        [
            str(level["level"]), f"{level['nodes']:,}", f"{level['children']:.3g}" if level["children"] else "",
            f"{level['parameters']:,}", f"{level['training_candidates']:,.0f}", f"{level['prediction_candidates']:,}",
        ]
        for level in plan["levels"]
    ]  # fmt: skip
    print_table(f"{trees}, {plan['parameters']:,} parameters", columns, rows)

    totals = plan["memory_totals"]
    parts = {**plan["memory_bytes"], "total": totals}
    rows = [
        [name, *(f"{part[stage] / 1e9:.2f}" if part.get(stage) else "" for stage in totals)]
        for name, part in parts.items()
    ]
    print_table("memory in GB", ["", *totals], rows)
    print(
        f"Memory-mapped files, which need no room: {_format_size(plan['mapped_bytes'])}. "
        f"Model on disk: {_format_size(plan['model_bytes'])}; checkpoint: {_format_size(plan['checkpoint_bytes'])}."
    )


def _judge(plan: dict[str, Any]) -> Iterator[str]:
    peak = f"training takes about {_format_size(plan['training_peak_bytes'])} at its peak"
    if plan["available_bytes"] is None:
        yield f"Unknown whether it fits: {peak}, and this system does not say how much memory is free."
        return
    # What the process already holds counts on both sides: as a part of the peak, and of the room for it.
    present = plan["training_peak_bytes"] - plan["needed_bytes"]
    room = f"this machine has {_format_size(plan['available_bytes'] + present)} for it"
    if plan["fits"]:
        yield f"{'Fits, but tightly' if plan['is_tight'] else 'Fits'}: {peak}, and {room}."
        return
    yield f"Does not fit: {peak}, but {room}."
    changes = plan["advice"]
    if changes and changes[-1]["fits"]:
        yield "Any of these makes it fit:" if changes[0]["fits"] else "These together make it fit:"
    else:
        yield "No setting makes it fit. These save the most:"
    for change in changes:
        yield f"  {change['flag']} saves {_format_size(change['saved'])}"


def _format_size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.0f} MB"


def _format_duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else str(timedelta(seconds=round(seconds)))
