"""Linear classifiers on sparse features, one a node of a label tree."""

from haxmlnet.linear.level import LinearLevel, train_level
from haxmlnet.linear.linear_model import LinearModel, in_threads, joined, train_linear_model
from haxmlnet.linear.vectors import NodeVectors, block_of

__all__ = [
    "LinearLevel",
    "LinearModel",
    "NodeVectors",
    "block_of",
    "in_threads",
    "joined",
    "train_level",
    "train_linear_model",
]
