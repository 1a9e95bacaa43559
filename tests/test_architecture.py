"""The rooms of the package: who may import whom, and what keeps each of them easy to read."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import haxmlnet

PACKAGE = Path(haxmlnet.__file__).parent

# From top to bottom; rooms of one layer do not know each other.
LAYERS = [
    ("cli", "server", "cluster"),
    ("models", "explain"),
    ("planning",),
    ("evidence",),
    ("training", "linear"),
    ("cpu",),
    ("network", "tree", "metrics"),
    ("text", "bundled", "labels"),
    ("data",),
    ("saved",),
    ("ranking", "settings", "config", "store", "progress", "errors", "version"),
]
HEIGHT = {room: -number for number, layer in enumerate(LAYERS) for room in layer}
GROUND = set(LAYERS[-1])
# They import what they need from everywhere, and nothing imports them.
ENTRANCES = {"__init__", "__main__"}

MAX_LINES = 400
# The paper's network is to be read beside the paper: all of it together is no longer than one file may be.
MAX_NETWORK_LINES = 400
FORBIDDEN_IN_NETWORK = {"haxmlnet.cpu", "numba", "threading", "pathlib", "os"}
# Only here are settings looked up by name; everywhere else they are fields of a config.
SETTING_MODULES = {"settings", "config"}
SETTING_NAMES = {"settings", "chosen", "options"}


def module_name(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_names(source: str) -> set[str]:
    """Name all that a module imports, inside its functions, too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imported_rooms(source: str) -> set[str]:
    return {name.split(".")[1] for name in imported_names(source) if name.startswith("haxmlnet.")}


def may_import(room: str, other: str) -> bool:
    if room == other or (room in GROUND and other in GROUND):
        return True
    # What is no room is a name of the package itself, `from haxmlnet import HAXMLNet`: a model.
    return HEIGHT[room] > HEIGHT.get(other, HEIGHT["models"])


def setting_lookups(source: str) -> Iterator[str]:
    """Find `settings["name"]` and `settings.get("name")`, whatever object the settings belong to."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript):
            owner, key = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            owner, key = node.func.value, node.args[0]
        else:
            continue
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if name in SETTING_NAMES and isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield f"{node.lineno}: {ast.unparse(node)}"


def count_lines(file: Path) -> int:
    return len(file.read_text("utf-8").splitlines())


MODULES = [file for file in sorted(PACKAGE.rglob("*.py")) if room_of(file) not in ENTRANCES]


def test_imports_are_found_wherever_they_stand():
    source = (
        "import os, haxmlnet.cli.main\ndef f():\n  from haxmlnet import tree\n  from haxmlnet.data.tokens import PAD_ID"
    )
    assert imported_rooms(source) == {"cli", "tree", "data"}


@pytest.mark.parametrize("file", MODULES, ids=module_name)
def test_imports_point_downwards(file):
    room = room_of(file)
    assert room in HEIGHT, f"{room} has no layer"
    assert [other for other in sorted(imported_rooms(file.read_text("utf-8"))) if not may_import(room, other)] == []


def test_every_room_has_its_layer():
    assert {room_of(file) for file in MODULES} - HEIGHT.keys() == set()


def test_the_ground_floor_has_no_cycles():
    files = [file for file in MODULES if room_of(file) in GROUND]
    graph = {room_of(file): imported_rooms(file.read_text("utf-8")) & GROUND for file in files}
    while free := {room for room, below in graph.items() if not below & graph.keys()}:
        graph = {room: below for room, below in graph.items() if room not in free}
    assert graph == {}


@pytest.mark.parametrize("module", ["haxmlnet", "haxmlnet.settings", "haxmlnet.cli"])
def test_imports_that_must_be_quick_bring_no_heavy_library(module):
    code = f"import sys, {module}; print([name for name in ('torch', 'sklearn', 'numba') if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("room", ["metrics", "tree", "text", "labels", "data", "linear", "ranking", "store", "config"])
def test_rooms_without_networks_do_without_torch(room):
    for file in MODULES:
        if room_of(file) == room:
            names = imported_names(file.read_text("utf-8"))
            assert "torch" not in {name.split(".")[0] for name in names}, file


def test_no_two_modules_share_a_file_name():
    names = Counter(file.name for file in MODULES if file.name != "__init__.py")
    assert [name for name, n in names.items() if n > 1] == []


@pytest.mark.parametrize("file", MODULES, ids=module_name)
def test_modules_are_short(file):
    assert count_lines(file) <= MAX_LINES


@pytest.mark.parametrize(
    ("source", "n_found"),
    [
        ('settings["beam"]', 1),
        ('self.plan.settings["beam"] + chosen["epochs"]', 2),
        ('options.get("beam", 10)', 1),
        ("settings[name]; settings[0]; config.beam", 0),
        ('training["settings"]; self.get("settings")', 0),
    ],
)
def test_lookups_of_settings_are_found(source, n_found):
    assert len(list(setting_lookups(source))) == n_found


@pytest.mark.parametrize("file", MODULES, ids=module_name)
def test_settings_are_not_looked_up_by_name(file):
    if room_of(file) not in SETTING_MODULES:
        assert list(setting_lookups(file.read_text("utf-8"))) == []


def test_the_network_is_as_short_as_its_paper():
    sizes = {file.name: count_lines(file) for file in MODULES if room_of(file) == "network"}
    assert sum(sizes.values()) <= MAX_NETWORK_LINES, sizes


def test_the_network_is_plain_pytorch():
    for file in MODULES:
        if room_of(file) == "network":
            names = imported_names(file.read_text("utf-8"))
            forbidden = {name for name in names for part in FORBIDDEN_IN_NETWORK if f"{name}.".startswith(f"{part}.")}
            assert forbidden == set(), file
