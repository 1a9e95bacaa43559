"""`haxmlnet fit`: train a model on a file of texts and labels."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from haxmlnet.cli.flags import (
    add_quiet_flag,
    add_reading_flags,
    add_setting_flags,
    given_settings,
    read_options,
)
from haxmlnet.errors import SettingError, TrainingInterrupted
from haxmlnet.settings import METHOD_SETTINGS, PRESETS, check_settings, preset

if TYPE_CHECKING:
    from haxmlnet.data import ReadOptions
    from haxmlnet.data.prepared import PreparedCorpus
    from haxmlnet.models.haxmlnet import HAXMLNet
    from haxmlnet.progress import Progress

DESCRIPTION = """\
Train a method, HAXMLNet unless --method says otherwise, on texts with labels and save it as a model directory.

TRAIN is JSON lines ({"text": "...", "labels": ["a", "b"]}), or CSV, TSV or Parquet with columns text and labels, or
one of the forms of other tools (--format); plain, .gz or .zst; or a directory that holds such a file.
Files of sparse features, which have no texts, are for the linear methods (--method LinearTree).
The documents are read once and kept in the cache as arrays, so that the next training on the same content starts
at once. Settings come from the preset, then the configuration file, then the flags; the later one wins.
Killed or interrupted, the same command with --resume goes on where it stopped.
"""


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "fit",
        help="train a model",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "train", metavar="TRAIN", help="file or directory of training documents, or - for standard input"
    )
    parser.add_argument("--out", required=True, metavar="MODEL_DIR", help="where the model is written")
    parser.add_argument(
        "--validation",
        metavar="FILE",
        help="documents that choose the best weights; default: a part of TRAIN",
    )
    parser.add_argument(
        "--method",
        choices=tuple(METHOD_SETTINGS),
        default="HAXMLNet",
        help="what is trained: attention networks, or linear classifiers over a tree or one a label [HAXMLNet]",
    )
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), default="default", help="settings of HAXMLNet to start from [default]"
    )
    parser.add_argument("--config", metavar="FILE.toml", help="settings as 'name = value' lines")
    parser.add_argument(
        "--cache",
        metavar="DIR",
        help="where prepared documents are kept; default: $HAXMLNET_CACHE, else the user's folder of caches",
    )
    parser.add_argument("--no-cache", action="store_true", help="keep no prepared documents when the training is over")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted training")
    add_quiet_flag(parser)
    add_reading_flags(parser, labels=True)
    add_setting_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Prepare, train, save."""
    settings = chosen_settings(arguments)
    from haxmlnet.cli.console import chosen_progress
    from haxmlnet.data import is_sparse
    from haxmlnet.models import METHODS
    from haxmlnet.store import check_replaceable

    check_replaceable(arguments.out)
    progress = chosen_progress(arguments.quiet)
    model = METHODS[arguments.method](**settings)
    if model.takes_features and is_sparse(arguments.train, read_options(arguments)):
        _fit_features(model, arguments, progress)
    else:
        _fit_texts(model, arguments, progress)
    progress.say(f"trained in {model.training_['seconds']:.0f} s, saved in {arguments.out}")


def _fit_features(model: Any, arguments: argparse.Namespace, progress: Progress) -> None:
    from haxmlnet.cli.console import say_skipped
    from haxmlnet.data import SkipReport, read_features

    report = SkipReport()
    train = read_features(arguments.train, read_options(arguments), report=report)
    say_skipped(report, progress)
    progress.say(f"{len(train)} training documents from {train.source}")
    model.fit(train.features, train.targets, label_names=train.label_names, progress=progress)
    model.save(arguments.out)


def _fit_texts(model: Any, arguments: argparse.Namespace, progress: Progress) -> None:
    with TemporaryDirectory(prefix="haxmlnet-", ignore_cleanup_errors=True) as scratch:
        train, validation = _prepared_corpora(arguments, Path(scratch), progress)
        if arguments.method == "HAXMLNet":
            _train_resumably(model, train, validation, arguments, progress)
        else:
            model.fit_prepared(train, progress=progress)
            model.save(arguments.out)


def _prepared_corpora(
    arguments: argparse.Namespace, scratch: Path, progress: Progress
) -> tuple[PreparedCorpus, PreparedCorpus | None]:
    """Prepare the documents in the cache, or, without one, in a directory that is removed at the end."""
    from haxmlnet.cli.console import say_skipped
    from haxmlnet.text.prepare import prepare

    options = read_options(arguments)
    without_cache = arguments.no_cache or arguments.train == "-"

    def prepared(path: str, name: str, options: ReadOptions) -> PreparedCorpus:
        directory = scratch / name if without_cache else None
        return prepare(path, directory, options, cache=arguments.cache, progress=progress)

    train = prepared(arguments.train, "train", options)
    validation = None
    if arguments.validation:
        validation = prepared(arguments.validation, "validation", replace(options, split="test"))
    for corpus in (train, validation):
        if corpus is not None:
            say_skipped(corpus.skipped, progress)
    progress.say(f"{len(train)} training documents from {train.source}")
    return train, validation


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
        raise TrainingInterrupted(f"{interruption}. Nothing is lost; go on with: {resume_command()}") from None
    except KeyboardInterrupt:
        raise TrainingInterrupted(f"stopped. What is done is kept; go on with: {resume_command()}") from None
    finally:
        checkpoints.remove_if_empty()
    checkpoints.remove()


def chosen_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Merge preset, configuration file and flags, and check them before anything long begins."""
    method = arguments.method
    if method != "HAXMLNet":
        for flag, is_given in (
            ("--preset", arguments.preset != "default"),
            ("--validation", arguments.validation is not None),
            ("--resume", arguments.resume),
        ):
            if is_given:
                raise SettingError(f"{flag}: is for HAXMLNet; {method} trains in one go and does without.")
    settings = preset(arguments.preset)
    if arguments.config:
        settings.update(_read_config(arguments.config, METHOD_SETTINGS[method]))
    settings.update(given_settings(arguments, method))
    return check_settings(settings, METHOD_SETTINGS[method])


def resume_command() -> str:
    """Give the command line as it was typed, with --resume."""
    words = [word for word in sys.argv[1:] if word != "--resume"]
    return f"haxmlnet {shlex.join(words)} --resume"


def _read_config(path: str, of: type[Any]) -> dict[str, Any]:
    try:
        with open(path, "rb") as stream:
            settings = tomllib.load(stream)
    except FileNotFoundError:
        raise SettingError(f"{path}: no such configuration file.") from None
    except (OSError, ValueError) as error:  # TOML and encoding errors are ValueErrors
        raise SettingError(f"{path}: not a TOML file of settings ({error}).") from None
    try:
        return check_settings(settings, of)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None
