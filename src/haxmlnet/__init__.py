"""haxmlnet: the right few labels out of thousands to millions, by hierarchical label-wise attention."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from haxmlnet.version import __version__

if TYPE_CHECKING:
    from haxmlnet.data import Corpus
    from haxmlnet.data.prepared import PreparedCorpus
    from haxmlnet.models import load_model
    from haxmlnet.models.haxmlnet import HAXMLNet
    from haxmlnet.models.linear_tree import LinearTree
    from haxmlnet.models.one_vs_rest import OneVsRestSVM
    from haxmlnet.ranking import Ranking
    from haxmlnet.text.prepare import prepare

# Imported when first used: `import haxmlnet` must not cost the seconds that torch takes to load.
_HOMES = {
    "Corpus": "haxmlnet.data",
    "HAXMLNet": "haxmlnet.models.haxmlnet",
    "LinearTree": "haxmlnet.models.linear_tree",
    "OneVsRestSVM": "haxmlnet.models.one_vs_rest",
    "PreparedCorpus": "haxmlnet.data.prepared",
    "Ranking": "haxmlnet.ranking",
    "load_model": "haxmlnet.models",
    "prepare": "haxmlnet.text.prepare",
}

__all__ = [
    "Corpus",
    "HAXMLNet",
    "LinearTree",
    "OneVsRestSVM",
    "PreparedCorpus",
    "Ranking",
    "__version__",
    "load_model",
    "prepare",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'haxmlnet' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
