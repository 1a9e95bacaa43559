"""Regenerate docs/reference from the settings, the commands and the docstrings: `make reference`.

The pages depend on the code alone, so a test can compare them with what is on disk.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from haxmlnet.cli import build_parser
from haxmlnet.cli.setting_flags import describe_default
from haxmlnet.settings import (
    METHOD_SETTINGS,
    PRESETS,
    Settings,
    check_settings,
    resolve_settings,
    setting_fields,
    setting_type,
)

REFERENCE = Path(__file__).resolve().parent / "reference"
COLUMNS = "100"
LONGEST_SIGNATURE = 88
NOTE = "<!-- Made by docs/build_reference.py. Do not edit: change the code and run `make reference`. -->"

TYPE_NAMES = {int: "integer", float: "number", bool: "true or false", str: "string", tuple: "integers"}
SETTING_COLUMNS = ("setting", "flag", "type", "default", "values", "what it does")
SIZES = ((5_000, 1_000), (50_000, 4_000), (500_000, 100_000), (2_000_000, 500_000))
"""Data sets (documents, labels) for which the page shows what is chosen by size."""

PUBLIC: dict[str, tuple[str, tuple[str, ...]]] = {
    "haxmlnet": (
        "The names most programs need.",
        ("HAXMLNet", "LinearTree", "OneVsRestSVM", "load_model", "Ranking", "Corpus", "prepare", "PreparedCorpus"),
    ),
    "haxmlnet.data": (
        "Files to documents, and documents and predictions to files.",
        (
            "ReadOptions", "SkipReport", "Document", "iterate_documents", "documents_of_table", "write_documents",
            "FeatureCorpus", "is_sparse", "read_features", "write_features", "write_predictions", "replace_file",
        ),
    ),
    "haxmlnet.data.filters": (
        "Pairs of a document and a label that do not count.",
        ("LabelPairs", "filter_pairs", "drop_pairs", "drop_label_pairs", "find_filter", "read_filter"),
    ),
    "haxmlnet.metrics": (
        "How good a ranking is. All values are in percent.",
        (
            "evaluate", "Report", "judge", "Judged", "precision_at_k", "recall_at_k", "r_precision_at_k", "ndcg_at_k",
            "propensities", "Propensity", "propensity_gains", "Gains", "psp_at_k", "psndcg_at_k", "f1_at_threshold",
            "frequency_buckets", "bucket_table", "Bucket",
        ),
    ),
    "haxmlnet.tree": (
        "The label tree by itself.",
        ("LabelTree", "label_features", "build_label_tree", "choose_level_sizes", "balanced_partition"),
    ),
    "haxmlnet.settings": ("Settings and presets.", ("preset", "check_settings", "resolve_settings")),
    "haxmlnet.progress": ("How long work reports itself.", ("Progress",)),
    "haxmlnet.bundled": ("The bundled data set.", ("cve_small",)),
    "haxmlnet.errors": (
        "What can go wrong. Each message is one line: where, what is wrong, what came, what to do.",
        ("HaxmlnetError", "DataError", "SettingError", "ModelError", "NotEnoughMemory", "TrainingInterrupted"),
    ),
}  # fmt: skip


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, text in make_pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8", newline="\n")


def make_pages() -> dict[str, str]:
    """Make the text of every page, by file name."""
    makers: dict[str, Callable[[], list[str]]] = {
        "settings.md": make_settings_page,
        "cli.md": make_cli_page,
        "python.md": make_python_page,
    }
    return {name: "\n".join([NOTE, "", *make()]).rstrip() + "\n" for name, make in makers.items()}


def make_settings_page() -> list[str]:
    """List every setting, what is chosen by the size of the data, and the presets."""
    return [
        "# Settings",
        "",
        "A setting has one name. It is an argument of `HAXMLNet(...)`, a key of a configuration file and, with dashes",
        "for underscores, a flag of `haxmlnet fit`. A configuration file overrides the preset; flags override both.",
        "",
        "*By the size of the data* means that the default is `None` and `fit` chooses a value when it sees the data.",
        "The chosen values are saved in `model.json` under `training`, `settings`.",
        "",
        *make_table(SETTING_COLUMNS, list_settings()),
        "",
        "## Chosen by the size of the data",
        "",
        *make_size_table(),
        "",
        "`level_sizes` is left to the tree builder: as few groups as `group_size` allows, and more levels above them",
        "if there are very many groups.",
        "",
        "## Presets",
        "",
        "`haxmlnet fit --preset NAME` or `HAXMLNet.from_preset(NAME)`. An empty cell means the default.",
        "",
        *make_preset_table(),
        *list_other_methods(),
    ]


def list_other_methods() -> Iterator[str]:
    """List the settings of the other methods."""
    for method, settings in METHOD_SETTINGS.items():
        if settings is not Settings:
            yield from ("", f"## {method}", "", f"`haxmlnet fit --method {method}` or `{method}(...)`.", "")
            yield from make_table(SETTING_COLUMNS, list_settings(settings))


def list_settings(of: type[Any] = Settings) -> Iterator[tuple[str, ...]]:
    """Give name, flag, type, default, range and help of each setting."""
    for name, field in setting_fields(of).items():
        value_type, optional = setting_type(name, of)
        flag = f"`--{name.replace('_', '-')}`"
        if value_type is bool:
            flag += f" `--no-{name.replace('_', '-')}`"
        type_name = TYPE_NAMES[value_type] + (" or none" if optional else "")
        yield f"`{name}`", flag, type_name, describe_default(field), write_range(field.metadata), field.metadata["help"]


def write_range(metadata: Any) -> str:
    """Say which values a setting may have."""
    if metadata["choices"]:
        return ", ".join(metadata["choices"])
    low, high = metadata["minimum"], metadata["maximum"]
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"{low} or more" if low is not None else ""


def make_size_table() -> list[str]:
    """Show what `fit` chooses for some sizes of data."""
    defaults = {name: field.default for name, field in setting_fields().items()}
    chosen = [resolve_settings(defaults, n_documents, n_labels) for n_documents, n_labels in SIZES]
    header = ("setting", *(f"{documents:,} documents, {labels:,} labels" for documents, labels in SIZES))
    names = [name for name in defaults if defaults[name] is None and chosen[0][name] is not None]
    return make_table(header, ((f"`{name}`", *(write_value(values[name]) for values in chosen)) for name in names))


def make_preset_table() -> list[str]:
    """Show the presets side by side."""
    presets = {name: check_settings(values) for name, values in PRESETS.items() if values}
    names = [name for name in setting_fields() if any(name in values for values in presets.values())]
    rows = (
        (f"`{name}`", *(write_value(values[name]) if name in values else "" for values in presets.values()))
        for name in names
    )
    return make_table(("setting", *(f"`{name}`" for name in presets)), rows)


def make_cli_page() -> list[str]:
    """Give the --help text of every command."""
    lines = ["# Command line", ""]
    with fix_columns(COLUMNS):
        lines += ["## haxmlnet", "", *make_block(build_parser().format_help())]
        for name, parser in find_commands().items():
            lines += [f"## haxmlnet {name}", "", *make_block(parser.format_help())]
    return lines


def find_commands() -> dict[str, argparse.ArgumentParser]:
    """Give the parser of each command."""
    actions = build_parser()._actions
    chooser = next(action for action in actions if isinstance(action, argparse._SubParsersAction))
    return dict(chooser.choices)


def make_python_page() -> list[str]:
    """Give signatures and docstrings of the public names."""
    lines = ["# Python", "", "Public names, by module. Names that begin with an underscore may change at any time.", ""]
    for module, (summary, names) in PUBLIC.items():
        lines += [f"## {module}", "", summary, ""]
        for name in names:
            lines += describe(name, getattr(importlib.import_module(module), name))
    return lines


def describe(name: str, thing: Any) -> list[str]:
    """Describe a function, a class with its methods, or an exception."""
    if inspect.isclass(thing) and issubclass(thing, Exception):
        bases = ", ".join(base.__name__ for base in thing.__bases__)
        return [f"### {name}", "", f"*{bases}.* {inspect.getdoc(thing)}", ""]
    lines = [f"### {name}", "", *make_block(write_signature(name, thing)), inspect.getdoc(thing) or "", ""]
    if inspect.isclass(thing):
        for member, value in collect_members(thing).items():
            lines += describe_member(name, member, value)
    return lines


def describe_member(owner: str, name: str, value: Any) -> list[str]:
    """Describe a method or a property of a class."""
    if isinstance(value, property | cached_property):
        return [f"#### {owner}.{name}", "", f"*Property.* {inspect.getdoc(value) or ''}", ""]
    function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    prefix = f"{owner}." if isinstance(value, classmethod) else ""
    return [
        f"#### {owner}.{name}",
        "",
        *make_block(write_signature(prefix + name, function, bound=True)),
        inspect.getdoc(function) or "",
        "",
    ]


def collect_members(owner: type) -> dict[str, Any]:
    """Collect the public methods and properties, those of base classes of ours first."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        if base.__module__.startswith("haxmlnet"):
            found.update((name, value) for name, value in vars(base).items() if is_public(name, value))
    return found


