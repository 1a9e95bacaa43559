"""`haxmlnet fit`: train a model on a file of texts and labels."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from haxmlnet.cli.flags import add_reading_flags, read_options
from haxmlnet.cli.setting_flags import add_setting_flags, choose_settings
from haxmlnet.errors import SettingError, TrainingInterrupted
from haxmlnet.settings import METHOD_SETTINGS

if TYPE_CHECKING:
    from haxmlnet.data import ReadOptions
    from haxmlnet.data.prepared import PreparedCorpus
    from haxmlnet.models.haxmlnet import HAXMLNet
    from haxmlnet.progress import Progress

SUMMARY = "train a model"
DESCRIPTION = """\
Train HAXMLNet, or the method given by --method, on texts with labels and save it as a model directory.

TRAIN is JSON lines ({"text": "...", "labels": ["a", "b"]}), or CSV, TSV or Parquet with columns text and labels, or a
format of another tool (--format); plain, .gz or .zst; or a directory that holds such a file.
Sparse feature files, which have no texts, are for the linear methods (--method LinearTree).
The documents are read once and cached as arrays, so that the next training on the same content starts at once.
Settings come from the preset, then the configuration file, then the flags; the last one wins.
After a crash or an interruption, the same command with --resume continues where it stopped.
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "train", metavar="TRAIN", help="file or directory of training documents, or - for standard input"
    )
    parser.add_argument("--out", required=True, metavar="MODEL_DIR", help="where to save the model")
    parser.add_argument(
        "--validation", metavar="FILE", help="documents for choosing the best weights; default: a part of TRAIN"
    )
    parser.add_argument(
        "--method",
        choices=tuple(METHOD_SETTINGS),
        default="HAXMLNet",
        help="what to train: attention networks, or linear classifiers over a tree or one per label [HAXMLNet]",
    )
    parser.add_argument("--resume", action="store_true", help="continue an interrupted training")
    add_cache_flags(parser)
    add_reading_flags(parser, labels=True)
    add_setting_flags(parser)


def add_cache_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where prepared documents are kept."""
    parser.add_argument(
        "--cache",
        metavar="DIR",
        help="where prepared documents are kept; default: $HAXMLNET_CACHE, else the user's cache directory",
    )
    parser.add_argument("--no-cache", action="store_true", help="do not keep the prepared documents")


def run(arguments: argparse.Namespace) -> None:
    """Prepare, train, save."""
    method = arguments.method
    if method != "HAXMLNet":
        for flag, is_given in (
            ("--preset", arguments.preset != "default"),
            ("--validation", arguments.validation is not None),
            ("--resume", arguments.resume),
        ):
            if is_given:
                raise SettingError(f"{flag}: is for HAXMLNet; {method} has no use for it. Leave it out.")
    settings = choose_settings(arguments, method)
    from haxmlnet.cli.console import make_progress, report_skipped
    from haxmlnet.data import SkipReport, is_sparse, read_features
    from haxmlnet.models import METHODS
    from haxmlnet.store import check_replaceable

    check_replaceable(arguments.out)
    progress, options = make_progress(arguments.quiet), read_options(arguments)
    model: Any = METHODS[method](**settings)

    if model.takes_features and is_sparse(arguments.train, options):
        report = SkipReport()
        rows = read_features(arguments.train, options, report=report)
        report_skipped(report, progress)
        progress.say(f"{len(rows)} training documents from {rows.source}")
        model.fit(rows.features, rows.targets, label_names=rows.label_names, progress=progress)
        model.save(arguments.out)
    else:
        with TemporaryDirectory(prefix="haxmlnet-", ignore_cleanup_errors=True) as scratch:
            train, validation = _prepare_corpora(arguments, options, Path(scratch), progress)
            progress.say(f"{len(train)} training documents from {train.source}")
            if method == "HAXMLNet":
                _train_resumably(model, train, validation, arguments, progress)
            else:
                model.fit_prepared(train, progress=progress)
                model.save(arguments.out)
    progress.say(f"trained in {model.training_['seconds']:.0f} s, saved in {arguments.out}")


def _prepare_corpora(
    arguments: argparse.Namespace, options: ReadOptions, scratch: Path, progress: Progress
) -> tuple[PreparedCorpus, PreparedCorpus | None]:
    """Prepare the documents in the cache or, if they are not to be kept, in a directory that the caller removes."""
    from haxmlnet.cli.console import report_skipped
    from haxmlnet.text.prepare import prepare

    uncached = arguments.no_cache or arguments.train == "-"
    corpora = {}
    for name, path, split in (("train", arguments.train, options.split), ("validation", arguments.validation, "test")):
        if path:
            corpora[name] = prepare(
                path,
                scratch / name if uncached else None,
                replace(options, split=split),
                cache=arguments.cache,
                progress=progress,
            )
            report_skipped(corpora[name].skipped, progress)
    return corpora["train"], corpora.get("validation")


def _train_resumably(
    model: HAXMLNet,
    train: PreparedCorpus,
    validation: PreparedCorpus | None,
    arguments: argparse.Namespace,
    progress: Progress,
) -> None:
    """Train and save; checkpoints lie beside the model until it is saved."""
    from haxmlnet.training.checkpoints import Checkpoints

    out = Path(os.path.abspath(arguments.out))  # '.' has no name to put the checkpoints beside
    checkpoints = Checkpoints(out.with_name(out.name + ".training"), 0)
    words = [word for word in sys.argv[1:] if word != "--resume"]
    command = f"haxmlnet {shlex.join(words)} --resume"
    try:
        model.fit_prepared(
            train,
            validation=validation,
            checkpoint_dir=checkpoints.directory,
            resume=arguments.resume,
            progress=progress,
        )
        model.save(out)
    except TrainingInterrupted as interruption:
        raise TrainingInterrupted(f"{interruption}. Nothing is lost; continue with: {command}") from None
    except KeyboardInterrupt:
        raise TrainingInterrupted(f"stopped. Nothing is lost; continue with: {command}") from None
    finally:
        checkpoints.remove_if_empty()
    checkpoints.remove()
