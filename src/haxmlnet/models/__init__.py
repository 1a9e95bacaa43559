"""The methods by name, each imported when it is first asked for, and `load_model` for any of their models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from haxmlnet.errors import ModelError
from haxmlnet.saved import SavedModel

if TYPE_CHECKING:
    from haxmlnet.models.model import Model

__all__ = ["METHODS", "load_model"]

_MODULES = {
    "HAXMLNet": "haxmlnet.models.haxmlnet",
    "LinearTree": "haxmlnet.models.linear_tree",
    "OneVsRestSVM": "haxmlnet.models.one_vs_rest",
}


class _Models(Mapping[str, "type[Model]"]):
    """The class of each method, imported on access: the list of names costs no import of torch."""

    def __getitem__(self, name: str) -> type[Model]:
        method: type[Model] = getattr(import_module(_MODULES[name]), name)
        return method

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


METHODS: Mapping[str, type[Model]] = _Models()


def load_model(path: str | Path) -> Model:
    """Read a model directory written by the `save` of any method."""
    saved = SavedModel(path)
    name = saved.header.get("method")
    if not isinstance(name, str) or name not in _MODULES:
        known = ", ".join(METHODS)
        raise ModelError(f"{path}: holds a model of {name!r}, which this version does not know. It knows {known}.")
    with ThreadPoolExecutor(1) as thread:
        fetched = thread.submit(saved.fetch)  # while torch is imported
        return METHODS[name]._from_saved(fetched.result())
