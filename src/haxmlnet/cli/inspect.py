"""`haxmlnet inspect`: what is in a model directory."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from haxmlnet.cli.flags import add_quiet_flag
from haxmlnet.errors import ModelError

DESCRIPTION = """\
Show what a model is made of: levels, nodes, group sizes, parameters, bytes, settings and how it was trained.
--tree exports the label tree as JSON: nested nodes {"children": [...]}, and groups {"labels": [...]}.
"""


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "inspect",
        help="look into a model",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL_DIR", help="a model made by 'haxmlnet fit'")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--tree", metavar="FILE", help="write the label tree here as JSON")
    add_quiet_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Load, describe, print."""
    from haxmlnet.models import load_model

    model = load_model(arguments.model)
    description = model.describe()
    description["bytes"] = sum(file.stat().st_size for file in Path(arguments.model).iterdir())
    if arguments.tree:
        _write_trees(model, arguments.tree)
    if arguments.json:
        print(json.dumps(description))
    else:
        _print_description(arguments.model, description)


def _write_trees(model: Any, path: str) -> None:
    from haxmlnet.data import replace_file

    trees = model.nested_trees() if hasattr(model, "nested_trees") else []
    if not trees:
        raise ModelError(f"{type(model).__name__} has no label tree to export.")
    with replace_file(Path(path)) as temporary:
        text = json.dumps(trees[0] if len(trees) == 1 else {"trees": trees}, ensure_ascii=False, indent=1)
        Path(temporary).write_text(text + "\n", encoding="utf-8")


def _print_description(path: str, description: dict[str, Any]) -> None:
    from haxmlnet.cli.console import print_table

    plain = {name: value for name, value in description.items() if not isinstance(value, dict | list)}
    print_table(path, ["", ""], [(name, str(value)) for name, value in plain.items()])
    if description.get("levels"):
        columns = list(description["levels"][0])
        rows = [[str(level[column]) for column in columns] for level in description["levels"]]
        print_table("levels", columns, rows)
    for part in ("training", "settings"):
        rows = [[name, str(value)] for name, value in description[part].items() if not isinstance(value, dict)]
        print_table(part, ["", ""], rows)
