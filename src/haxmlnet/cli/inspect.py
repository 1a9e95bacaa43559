"""`haxmlnet inspect`: what is in a model directory."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from haxmlnet.errors import ModelError

SUMMARY = "look into a model"
DESCRIPTION = """\
Show what a model consists of: levels, nodes, group sizes, parameters, bytes, settings and how it was trained.
--tree exports the label tree as JSON: nested nodes {"children": [...]}, and groups {"labels": [...]}.
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", metavar="MODEL_DIR", help="a model made by 'haxmlnet fit'")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--tree", metavar="FILE", help="write the label tree to FILE as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Load, describe, print."""
    from haxmlnet.cli.console import print_table
    from haxmlnet.data import replace_file
    from haxmlnet.models import load_model

    model = load_model(arguments.model)
    description = model.describe()
    description["bytes"] = sum(file.stat().st_size for file in Path(arguments.model).iterdir())

    if arguments.tree:
        trees = model.nested_trees() if hasattr(model, "nested_trees") else []
        if not trees:
            raise ModelError(f"{type(model).__name__} has no label tree to export.")
        text = json.dumps(trees[0] if len(trees) == 1 else {"trees": trees}, ensure_ascii=False, indent=1)
        with replace_file(Path(arguments.tree)) as temporary:
            Path(temporary).write_text(text + "\n", encoding="utf-8")

    if arguments.json:
        print(json.dumps(description))
        return
    plain = [[name, str(value)] for name, value in description.items() if not isinstance(value, dict | list)]
    print_table(arguments.model, ["", ""], plain)
    levels = description.get("levels")
    if levels:
        columns = list(levels[0])
        print_table("levels", columns, [[str(level[column]) for column in columns] for level in levels])
    for part in ("training", "settings"):
        rows = [[name, str(value)] for name, value in description[part].items() if not isinstance(value, dict)]
        print_table(part, ["", ""], rows)
