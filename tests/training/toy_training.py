"""A network that trains in milliseconds, and what it learns from."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from haxmlnet.config import TrainingConfig
from haxmlnet.data.tokens import TokenArray
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import Ranking
from haxmlnet.training.candidates import CandidateSource
from haxmlnet.training.hardware import place
from haxmlnet.training.loss import TrainingData
from haxmlnet.training.trainer import Trainer
from haxmlnet.tree import LabelTree

N_DOCUMENTS, N_LABELS = 20, 8
CONFIG = TrainingConfig(
    epochs=4,
    batch_size=6,
    learning_rate=0.01,
    lr_final_ratio=0.1,
    warmup=0.1,
    adaptive_clip=2.0,
    candidates=3,
    hard_negatives=1,
    averaging_start=0.3,
)
SEED = (0, 0, 1)
N_STEPS = 4 * 4


# The levels of a network: the first alone, the second alone, both on one encoder.
FIRST, SECOND, BOTH = range(1), range(1, 2), range(2)
TREE = LabelTree((np.arange(N_LABELS, dtype=np.int32) // 2,), N_LABELS)


def new_network(levels: range = SECOND, seed: int = 0, dropout: float = 0.3) -> LabelAttentionNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        encoder = BiLSTMEncoder(torch.randn(12, 4), 3, dropout, dropout, attend_words=True, sparse_words=True)
        heads = [
            LabelHead(encoder.state_size, TREE.level_sizes[level], (5,), own_outputs=True, sparse_nodes=level > 0)
            for level in levels
        ]
    return place(LabelAttentionNetwork(encoder, heads, levels[0]), torch.device("cpu"), "float32")


def new_data(levels: range = SECOND, n_documents: int = N_DOCUMENTS, limit: int = 3) -> TrainingData:
    """A document has one to five words; its label is the remainder of its first word."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(2, 12, rng.integers(1, 6)).astype(np.int32) for _ in range(n_documents)]
    labels = np.array([document[0] % N_LABELS for document in documents])
    parts = (np.ones(n_documents, np.float32), labels, np.arange(n_documents + 1))
    targets = TREE.lift(sp.csr_array(parts, shape=(n_documents, N_LABELS)))
    ids = rng.integers(0, 4, (n_documents, 1)).astype(np.int32)
    predicted = None if 0 in levels else Ranking(ids, np.ones(ids.shape, np.float32))
    sources = [CandidateSource(targets[1], targets[0], TREE, 1, limit) if level else None for level in levels]
    tokens = TokenArray.from_lists(documents)
    return TrainingData(tokens, [targets[level] for level in levels], sources, predicted, hard_negatives=1)


def weight_score(network: LabelAttentionNetwork) -> float:
    """A validation that depends on every weight, and does not always get better."""
    total = sum(float(value.double().sum()) for value in network.state_dict().values())
    return 50 + 50 * math.sin(100 * total)


def weights_of(network: LabelAttentionNetwork) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def train(
    config: TrainingConfig, levels: range = SECOND, validated: bool = True, seed: tuple[int, ...] = SEED
) -> tuple[dict[str, Tensor], float]:
    network = new_network(levels)
    validate = (lambda: weight_score(network)) if validated else None
    score = Trainer(network, new_data(levels), config, seed, validate, "part").run()
    return weights_of(network), score
