"""Linear classifiers on sparse features, one a node of a label tree."""

from haxmlnet.linear.level import LinearLevel, train_level
from haxmlnet.linear.linear_model import LinearModel, train_linear_model

__all__ = ["LinearLevel", "LinearModel", "train_level", "train_linear_model"]
