"""What saved evidence must fit, with default settings but for a few."""

from __future__ import annotations

from typing import Any

from haxmlnet.config import Config, haxmlnet_config
from haxmlnet.evidence.protocol import Frame
from haxmlnet.settings import Settings, check_settings, resolve_settings, settings_of
from haxmlnet.tree import LabelTree


def config_of(n_documents: int, n_labels: int, **changes: Any) -> Config:
    settings = check_settings(settings_of(Settings(**changes)))
    return haxmlnet_config(resolve_settings(settings, n_documents, n_labels), n_labels)


def frame_of(tree: LabelTree | int, n_features: int, **changes: Any) -> Frame:
    """Make the frame of a tree, or of a flat one with so many labels."""
    tree = LabelTree((), tree) if isinstance(tree, int) else tree
    return Frame(tree, n_features, config_of(100, tree.n_labels, **changes), "some file")