def is_public(name: str, value: Any) -> bool:
    """Say whether a member of a class belongs on the page."""
    described = isinstance(value, property | cached_property | classmethod) or inspect.isfunction(value)
    return described and not name.startswith("_")


def write_signature(name: str, thing: Any, bound: bool = False) -> str:
    """Write a signature on one line, or with a line for each parameter where it is long."""
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return f"{name}({thing.__base__.__name__})"
    if inspect.isclass(thing) and thing.__name__ in METHOD_SETTINGS:
        return f"{name}(*, setting=value, ...)  # every name in settings.md"
    plan = inspect.signature(thing)
    parts = write_parameters(list(plan.parameters.values())[int(bound) :])
    returns = ""
    if not inspect.isclass(thing) and plan.return_annotation is not inspect.Signature.empty:
        returns = f" -> {write_annotation(plan.return_annotation)}"
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= LONGEST_SIGNATURE:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returns}"])


def write_parameters(given: list[inspect.Parameter]) -> list[str]:
    """Write each parameter with its type and default."""
    parts = []
    for position, parameter in enumerate(given):
        before = given[position - 1].kind if position else None
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL,
        ):  # fmt: skip
            parts.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        text = stars + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {write_annotation(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {write_default(parameter.default)}"
        parts.append(text)
    return parts


def write_annotation(value: Any) -> str:
    """Write a type as the source has it."""
    return value if isinstance(value, str) else inspect.formatannotation(value)


def write_default(value: Any) -> str:
    """Write a default value; objects with addresses or long contents are not shown in full."""
    text = repr(value)
    return "..." if " at 0x" in text or "<factory>" in text or len(text) > 40 else text


def write_value(value: Any) -> str:
    """Write a value for a table."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "()"
    return str(value)


def make_table(header: tuple[str, ...], rows: Any) -> list[str]:
    """Write a Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def make_block(text: str) -> list[str]:
    """Write a fenced block."""
    return ["```text", *(line.rstrip() for line in text.rstrip().split("\n")), "```", ""]


@contextmanager
def fix_columns(width: str) -> Iterator[None]:
    """Fix the width and the plainness of argparse's help, whatever the terminal is."""
    fixed = {"COLUMNS": width, "NO_COLOR": "1"}
    before = {name: os.environ.get(name) for name in fixed}
    os.environ.update(fixed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


if __name__ == "__main__":
    main()
