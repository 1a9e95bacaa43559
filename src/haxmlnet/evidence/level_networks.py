"""The networks of a label tree: made with their random start, saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from haxmlnet.config import Config, NetworkConfig
from haxmlnet.data.arrays import csr_view, release_pages
from haxmlnet.errors import ModelError
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.protocol import Frame, Run
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.training.hardware import choose_device, place
from haxmlnet.tree import LabelTree

# Labels whose features are multiplied at once.
BLOCK_LABELS = 100_000
# Larger weights are tables, whose rows are looked up wherever they begin; a second copy of them could be too large.
MAX_ALIGNED_BYTES = 2**24
CACHE_LINE = 64


def group_levels(tree: LabelTree, config: NetworkConfig) -> list[range]:
    """Return which levels each network has: all on one encoder, or each on its own."""
    if config.shared_encoder:
        return [range(tree.n_levels)]
    return [range(level, level + 1) for level in range(tree.n_levels)]


def new_network(word_vectors: torch.Tensor, tree: LabelTree, levels: range, run: Run) -> LabelAttentionNetwork:
    """Make the untrained network of some levels, on its device; its random start follows from the seed."""
    config = run.config
    assert config.network is not None
    seed = [config.machine.random_state, run.number, levels[0]]
    with torch.random.fork_rng([]):
        torch.manual_seed(int(np.random.default_rng(seed).integers(2**62)))
        network = build_network(word_vectors.clone(), tree, levels, config)
    network.encoder.words.weight.requires_grad_(config.network.train_word_vectors)
    return place(network, choose_device(config.machine.device), config.machine.precision)


def restore_network(arrays: Mapping[str, NDArray[Any]], levels: range, frame: Frame) -> LabelAttentionNetwork:
    """Make the network of some levels from its saved weights, ready to predict."""
    words = arrays.get("encoder.words.weight", np.zeros((0, 0), np.float32))
    if words.ndim != 2 or len(words) != frame.n_features or words.shape[1] == 0:
        raise ModelError(f"{frame.source}: expected the vectors of {frame.n_features} words, got shape {words.shape}.")
    with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
        network = build_network(torch.empty(words.shape), frame.tree, levels, frame.config)
    check_weights(network, arrays, frame.source)
    network.load_state_dict({name: align(array) for name, array in arrays.items()}, assign=True)
    machine = frame.config.machine
    return place(network.eval(), choose_device(machine.device), machine.precision)


def align(array: NDArray[Any]) -> torch.Tensor:
    """Let a weight begin on a cache line, as in training: matmul rounds otherwise, and is slower, where it does not."""
    weight = torch.from_numpy(array)
    return weight.clone() if weight.data_ptr() % CACHE_LINE and array.nbytes <= MAX_ALIGNED_BYTES else weight


def build_network(
    word_vectors: torch.Tensor, tree: LabelTree, levels: range, config: Config
) -> LabelAttentionNetwork:  # fmt: skip
    """Put an encoder and the heads of some levels together."""
    shape = config.network
    assert shape is not None
    is_sparse = choose_device(config.machine.device).type != "mps"  # MPS has no sparse gradients
    encoder = BiLSTMEncoder(
        word_vectors,
        shape.hidden_size,
        shape.word_dropout,
        shape.state_dropout,
        shape.attend_words,
        sparse_words=is_sparse and shape.train_word_vectors,
    )
    heads = [
        LabelHead(
            encoder.state_size,
            tree.level_sizes[level],
            shape.mlp_sizes,
            shape.own_outputs,
            sparse_nodes=is_sparse and level > 0,
        )
        for level in levels
    ]
    return LabelAttentionNetwork(encoder, heads, levels[0])


def average_word_vectors(fold: Fold, tree: LabelTree, levels: range) -> dict[int, NDArray[np.float32]]:
    """Give each node of some levels the mean word vector of its labels' features, centered and of length one."""
    features, vectors = fold.label_features, fold.word_vectors
    sums = np.empty((features.shape[0], vectors.shape[1]), np.float32)
    # Block by block: of features that are mapped from a file, only a block is in memory.
    for start in range(0, len(sums), BLOCK_LABELS):
        bounds = features.indptr[start : start + BLOCK_LABELS + 1]
        first, last = bounds[0], bounds[-1]
        block = csr_view(features.data[first:last], features.indices[first:last], bounds - first, len(vectors))
        sums[start : start + BLOCK_LABELS] = block @ vectors
        release_pages(features.data, features.indices)
    found = {}
    for level in reversed(range(levels.start, tree.n_levels)):
        if level < tree.n_levels - 1:
            parents = tree.parents[level]
            shape = len(parents), tree.level_sizes[level]
            members = sp.csr_array((np.ones(shape[0], np.float32), parents, np.arange(shape[0] + 1)), shape=shape)
            sums = members.T @ sums
        if level in levels:
            centered = sums - sums.mean(axis=0)
            centered /= np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-6)
            found[level] = centered.astype(np.float32, copy=False)
    return found


def get_weights(network: LabelAttentionNetwork) -> dict[str, NDArray[Any]]:
    """Return the weights of a network as named arrays."""
    return {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}


def load_network(network: LabelAttentionNetwork, arrays: Mapping[str, NDArray[Any]], source: str) -> None:
    """Put named arrays into a network, after comparing names and shapes."""
    check_weights(network, arrays, source)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


def check_weights(network: LabelAttentionNetwork, arrays: Mapping[str, NDArray[Any]], source: str) -> None:
    """Raise a ModelError unless names and shapes are those of the network."""
    expected = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    for name in sorted(expected.keys() | arrays.keys()):
        if name not in arrays or name not in expected or arrays[name].shape != expected[name]:
            came = arrays[name].shape if name in arrays else None
            raise ModelError(f"{source}: expected {name} of shape {expected.get(name)}, got {came}.")
