"""`haxmlnet fit`: train a model on a file of texts and labels."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from haxmlnet.cli.flags import (
    add_quiet_flag,
    add_reading_flags,
    add_setting_flags,
    given_settings,
    read_options,
)
from haxmlnet.errors import SettingError, TrainingInterrupted
from haxmlnet.settings import PRESETS, checked_settings, preset

DESCRIPTION = """\
Train HAXMLNet on texts with labels and save it as a model directory.

TRAIN is JSON lines ({"text": "...", "labels": ["a", "b"]}), or CSV, TSV or Parquet with columns text and labels, or
one of the forms of other tools (--format); plain, .gz or .zst; or a directory that holds such a file.
Settings come from the preset, then the configuration file, then the flags; the later one wins.
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
    parser.add_argument("--preset", choices=tuple(PRESETS), default="default", help="settings to start from [default]")
    parser.add_argument("--config", metavar="FILE.toml", help="settings as 'name = value' lines")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted training")
    add_quiet_flag(parser)
    add_reading_flags(parser, labels=True)
    add_setting_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, train, save."""
    settings = chosen_settings(arguments)
    out = Path(os.path.abspath(arguments.out))  # '.' has no name to put the checkpoints beside
    from haxmlnet.cli.console import chosen_progress, say_skipped
    from haxmlnet.data import Corpus, SkipReport
    from haxmlnet.methods.haxmlnet import HAXMLNet
    from haxmlnet.store import check_replaceable
    from haxmlnet.training.checkpoints import Checkpoints

    check_replaceable(arguments.out)
    progress, report, options = chosen_progress(arguments.quiet), SkipReport(), read_options(arguments)
    train = Corpus.read(arguments.train, options, report=report)
    test_options = replace(options, split="test")
    validation = Corpus.read(arguments.validation, test_options, report=report) if arguments.validation else None
    say_skipped(report, progress)
    progress.say(f"{len(train)} training documents from {train.source}")
    checkpoints = Checkpoints(out.with_name(out.name + ".training"), 0)
    try:
        model = HAXMLNet(**settings).fit(
            train.texts,
            train.labels,
            validation=(validation.texts, validation.labels) if validation else None,
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
    progress.say(f"trained in {model.training_['seconds']:.0f} s, saved in {arguments.out}")


def chosen_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Merge preset, configuration file and flags, and check them before anything long begins."""
    settings = preset(arguments.preset)
    if arguments.config:
        settings.update(_read_config(arguments.config))
    settings.update(given_settings(arguments))
    return checked_settings(settings)


def resume_command() -> str:
    """Give the command line as it was typed, with --resume."""
    words = [word for word in sys.argv[1:] if word != "--resume"]
    return f"haxmlnet {shlex.join(words)} --resume"


def _read_config(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as stream:
            settings = tomllib.load(stream)
    except FileNotFoundError:
        raise SettingError(f"{path}: no such configuration file.") from None
    except (OSError, ValueError) as error:  # TOML and encoding errors are ValueErrors
        raise SettingError(f"{path}: not a TOML file of settings ({error}).") from None
    try:
        return checked_settings(settings)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None
