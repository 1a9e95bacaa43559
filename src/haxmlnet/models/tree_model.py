"""`TreeModel`: one label tree and the networks of its levels, and how they are trained from top to bottom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from haxmlnet.config import TrainingConfig, linear_hard_negatives
from haxmlnet.data.arrays import csr_view, release_pages
from haxmlnet.data.tokens import TokenArray
from haxmlnet.errors import ModelError
from haxmlnet.linear import train_linear_model
from haxmlnet.linear.neighbours import Near
from haxmlnet.metrics import judge, ndcg_at_k
from haxmlnet.models.corpus_features import FEATURES_PER_LABEL
from haxmlnet.models.linear_part import (
    CANDIDATES,
    MENTIONED,
    NEIGHBOURING,
    LinearPart,
    learns_anew,
    marked_true,
    tree_for_linear,
)
from haxmlnet.models.preparation import Labelled, Prepared
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.progress import Progress
from haxmlnet.ranking import ABSENT, Ranking, rank
from haxmlnet.search.descend import Paths, Proposals, search_levels, search_tree
from haxmlnet.search.fusion import MIN_DOCUMENTS, fit_fusion
from haxmlnet.settings import LinearTreeSettings
from haxmlnet.training.candidates import CandidateSource
from haxmlnet.training.checkpoints import Checkpoints
from haxmlnet.training.hardware import choose_device, place
from haxmlnet.training.loss import TrainingData
from haxmlnet.training.trainer import Trainer
from haxmlnet.tree import LabelTree, build_label_tree, choose_level_sizes, label_features

MAX_FAN_OUT = 16
# Labels whose features are multiplied at once.
BLOCK_LABELS = 100_000
LEAST_SCORE = 1e-9
# Logits beyond these say nothing more; an outlier would drown the rest.
WIDEST_LOGIT = 15.0


@dataclass
class TreeModel:
    """A label tree, and the networks of its levels from top to bottom: one for all of them, or one for each."""

    tree: LabelTree
    networks: list[LabelAttentionNetwork] = field(default_factory=list)
    score: float = -1.0
    """Validation nDCG@5 of the labels, by the networks alone; -1 where nothing was held out."""
    linear: LinearPart | None = None
    """Linear classifiers over the same labels, with the rule that fuses both; None: the networks alone."""

    def search(
        self,
        tokens: TokenArray,
        features: sp.csr_array | None,
        near: Near | None,
        beam: int,
        k: int,
        n_threads: int,
    ) -> Ranking:
        """Rank the best k labels of each document."""
        if self.linear is None or self.linear.fusion is None or features is None:
            return search_tree(self.networks, self.tree, tokens, beam, k)
        ranking, signals = self.candidates(tokens, features, near, self.linear, beam, k, n_threads)
        probabilities = self.linear.fusion.probabilities(signals, ranking.ids != ABSENT)
        return rank(ranking.ids, probabilities, k, None, ranking.n_ids)

    def candidates(
        self,
        tokens: TokenArray,
        features: sp.csr_array,
        near: Near | None,
        linear: LinearPart,
        beam: int,
        k: int,
        n_threads: int,
    ) -> tuple[Ranking, NDArray[np.float32]]:
        """Give the best labels of either part, and what both say of them: (documents, W, signals)."""
        propose = partial(linear.proposals, features, near, LinearTreeSettings.beam, n_threads)
        width = max(2 * CANDIDATES + MENTIONED + NEIGHBOURING, k)
        proposals = Proposals(cache(propose), linear.n_proposed)
        paths = search_tree(self.networks, self.tree, tokens, beam, width, proposals)
        attention = np.log(np.maximum(paths.scores, LEAST_SCORE))[..., None]
        logits = np.clip(paths.logits, -WIDEST_LOGIT, WIDEST_LOGIT)
        signals = linear.signals(features, paths.ids, near, n_threads)
        return paths, np.concatenate([signals, attention, logits], axis=-1)

    def describe_level(self, level: int) -> dict[str, Any]:
        """Count the nodes of a level, the children of each (fewest and most) and the numbers learned.

        Those of an encoder count on the first level that reads it.
        """
        children = np.diff(self.tree.children(level)[0]) if level < self.tree.n_levels - 1 else np.zeros(1, np.int64)
        network = next(network for network in self.networks if level in network.levels)
        parameters = sum(weight.numel() for weight in network.head(level).parameters())
        if level == network.first_level:
            parameters += sum(weight.numel() for weight in network.encoder.parameters())
        return {
            "level": level, "nodes": self.tree.level_sizes[level], "fewest_children": int(children.min()),
            "most_children": int(children.max()), "parameters": parameters,
        }  # fmt: skip


def train_tree(
    prepared: Prepared,
    settings: Mapping[str, Any],
    number: int,
    checkpoints: Checkpoints | None,
    progress: Progress,
) -> TreeModel:
    """Build one tree and train its networks, each from the candidates that the network above gives."""
    model = TreeModel(_grow_tree(prepared, settings, number))
    release_pages(prepared.label_features.data, prepared.label_features.indices)
    training = _Walk(prepared.training, model.tree)
    validation = None if prepared.validation is None else _Walk(prepared.validation, model.tree)
    for levels in levels_of_networks(model.tree, settings):
        network = new_network(torch.from_numpy(prepared.word_vectors), model.tree, levels, settings, number)
        if model.networks and settings["start_from_above"]:
            network.start_from(model.networks[-1])
        data = training.data(levels, settings)
        _start_heads(network, data, prepared, model.tree, settings)
        trainer = Trainer(
            network,
            data,
            TrainingConfig.of(settings),
            (settings["random_state"], number, levels[0]),
            None if validation is None else partial(validation.ndcg, network, settings["beam"]),
            part_name(number, levels, model.tree),
            progress,
            checkpoints,
        )
        model.score = _trained(trainer, checkpoints)
        model.networks.append(network.eval())
        if levels[-1] < model.tree.n_levels - 1:
            if settings["hard_negatives"]:
                training.descend(network, settings["beam"], progress)
            if validation is not None:
                validation.descend(network, settings["beam"], progress)
        del trainer  # its moments and copies are three times the size of the network
    if settings["linear"]:
        model.linear = _linear_part(model, prepared, settings, progress)
    return model


def levels_of_networks(tree: LabelTree, settings: Mapping[str, Any]) -> list[range]:
    """Say which levels each network has: all on one encoder, or each on its own."""
    if settings["shared_encoder"]:
        return [range(tree.n_levels)]
    return [range(level, level + 1) for level in range(tree.n_levels)]


def part_name(number: int, levels: range, tree: LabelTree) -> str:
    """Name the training of a network, for progress and checkpoints."""
    return f"tree {number}" if len(levels) == tree.n_levels else f"tree {number} level {levels[0]}"


def _start_heads(
    network: LabelAttentionNetwork,
    data: TrainingData,
    prepared: Prepared,
    tree: LabelTree,
    settings: Mapping[str, Any],
) -> None:
    rows = np.random.default_rng(0).permutation(len(data.tokens))[:256]
    for index, level in enumerate(network.levels):
        network.head(level).start_bias(data.positive_rate(index, rows))
    if settings["attend_words"]:
        for level, vectors in node_vectors(prepared, tree, network.levels).items():
            network.head(level).start_queries(torch.from_numpy(vectors), settings["query_start"])


def _linear_part(
    model: TreeModel, prepared: Prepared, settings: Mapping[str, Any], progress: Progress
) -> LinearPart | None:
    """Train linear classifiers, fit the rule of fusion on the validation documents, and learn from these as well."""
    validation, documents = prepared.validation, prepared.documents
    features, targets = documents.features, documents.targets
    if validation is None or len(validation) < MIN_DOCUMENTS or features is None:
        return None
    n_threads = torch.get_num_threads()
    tree = tree_for_linear(model.tree)

    def trained(x: sp.csr_array, y: sp.csr_array, prototypes: sp.csr_array) -> LinearPart:
        linear = train_linear_model(
            x,
            y,
            tree,
            prototypes,
            C=LinearTreeSettings.C,
            prune=LinearTreeSettings.prune,
            hard_negatives=linear_hard_negatives(tree.n_labels),
            seed=settings["random_state"],
            n_threads=n_threads,
            progress=progress,
        )
        return LinearPart(linear, np.bincount(y.indices, minlength=tree.n_labels), names=documents.names)

    kept_features = prepared.copy_kept_features()
    part = trained(kept_features, targets[prepared.kept], prepared.label_features)
    release_pages(prepared.label_features.data, prepared.label_features.indices)
    del kept_features
    if settings["neighbours"]:
        part = replace(part, neighbours=prepared.kept_neighbours)
    of_validation = prepared.validation_features
    near = part.nearest(of_validation, n_threads)
    ranking, signals = model.candidates(
        validation.tokens, of_validation, near, part, settings["beam"], CANDIDATES, n_threads
    )
    right = marked_true(ranking.ids, validation.targets)
    fusion = fit_fusion(signals, ranking.ids != ABSENT, right, settings["random_state"])
    if fusion is None:
        return None
    if learns_anew(features.shape[0] - len(prepared.kept), features.shape[0]):
        del part  # room for the next
        by_label = label_features(features, targets, FEATURES_PER_LABEL)
        part = trained(features, targets, by_label)
    return replace(part, fusion=fusion, neighbours=documents.neighbours if settings["neighbours"] else None)


def new_network(
    word_vectors: torch.Tensor, tree: LabelTree, levels: range, settings: Mapping[str, Any], number: int
) -> LabelAttentionNetwork:
    """Make the untrained network of some levels, on its device; its random start follows from the seed."""
    with torch.random.fork_rng([]):
        torch.manual_seed(int(np.random.default_rng([settings["random_state"], number, levels[0]]).integers(2**62)))
        network = _network_of_shape(word_vectors.clone(), tree, levels, settings)
    network.encoder.words.weight.requires_grad_(settings["train_word_vectors"])
    return place(network, choose_device(settings["device"]), settings["precision"])


def saved_network(
    arrays: Mapping[str, NDArray[Any]], tree: LabelTree, levels: range, settings: Mapping[str, Any], source: str
) -> LabelAttentionNetwork:
    """Make the network of some levels from its saved weights, ready to predict."""
    words = arrays.get("encoder.words.weight", np.zeros((0, 0), np.float32))
    with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
        network = _network_of_shape(torch.empty(words.shape), tree, levels, settings)
    _check_arrays(network, arrays, source)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()}, assign=True)
    return place(network.eval(), choose_device(settings["device"]), settings["precision"])


def _network_of_shape(
    word_vectors: torch.Tensor, tree: LabelTree, levels: range, settings: Mapping[str, Any]
) -> LabelAttentionNetwork:
    device = choose_device(settings["device"])
    sparse = device.type != "mps"  # MPS has no sparse gradients
    encoder = BiLSTMEncoder(
        word_vectors,
        settings["hidden_size"],
        settings["word_dropout"],
        settings["state_dropout"],
        settings["attend_words"],
        sparse_words=sparse and settings["train_word_vectors"],
    )
    heads = [
        LabelHead(
            encoder.state_size,
            tree.level_sizes[level],
            settings["mlp_sizes"],
            settings["own_outputs"],
            sparse_nodes=sparse and level > 0,
        )
        for level in levels
    ]
    return LabelAttentionNetwork(encoder, heads, levels[0])


def node_vectors(prepared: Prepared, tree: LabelTree, levels: range) -> dict[int, NDArray[np.float32]]:
    """Give each node of some levels the mean word vector of its labels' features, around zero, of length one."""
    sums = _product(prepared.label_features, prepared.word_vectors)
    found = {}
    for level in reversed(range(levels.start, tree.n_levels)):
        if level < tree.n_levels - 1:
            parents = tree.parents[level]
            shape = len(parents), tree.level_sizes[level]
            members = sp.csr_array((np.ones(shape[0], np.float32), parents, np.arange(shape[0] + 1)), shape=shape)
            sums = members.T @ sums
        if level in levels:
            found[level] = _directions(sums)
    return found


