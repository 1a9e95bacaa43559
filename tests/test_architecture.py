from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import haxmlnet

PACKAGE = Path(haxmlnet.__file__).parent

# From the top to the bottom; rooms of one storey do not know each other.
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
STOREY = {room: -number for number, layer in enumerate(LAYERS) for room in layer}
GROUND = set(LAYERS[-1])
# Doors rather than rooms: they lead to every other, and nothing but them leads there.
ENTRANCES = {"__init__", "__main__"}


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
    return STOREY[room] > STOREY.get(other, STOREY["models"])


MODULES = [file for file in sorted(PACKAGE.rglob("*.py")) if room_of(file) not in ENTRANCES]


def test_imports_are_found_wherever_they_stand():
    source = (
        "import os, haxmlnet.cli.main\ndef f():\n  from haxmlnet import tree\n  from haxmlnet.data.tokens import PAD_ID"
    )
    assert imported_rooms(source) == {"cli", "tree", "data"}


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_downwards(file):
    room = room_of(file)
    for other in imported_rooms(file.read_text("utf-8")):
        assert may_import(room, other), f"{room} must not know {other}"


def test_every_room_has_its_storey():
    assert {room_of(file) for file in MODULES} <= STOREY.keys()


def test_the_ground_floor_has_no_circles():
    graph = {room: imported_rooms((PACKAGE / f"{room}.py").read_text("utf-8")) & GROUND for room in sorted(GROUND)}
    while free := {room for room, below in graph.items() if not below & graph.keys()}:
        graph = {room: below for room, below in graph.items() if room not in free}
    assert graph == {}


@pytest.mark.parametrize("module", ["haxmlnet", "haxmlnet.settings", "haxmlnet.cli"])
def test_imports_that_must_be_quick_bring_no_heavy_library(module):
    code = f"import sys, {module}; print([name for name in ('torch', 'sklearn', 'numba') if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("room", ["metrics", "tree", "text", "data", "ranking", "store"])
def test_rooms_without_networks_do_without_torch(room):
    for file in MODULES:
        if room_of(file) == room:
            names = imported_names(file.read_text("utf-8"))
            assert "torch" not in {name.split(".")[0] for name in names}, file
