"""Memory of one batch: what a training step makes, and what the search for documents makes.

Factors count the copies of an array that exist at once, as far as the code and measured peaks tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from haxmlnet.data.cores import usable_cores
from haxmlnet.planning.shape import LevelShape, ModelShape
from haxmlnet.search.descend import MAX_TOKENS, batch_limit
from haxmlnet.training.hardware import holds_weights
from haxmlnet.training.trainer import LEAST_PART

FLOAT = 4
# Attention weights with their gradient, and what softmax makes of both.
WEIGHT_COPIES = 4
# What the shared layers see of a node, before and after their functions, and the gradients.
HIDDEN_COPIES = 4
# Rows of a table: looked up, their gradients of all parts, and the sum of these.
ROW_COPIES = 3
# What Adam makes of the rows of one table where rows share a moment; otherwise it works in place.
ADAM_COPIES = 5


def n_threads(shape: ModelShape) -> int:
    """Give the number of threads that a training has."""
    return int(shape.settings["n_jobs"] or usable_cores())


def step_bytes(shape: ModelShape, network: Sequence[LevelShape]) -> float:
    """Give the bytes that a training step makes: states, attention, and the gradients on their way into the tables."""
    settings = shape.settings
    n_documents = min(settings["batch_size"], shape.n_training)
    n_tokens = n_documents * shape.sizes.longest(settings["max_length"])
    n_parts = max(min(n_threads(shape), n_documents // LEAST_PART), 1)
    widths = sum(settings["mlp_sizes"])
    # Word vectors with dropout and their updates; gates and states of both directions of the LSTM; states and values.
    numbers = n_tokens * (8 * shape.word_size + 24 * settings["hidden_size"] + 3 * shape.state_size)
    numbers += 2 * n_tokens * widths * len(network)
    adam = 0.0
    for level in network:
        n_rows, row = n_documents * level.most_candidates, level.table_parameters / level.nodes
        weights = n_tokens * level.most_candidates
        numbers += HIDDEN_COPIES * n_rows * widths
        if level.level == 0:
            # The gradient of all rows: of each part, their sum, and what Adam makes of it.
            numbers += WEIGHT_COPIES * weights + (n_parts + 3) * level.table_parameters
            continue
        # The fused kernel holds no weights.
        numbers += (WEIGHT_COPIES * weights if holds_weights(int(weights / n_parts)) else 0) + ROW_COPIES * n_rows * row
        if settings["row_moments"]:
            adam = max(adam, ADAM_COPIES * min(n_rows, level.nodes) * row)
    return FLOAT * (numbers + adam)


def search_bytes(shape: ModelShape, network: Sequence[LevelShape], n_documents: int) -> float:
    """Give the bytes that the search for some documents makes at once, in all threads together."""
    settings = shape.settings
    longest = shape.sizes.longest(settings["max_length"])
    most = max(level.prediction_candidates for level in network)
    size = max(min(batch_limit(most, shape.state_size, settings["mlp_sizes"][0]), MAX_TOKENS // longest), 1)
    states = longest * (2 * shape.word_size + 12 * settings["hidden_size"] + 2 * shape.state_size)
    largest = 0.0
    for level in network:
        n_rows, weights = level.prediction_candidates, level.prediction_candidates * longest
        if level.level > 0 and not holds_weights(size * weights):
            weights = 0
        gathered = 2 * n_rows * shape.state_size if level.level else 0
        largest = max(largest, 3 * weights + gathered + 2 * n_rows * max(settings["mlp_sizes"]))
    return FLOAT * min(n_documents, size * n_threads(shape)) * (states + largest)
