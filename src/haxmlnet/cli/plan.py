"""`haxmlnet plan`: what a training would take on this machine, before it is started."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from haxmlnet.cli.fit import chosen_settings
from haxmlnet.cli.flags import add_quiet_flag, add_reading_flags, add_setting_flags, read_options
from haxmlnet.errors import SettingError
from haxmlnet.settings import PRESETS, Settings, resolve_settings, settings_of

if TYPE_CHECKING:
    from haxmlnet.planning.forecast import Plan
    from haxmlnet.planning.sizes import DataSizes

DOES_NOT_FIT = 3

DESCRIPTION = """\
Say what a training of HAXMLNet would take, without training: levels and parameters, memory by part, size on disk, the
expected time on this machine, and what to change if it does not fit into memory.

DATA is what 'haxmlnet fit' takes; it is prepared in the cache, where fit finds it again. Without DATA, --labels and
--documents say how much there is; with it, they and the other sizes take the place of what is counted.
Settings are those of 'haxmlnet fit'. The exit code is 0 if the training fits into memory, and 3 if it does not.
"""


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "plan",
        help="foresee memory and time of a training",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", nargs="?", metavar="DATA", help="file or directory of training documents, or -")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--no-calibration", action="store_true", help="leave out the times, which take ten seconds")
    sizes = parser.add_argument_group("sizes")
    sizes.add_argument("--labels", type=int, metavar="N", help="labels")
    sizes.add_argument("--documents", type=int, metavar="N", help="training documents")
    sizes.add_argument("--words", type=float, metavar="X", help="words per document [200]")
    sizes.add_argument("--labels-per-document", type=float, metavar="X", help="labels per document [5]")
    sizes.add_argument("--vocabulary", type=int, metavar="N", help="different words [by the number of documents]")
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), default="default", help="settings of HAXMLNet to start from [default]"
    )
    parser.add_argument("--config", metavar="FILE.toml", help="settings as 'name = value' lines")
    parser.add_argument("--cache", metavar="DIR", help="where prepared documents are kept; as for fit")
    parser.add_argument("--no-cache", action="store_true", help="keep no prepared documents")
    add_quiet_flag(parser)
    add_reading_flags(parser, labels=True)
    add_setting_flags(parser)
    parser.set_defaults(run=run, method="HAXMLNet", validation=None, resume=False)


def run(arguments: argparse.Namespace) -> int:
    """Count, plan, time, print."""
    given = chosen_settings(arguments)
    if arguments.input is None and not (arguments.labels and arguments.documents):
        raise SettingError("plan: without DATA, --labels and --documents are needed. Give them, or a file.")
    from haxmlnet.cli.console import chosen_progress
    from haxmlnet.planning.forecast import Plan
    from haxmlnet.planning.times import Times, measure_times

    sizes = _sizes(arguments)
    settings = resolve_settings({**settings_of(Settings()), **given}, sizes.n_documents, sizes.n_labels)
    plan = Plan.of(sizes, settings)
    times: Times | None = None
    if not arguments.no_calibration and plan.fits:
        chosen_progress(arguments.quiet).say("timing a few steps ...")
        times = measure_times(plan.shape)
    if arguments.json:
        print(json.dumps({**plan.describe(), "seconds": None if times is None else times.describe()}))
    else:
        _print_plan(plan, times)
    return 0 if plan.fits else DOES_NOT_FIT


def _sizes(arguments: argparse.Namespace) -> DataSizes:
    from haxmlnet.cli.console import chosen_progress, say_skipped
    from haxmlnet.planning.sizes import DataSizes
    from haxmlnet.text.prepare import prepare

    changes = {
        name: getattr(arguments, name) for name in ("documents", "labels", "words", "labels_per_document", "vocabulary")
    }
    if arguments.input is None:
        counted = DataSizes.of_numbers(arguments.documents, arguments.labels)
        return counted.replace(**changes)
    progress = chosen_progress(arguments.quiet)
    with TemporaryDirectory(prefix="haxmlnet-", ignore_cleanup_errors=True) as scratch:
        directory = Path(scratch) / "train" if arguments.no_cache or arguments.input == "-" else None
        corpus = prepare(arguments.input, directory, read_options(arguments), cache=arguments.cache, progress=progress)
        say_skipped(corpus.skipped, progress)
        return DataSizes.of_corpus(corpus).replace(**changes)


def _print_plan(plan: Plan, times: Any) -> None:
    from haxmlnet.cli.console import print_table

    shape, memory = plan.shape, plan.memory
    read = shape.sizes.mean_length(shape.config.text.max_length)
    sizes = f"{shape.sizes.n_documents:,} documents with {shape.sizes.labels_per_document:.3g} of "
    sizes += f"{shape.sizes.n_labels:,} labels and {float(shape.sizes.lengths.mean()):.0f} words each, "
    print(f"{sizes}{read:.0f} of them read; {shape.vocabulary:,} different words")
    n_trees = shape.config.tree.n_trees
    trees = "1 tree" if n_trees == 1 else f"{n_trees} trees"
    columns = ["level", "nodes", "children", "parameters", "candidates in training", "in prediction"]
    print_table(f"{trees}, {shape.parameters:,} parameters", columns, _level_rows(plan))
    stages = list(memory.totals)
    print_table("memory in GB", ["", *stages], _memory_rows(plan, stages))
    print(
        f"Files mapped into memory, which need no room in it: {_size(memory.mapped)}. "
        f"Model on disk: {_size(memory.model_bytes)}; a checkpoint: {_size(memory.checkpoint_bytes)}."
    )
    if times is not None:
        print_table("expected time on this machine", ["", ""], [[n, _duration(s)] for n, s in times.rows()])
        print(f"Prediction: {1000 * times.prediction:.2g} ms for each document among many.")
    print("\n".join(_verdict(plan)))


def _level_rows(plan: Plan) -> Iterator[list[str]]:
    for level in plan.shape.levels:
        children = f"{level.children:.3g}" if level.children else ""
        candidates = f"{level.training_candidates:,.0f}", f"{level.prediction_candidates:,}"
        yield [str(level.level), f"{level.nodes:,}", children, f"{level.parameters:,}", *candidates]


def _memory_rows(plan: Plan, stages: list[str]) -> Iterator[list[str]]:
    for name, part in plan.memory.parts.items():
        yield [name, *(f"{part[stage] / 1e9:.2f}" if part.get(stage) else "" for stage in stages)]
    yield ["together", *(f"{plan.memory.totals[stage] / 1e9:.2f}" for stage in stages)]


def _verdict(plan: Plan) -> Iterator[str]:
    peak = _size(plan.memory.training_peak)
    if plan.room is None:
        yield f"Training takes about {peak}; how much is free, this system does not say."
        return
    if plan.fits:
        how = "Fits, but tightly" if plan.is_tight else "Fits"
        yield f"{how}: training takes about {peak} at its peak, and this machine has {_size(plan.room)} for it."
        return
    yield f"Does not fit: training takes about {peak} at its peak, but this machine has {_size(plan.room)} for it."
    changes = plan.advice
    if changes and changes[-1].fits:
        yield "Any of these makes it fit:" if changes[0].fits else "These together make it fit:"
    else:
        yield "No setting makes it fit. These save the most:"
    for change in changes:
        yield f"  {change.flag} saves {_size(change.saved)}"


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.0f} MB"


def _duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else str(timedelta(seconds=round(seconds)))
