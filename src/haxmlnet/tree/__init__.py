"""Label features, balanced split, `LabelTree`."""

from haxmlnet.tree.build import build_label_tree, choose_level_sizes
from haxmlnet.tree.features import label_features
from haxmlnet.tree.label_tree import LabelTree
from haxmlnet.tree.split import balanced_partition

__all__ = ["LabelTree", "balanced_partition", "build_label_tree", "choose_level_sizes", "label_features"]
