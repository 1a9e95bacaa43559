"""Settings on the command line: a preset, a configuration file and one flag for every setting."""

from __future__ import annotations

import argparse
import dataclasses
import tomllib
from collections.abc import Callable
from typing import Any

from haxmlnet.errors import SettingError
from haxmlnet.settings import METHOD_SETTINGS, PRESETS, check_settings, preset, setting_fields, setting_type

METAVARS = {int: "N", float: "X", str: "TEXT", tuple: "N,N"}
# Settings for which None is a value, and not a choice by the size of the data.
OFF_BY_DEFAULT = ("vectors", "max_steps", "patience", "n_jobs")


def add_setting_flags(parser: argparse.ArgumentParser) -> None:
    """Add --preset, --config and a flag for every setting of any method; flags not given leave no attribute."""
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), default="default", help="settings of HAXMLNet to start from [default]"
    )
    parser.add_argument("--config", metavar="FILE.toml", help="file of settings, 'name = value' lines")
    known: set[str] = set()
    for method, settings in METHOD_SETTINGS.items():
        fields = {name: field for name, field in setting_fields(settings).items() if name not in known}
        if not fields:
            continue
        known.update(fields)
        title, description = "settings", None
        if method != "HAXMLNet":
            title, description = f"settings of {method}", "besides those it shares with HAXMLNet"
        group = parser.add_argument_group(title, description, argument_default=argparse.SUPPRESS)
        for name, field in fields.items():
            flag, wanted = f"--{name.replace('_', '-')}", setting_type(name, settings)[0]
            if wanted is bool:
                group.add_argument(flag, action=argparse.BooleanOptionalAction, help=_explain(field))
            else:
                group.add_argument(flag, type=_make_parser(wanted), metavar=METAVARS[wanted], help=_explain(field))


def describe_default(field: dataclasses.Field[Any]) -> str:
    """Return what the default of a setting is, also where None stands for a choice by the size of the data."""
    if field.default is None:
        return "none" if field.name in OFF_BY_DEFAULT else "by the size of the data"
    return str(field.default)


def _explain(field: dataclasses.Field[Any]) -> str:
    choices = f" One of {', '.join(field.metadata['choices'])}." if field.metadata["choices"] else ""
    return f"{field.metadata['help']}{choices} [{describe_default(field)}]".replace("%", "%%")


def _make_parser(wanted: type) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            if wanted is tuple:
                return tuple(int(part) for part in text.strip("()[] ").split(",") if part.strip())
            return wanted(text)
        except ValueError:
            names = {int: "an integer", float: "a number", tuple: "integers separated by commas"}
            raise argparse.ArgumentTypeError(f"expected {names[wanted]}, got {text!r}") from None

    return parse


def choose_settings(arguments: argparse.Namespace, method: str = "HAXMLNet") -> dict[str, Any]:
    """Merge preset, configuration file and flags, the later winning, and check them before anything long begins."""
    declared = METHOD_SETTINGS[method]
    known = setting_fields(declared)
    chosen = preset(arguments.preset)
    if arguments.config:
        chosen.update(_read_config(arguments.config, declared))
    for name in sorted({name for settings in METHOD_SETTINGS.values() for name in setting_fields(settings)}):
        if hasattr(arguments, name):
            if name not in known:
                flag = "--" + name.replace("_", "-")
                raise SettingError(f"{flag}: {method} has no such setting. It has {', '.join(known)}.")
            chosen[name] = getattr(arguments, name)
    return check_settings(chosen, declared)


def _read_config(path: str, declared: type[Any]) -> dict[str, Any]:
    try:
        with open(path, "rb") as stream:
            settings = tomllib.load(stream)
    except FileNotFoundError:
        raise SettingError(f"{path}: no such configuration file.") from None
    except (OSError, ValueError) as error:  # TOML and encoding errors are ValueErrors
        raise SettingError(f"{path}: not a TOML file of settings ({error}).") from None
    try:
        return check_settings(settings, declared)
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from None
