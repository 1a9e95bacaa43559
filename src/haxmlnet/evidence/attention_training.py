"""How the networks of a label tree are trained: documents on their way down, starts of the heads, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
import torch

from haxmlnet.config import TrainingConfig
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.level_networks import average_word_vectors, get_weights, load_network
from haxmlnet.evidence.protocol import Run
from haxmlnet.evidence.training_set import Labeled
from haxmlnet.evidence.tree_search import search_network
from haxmlnet.metrics import judge, ndcg_at_k
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.training.candidates import CandidateSource
from haxmlnet.training.loss import TrainingData
from haxmlnet.training.trainer import Trainer
from haxmlnet.tree import LabelTree

# Documents from which the share of true candidates is estimated.
SAMPLE = 256


@dataclass
class TreeDocuments:
    """Labeled documents on their way down the tree: their true nodes on each level, and those predicted so far."""

    documents: Labeled
    tree: LabelTree
    predicted: Ranking | None = None
    """Of the last level that a trained network scores."""
    targets: list[sp.csr_array] = field(init=False)
    """True nodes of each level: a node is true where one of its labels is (the targets of HAXMLNet-G)."""

    def __post_init__(self) -> None:
        self.targets = self.tree.lift(self.documents.targets[:, : self.tree.n_labels])

    def search_level(self, network: LabelAttentionNetwork, beam: int, progress: Progress) -> None:
        """Predict the best nodes of a network's last level."""
        tokens = self.documents.tokens
        with progress.stage(f"searching level {network.levels[-1]}", len(tokens), "documents") as advance:
            self.predicted = search_network(network, self.tree, tokens, self.predicted, beam, advance)

    def data(self, levels: range, config: TrainingConfig) -> TrainingData:
        """Return what the network of some levels learns from."""
        sources = [
            CandidateSource(self.targets[level], self.targets[level - 1], self.tree, level, config.candidates)
            if level > 0
            else None
            for level in levels
        ]
        targets = [self.targets[level] for level in levels]
        return TrainingData(self.documents.tokens, targets, sources, self.predicted, config.hard_negatives)

    def ndcg(self, network: LabelAttentionNetwork, beam: int) -> float:
        """Judge a network by nDCG@5 on its last level; labels that training never saw count as missed."""
        level = network.levels[-1]
        ranking = search_network(network, self.tree, self.documents.tokens, self.predicted, max(beam, 5))
        truth = self.targets[level]
        if level == self.tree.n_levels - 1:
            unseen = self.documents.targets[:, self.tree.n_labels :]
            truth = sp.csr_array(sp.hstack([truth, unseen], format="csr"))
        return ndcg_at_k(judge(ranking.top(5).ids, truth), 5)


def start_heads(
    network: LabelAttentionNetwork, data: TrainingData, fold: Fold, tree: LabelTree, run: Run
) -> None:  # fmt: skip
    """Start biases at the log-odds of true candidates, and queries at the words of the labels below a node."""
    rows = np.random.default_rng(0).permutation(len(data.tokens))[:SAMPLE]
    for index, level in enumerate(network.levels):
        network.head(level).start_bias(data.positive_rate(index, rows))
    config = run.config.network
    assert config is not None
    if config.attend_words:
        for level, vectors in average_word_vectors(fold, tree, network.levels).items():
            network.head(level).start_queries(torch.from_numpy(vectors), config.query_start)


def train_network(
    network: LabelAttentionNetwork, data: TrainingData, validate: Callable[[], float] | None, name: str, run: Run
) -> float:
    """Train a network, or take the weights of a finished training from the checkpoints; return its best score."""
    finished = run.checkpoints.finished(name) if run.checkpoints is not None else None
    if finished is not None:
        score = float(finished.pop("score"))
        load_network(network, finished, name)
        return score
    config = run.config
    assert config.training is not None
    seed = (config.machine.random_state, run.number, network.first_level)
    trainer = Trainer(network, data, config.training, seed, validate, name, run.progress, run.checkpoints)
    score = trainer.run()
    if run.checkpoints is not None:
        run.checkpoints.finish(name, {**get_weights(network), "score": np.array(score)})
    return score


def training_name(number: int, levels: range, tree: LabelTree) -> str:
    """Name the training of a network, for progress and checkpoints."""
    return f"tree {number}" if len(levels) == tree.n_levels else f"tree {number} level {levels[0]}"