def _product(features: sp.csr_array, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Multiply block by block: of features that are mapped from a file, only a block is in memory."""
    product = np.empty((features.shape[0], vectors.shape[1]), np.float32)
    for start in range(0, len(product), BLOCK_LABELS):
        bounds = features.indptr[start : start + BLOCK_LABELS + 1]
        first, last = bounds[0], bounds[-1]
        block = csr_view(features.data[first:last], features.indices[first:last], bounds - first, len(vectors))
        product[start : start + BLOCK_LABELS] = block @ vectors
        release_pages(features.data, features.indices)
    return product


def _directions(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    moved = vectors - vectors.mean(axis=0)
    moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-6)
    return moved.astype(np.float32, copy=False)


def network_arrays(network: LabelAttentionNetwork) -> dict[str, NDArray[Any]]:
    """Give the weights of a network as named arrays."""
    return {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}


def load_network_arrays(network: LabelAttentionNetwork, arrays: Mapping[str, NDArray[Any]], source: str) -> None:
    """Put named arrays into a network, after comparing names and shapes."""
    _check_arrays(network, arrays, source)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


def _check_arrays(network: LabelAttentionNetwork, arrays: Mapping[str, NDArray[Any]], source: str) -> None:
    expected = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    for name in sorted(expected.keys() | arrays.keys()):
        if name not in arrays or name not in expected or arrays[name].shape != expected[name]:
            came = arrays[name].shape if name in arrays else None
            raise ModelError(f"{source}: expected {name} of shape {expected.get(name)}, got {came}.")


class _Walk:
    """Documents on their way down the tree: their true nodes at each level, and those predicted so far."""

    def __init__(self, documents: Labelled, tree: LabelTree) -> None:
        n_labels = tree.n_labels
        self.documents, self.tree = documents, tree
        self.unseen = documents.targets[:, n_labels:]
        self.targets = tree.lift(documents.targets[:, :n_labels])
        self.predicted: Paths | None = None

    def descend(self, network: LabelAttentionNetwork, beam: int, progress: Progress) -> None:
        """Predict the best nodes of a network's last level, from those of the level above its first one."""
        tokens = self.documents.tokens
        with progress.stage(f"searching level {network.levels[-1]}", len(tokens), "documents") as advance:
            self.predicted = search_levels(
                network, self.tree, tokens, self.predicted, beam, self.tree.n_labels, advance=advance
            )

    def data(self, levels: range, settings: Mapping[str, Any]) -> TrainingData:
        """Give what the network of some levels learns from."""
        sources = [
            CandidateSource(self.targets[level], self.targets[level - 1], self.tree, level, settings["candidates"])
            if level > 0
            else None
            for level in levels
        ]
        targets = [self.targets[level] for level in levels]
        return TrainingData(self.documents.tokens, targets, sources, self.predicted, settings["hard_negatives"])

    def ndcg(self, network: LabelAttentionNetwork, beam: int) -> float:
        """Judge a network on its last level."""
        level, tokens = network.levels[-1], self.documents.tokens
        ranking = search_levels(network, self.tree, tokens, self.predicted, max(beam, 5), 5)
        truth = self.targets[level]
        if level == self.tree.n_levels - 1:
            truth = sp.csr_array(sp.hstack([truth, self.unseen], format="csr"))
        return ndcg_at_k(judge(ranking.top(5).ids, truth), 5)


def _grow_tree(prepared: Prepared, settings: Mapping[str, Any], number: int) -> LabelTree:
    sizes = settings["level_sizes"]
    if sizes is None:
        n_labels = prepared.label_features.shape[0]
        sizes = choose_level_sizes(n_labels, settings["group_size"], settings["max_first_level"], MAX_FAN_OUT)
    rng = np.random.default_rng([settings["random_state"], number])
    return build_label_tree(prepared.label_features, sizes, rng)


def _trained(trainer: Trainer, checkpoints: Checkpoints | None) -> float:
    finished = checkpoints.finished(trainer.name) if checkpoints is not None else None
    if finished is not None:
        score = float(finished.pop("score"))
        load_network_arrays(trainer.network, finished, trainer.name)
        return score
    score = trainer.run()
    if checkpoints is not None:
        checkpoints.finish(trainer.name, {**network_arrays(trainer.network), "score": np.array(score)})
    return score
