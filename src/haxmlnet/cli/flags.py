"""Flags that several commands share, and those made from the settings."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

from haxmlnet.data import FORMATS, ReadOptions
from haxmlnet.errors import SettingError
from haxmlnet.settings import METHOD_SETTINGS, setting_fields, setting_type


def add_reading_flags(
    parser: argparse.ArgumentParser,
    labels: bool,
    format_flag: str = "--format",
    split: str = "train",
    on_error: str = "stop",
) -> None:
    """Add what says how to read a file of documents."""
    group = parser.add_argument_group("reading files")
    group.add_argument(
        format_flag,
        dest="input_format",
        choices=tuple(FORMATS),
        help="form of the file; by default seen from its name and content",
    )
    group.add_argument(
        "--text-field",
        metavar="NAME[,NAME]",
        help="field(s) or column(s) with the text; default text, or title and content",
    )
    group.add_argument(
        "--id-field",
        metavar="NAME",
        default="id",
        help="field or column with the id; default id, else the line number",
    )
    if labels:
        group.add_argument(
            "--label-field",
            metavar="NAME",
            default="labels",
            help="field or column with the labels; default labels",
        )
        group.add_argument(
            "--label-separator",
            metavar="TEXT",
            help="what separates labels in a string; default ; in CSV, TSV and Parquet",
        )
    group.add_argument(
        "--first-index",
        type=int,
        choices=(0, 1),
        default=0,
        help="number of the first feature in svmlight files [0]",
    )
    group.add_argument(
        "--split",
        choices=("train", "test"),
        default=split,
        help=f"which documents of a directory that holds both [{split}]",
    )
    group.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default=on_error,
        help=f"stop at the first bad document, or skip it and say how many [{on_error}]",
    )


def read_options(arguments: argparse.Namespace) -> ReadOptions:
    """Make the reading options of a command's flags."""
    fields = arguments.text_field.split(",") if arguments.text_field else None
    return ReadOptions(
        text_field=fields[0] if fields and len(fields) == 1 else (tuple(fields) if fields else None),
        label_field=getattr(arguments, "label_field", "labels"),
        label_separator=getattr(arguments, "label_separator", None),
        id_field=arguments.id_field,
        format=arguments.input_format,
        on_error=arguments.on_error,
        split=arguments.split,
        first_index=arguments.first_index,
    )


def add_quiet_flag(parser: argparse.ArgumentParser) -> None:
    """Add --quiet."""
    parser.add_argument("--quiet", action="store_true", help="no progress and no remarks, only results and errors")


def add_setting_flags(parser: argparse.ArgumentParser) -> None:
    """Add one flag for every setting of any method; only those given end up in the result of the parser."""
    groups = {"HAXMLNet": parser.add_argument_group("settings")}
    known: set[str] = set()
    for method, settings in METHOD_SETTINGS.items():
        for name, field in setting_fields(settings).items():
            if name in known:
                continue
            known.add(name)
            if method not in groups:
                groups[method] = parser.add_argument_group(
                    f"settings of {method}", "beside those it shares with HAXMLNet"
                )
            _add_setting_flag(groups[method], field, setting_type(name, settings)[0])


def _add_setting_flag(group: argparse._ArgumentGroup, field: dataclasses.Field[Any], kind: type) -> None:
    options: dict[str, Any] = {"default": argparse.SUPPRESS, "help": _help_with_default(field), "dest": field.name}
    if kind is bool:
        options["action"] = argparse.BooleanOptionalAction
    else:
        options["type"] = _value_parser(kind)
        options["metavar"] = {int: "N", float: "X", str: "TEXT", tuple: "N,N"}[kind]
    group.add_argument("--" + field.name.replace("_", "-"), **options)


def given_settings(arguments: argparse.Namespace, method: str = "HAXMLNet") -> dict[str, Any]:
    """Collect the settings given as flags; one that the method does not have is an error."""
    every_name = {name for settings in METHOD_SETTINGS.values() for name in setting_fields(settings)}
    given = {name: getattr(arguments, name) for name in sorted(every_name) if hasattr(arguments, name)}
    known = setting_fields(METHOD_SETTINGS[method])
    for name in given:
        if name not in known:
            flag = "--" + name.replace("_", "-")
            raise SettingError(f"{flag}: {method} has no such setting. It has {', '.join(known)}.")
    return given


def _help_with_default(field: dataclasses.Field[Any]) -> str:
    default = "by the size of the data" if field.default is None else field.default
    if field.default is None and field.name in ("vectors", "max_steps", "patience", "n_jobs"):
        default = "none"
    choices = f" One of {', '.join(field.metadata['choices'])}." if field.metadata["choices"] else ""
    return f"{field.metadata['help']}{choices} [{default}]".replace("%", "%%")


def _value_parser(kind: type) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            if kind is tuple:
                return tuple(int(part) for part in text.strip("()[] ").split(",") if part.strip())
            return kind(text)
        except ValueError:
            wanted = {int: "a whole number", float: "a number", tuple: "whole numbers separated by commas"}[kind]
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}") from None

    return parse
