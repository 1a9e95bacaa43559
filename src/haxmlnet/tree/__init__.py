"""The label tree: label features, the balanced partition, `LabelTree`, and steps up and down."""

from haxmlnet.tree.balanced_split import balanced_partition
from haxmlnet.tree.build import build_label_tree, choose_level_sizes, with_coarser_levels
from haxmlnet.tree.label_features import label_features
from haxmlnet.tree.label_tree import LabelTree
from haxmlnet.tree.walk import ancestors_of, children_of, marked_in_rows, parents_of, values_in_rows

__all__ = [
    "LabelTree",
    "ancestors_of",
    "balanced_partition",
    "build_label_tree",
    "children_of",
    "choose_level_sizes",
    "label_features",
    "marked_in_rows",
    "parents_of",
    "values_in_rows",
    "with_coarser_levels",
]
