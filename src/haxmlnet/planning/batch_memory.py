"""Memory of one batch: what a training step allocates, and what the search for documents allocates.

Factors count the copies of an array that exist at once, as far as the code and measured peaks tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from haxmlnet.evidence.attention_tree import MAX_BLOCK, STATES_OF_BLOCK
from haxmlnet.evidence.tree_search import MAX_TOKENS, documents_per_batch
from haxmlnet.planning.model_shape import LevelShape, ModelShape
from haxmlnet.training.hardware import holds_weights
from haxmlnet.training.trainer import MIN_PART

FLOAT = 4
# Attention weights with their gradient, and what softmax makes of both.
WEIGHT_COPIES = 4
# Inputs and outputs of the shared layers for a node, and their gradients.
HIDDEN_COPIES = 4
# Rows of a table: looked up, their gradients from all threads, and the sum of these.
ROW_COPIES = 3
# What Adam makes of the rows of one table with `row_moments`; otherwise it works in place.
ADAM_COPIES = 5


def step_bytes(shape: ModelShape, network: Sequence[LevelShape]) -> float:
    """Return the bytes of a training step: states, attention, and gradients on their way into the tables."""
    hidden_size, mlp_width = shape.network.hidden_size, sum(shape.network.mlp_sizes)
    n_documents = min(shape.training.batch_size, shape.n_training)
    n_tokens = n_documents * shape.sizes.longest(shape.config.text.max_length)
    n_parts = max(min(shape.n_threads, n_documents // MIN_PART), 1)

    # Word vectors with dropout and their updates; gates and states of both directions of the LSTM; states and values.
    n_floats: float = n_tokens * (8 * shape.word_size + 24 * hidden_size + 3 * shape.state_size)
    n_floats += 2 * n_tokens * mlp_width * len(network)
    adam = 0.0
    for level in network:
        n_rows, row = n_documents * level.most_candidates, level.table_parameters / level.nodes
        weights = n_tokens * level.most_candidates
        n_floats += HIDDEN_COPIES * n_rows * mlp_width
        if level.level == 0 or holds_weights(weights // n_parts):
            n_floats += WEIGHT_COPIES * weights
        if level.level == 0:
            # The gradient of all rows: of each part, their sum, and what Adam makes of it.
            n_floats += (n_parts + 3) * level.table_parameters
        else:
            n_floats += ROW_COPIES * n_rows * row
            if shape.training.row_moments:
                adam = max(adam, ADAM_COPIES * min(n_rows, level.nodes) * row)
    return FLOAT * (n_floats + adam)


def search_bytes(shape: ModelShape, network: Sequence[LevelShape], n_documents: int) -> float:
    """Return the bytes of the search for some documents, in all threads together."""
    mlp_sizes = shape.network.mlp_sizes
    longest = shape.sizes.longest(shape.config.text.max_length)
    most = max(shape.level_sizes[0], *(level.prediction_candidates for level in network))
    limit = documents_per_batch(most, max(shape.state_size, mlp_sizes[0]))
    batch_size = max(min(limit, MAX_TOKENS // longest), 1)

    states = longest * (2 * shape.word_size + 12 * shape.network.hidden_size + 2 * shape.state_size)
    largest = 0.0
    for level in network:
        n_rows, weights = level.prediction_candidates, level.prediction_candidates * longest
        if level.level > 0 and not holds_weights(batch_size * weights):
            weights = 0
        gathered = 2 * n_rows * shape.state_size if level.level > 0 else 0
        largest = max(largest, 3 * weights + gathered + 2 * n_rows * max(mlp_sizes))
    return FLOAT * min(n_documents, batch_size * shape.n_threads) * (states + largest)


def findings_bytes(shape: ModelShape, n_documents: int) -> float:
    """Return the bytes of what the networks found and keep of the documents that all threads examine at once."""
    longest = shape.sizes.longest(shape.config.text.max_length)
    most_tokens = max(STATES_OF_BLOCK // shape.state_size, MAX_TOKENS)
    block_size = min(max(most_tokens // longest, 1), MAX_BLOCK)
    states = len(shape.networks) * longest * shape.state_size
    nodes = 3 * sum(level.prediction_candidates for level in shape.levels)  # ids, logits and scores
    return FLOAT * min(n_documents, block_size * shape.n_threads) * (states + nodes)
