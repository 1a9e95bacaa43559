"""Linear classifiers on sparse features, one for each node of a label tree."""

from haxmlnet.linear.beam_search import BeamSearch
from haxmlnet.linear.document_blocks import Block, block_of, join_rankings, map_blocks
from haxmlnet.linear.linear_level import LinearLevel, train_level
from haxmlnet.linear.linear_model import LinearModel, LinearTask, train_linear_model
from haxmlnet.linear.node_vectors import NodeVectors

__all__ = [
    "BeamSearch",
    "Block",
    "LinearLevel",
    "LinearModel",
    "LinearTask",
    "NodeVectors",
    "block_of",
    "join_rankings",
    "map_blocks",
    "train_level",
    "train_linear_model",
]
