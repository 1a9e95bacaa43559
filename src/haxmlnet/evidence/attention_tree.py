"""`AttentionTree`: label-wise attention networks for the levels of a label tree, trained from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from haxmlnet.data.tokens import TokenArray, length_sorted_batches
from haxmlnet.errors import ModelError
from haxmlnet.evidence.attention_training import TreeDocuments, start_heads, train_network, training_name
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.level_networks import (
    get_weights,
    group_levels,
    new_network,
    restore_network,
)
from haxmlnet.evidence.protocol import Documents, Features, Frame, LabelIds, Reasons, Run
from haxmlnet.evidence.tree_search import (
    MAX_TOKENS,
    BatchSearch,
    balance_tokens,
    batch_limit,
    map_in_threads,
    pad_batch,
    sigmoid,
)
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.ranking import ABSENT, Ranking, extend_ranking, is_full
from haxmlnet.training.hardware import one_thread, side_by_side
from haxmlnet.tree import LabelTree, ancestors_of

MIN_SCORE = 1e-9
# Logits beyond these say nothing more; an outlier would drown the rest.
MAX_LOGIT = 15.0
# A block of documents keeps so many elements of states, (B, T, H): 128 MB of float32 for each thread.
STATES_OF_BLOCK = 2**25
MAX_BLOCK = 2048

R = TypeVar("R")


@dataclass(frozen=True)
class AttentionTree:
    """The networks of a tree from top to bottom: one for all levels, or one for each."""

    tree: LabelTree
    networks: list[LabelAttentionNetwork]
    max_length: int
    beam: int
    n_proposals: int
    validation_score: float = -1.0
    """nDCG@5 of the labels on the documents held out; -1 where there were none."""

    name: ClassVar[str] = "attention"
    of_tree: ClassVar[bool] = True

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The product of the probabilities along the path, and the logit of each of its nodes."""
        return ("log score", *(f"logit of level {level}" for level in range(self.tree.n_levels)))

    @classmethod
    def train(cls, fold: Fold, tree: LabelTree, run: Run) -> Self:
        """Train the networks, each on the candidates that the network above it gives."""
        config = run.config
        assert config.network is not None
        assert config.training is not None
        beam, negatives = config.search.beam, config.training.hard_negatives
        training = TreeDocuments(fold.kept_documents(config.text.max_length), tree)
        validation = TreeDocuments(fold.held_out.truncate(config.text.max_length), tree) if fold.held_out else None
        networks: list[LabelAttentionNetwork] = []
        score = -1.0
        for levels in group_levels(tree, config.network):
            network = new_network(torch.from_numpy(fold.word_vectors), tree, levels, run)
            if networks and config.network.start_from_above:
                network.start_from(networks[-1])
            data = training.data(levels, config.training)
            start_heads(network, data, fold, tree, run)
            score = train_network(
                network,
                data,
                None if validation is None else partial(validation.ndcg, network, beam),
                training_name(run.number, levels, tree),
                run,
            )
            networks.append(network.eval())
            if levels[-1] < tree.n_levels - 1:
                if negatives:
                    training.search_level(network, beam, run.progress)
                if validation is not None:
                    validation.search_level(network, beam, run.progress)
        return cls(tree, networks, config.text.max_length, beam, config.search.n_searched, score)

    def pays_to_retrain(self, fold: Fold) -> bool:
        """Return False: it would take as long again."""
        return False

    def map_blocks(
        self, work: Callable[[Documents], R], documents: Documents, n_threads: int
    ) -> Iterator[tuple[NDArray[np.int64], R]]:
        """Work on documents of similar lengths together; all blocks of a round take equally long."""
        lengths = self._tokens(documents).lengths
        device = self.networks[0].device
        state_size = sum(network.encoder.state_size for network in self.networks)
        n_threads = n_threads if device.type == "cpu" else 1
        most_tokens = balance_tokens(lengths, n_threads, max(STATES_OF_BLOCK // state_size, MAX_TOKENS))
        blocks = list(length_sorted_batches(lengths, MAX_BLOCK, most_tokens))
        return map_in_threads(lambda rows: work(documents.take(rows)), blocks, n_threads, device)

    def run_jobs(self, jobs: Sequence[Callable[[], R]], documents: Documents) -> list[R]:
        """Run the jobs of a single document in two threads; larger blocks have a thread each."""
        if len(documents) == 1 and self.networks[0].device.type == "cpu":
            return side_by_side(jobs)
        return [job() for job in jobs]

    def examine(self, documents: Documents) -> AttentionFindings:
        """Search the best labels of the documents."""
        tokens = self._tokens(documents)
        batches = []
        limit = min(batch_limit(network, self.tree, self.beam) for network in self.networks)
        for rows in length_sorted_batches(tokens.lengths, limit, MAX_TOKENS):
            searches = self.search(pad_batch(tokens, rows))
            batches.append((rows, searches))
        return AttentionFindings(self, len(tokens), batches)

    def search(self, batch: tuple[Tensor, Tensor]) -> list[BatchSearch]:
        """Encode a batch with each network, which starts from the best nodes that the one above it found."""
        searches: list[BatchSearch] = []
        for network in self.networks:
            above = searches[-1].best(self.beam) if searches else None
            searches.append(BatchSearch.run(network, self.tree, batch, above, self.beam))
        return searches

    def _tokens(self, documents: Documents) -> TokenArray:
        assert documents.tokens is not None
        return documents.tokens.truncate(self.max_length)

    def describe_level(self, level: int) -> dict[str, Any]:
        """Count the nodes of a level, the children of each (fewest and most) and the parameters.

        Those of an encoder count on the first level that it serves.
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

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights of all networks."""
        arrays: dict[str, NDArray[Any]] = {"validation_score": np.array(self.validation_score)}
        for network in self.networks:
            prefix = f"level_{network.first_level}."
            arrays |= {prefix + name: weight for name, weight in get_weights(network).items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], frame: Frame) -> Self:
        """Make the networks of the tree from their weights."""
        config = frame.config
        assert config.network is not None
        arrays = dict(arrays)
        score = float(arrays.pop("validation_score", np.array(-1.0)))
        networks = []
        for levels in group_levels(frame.tree, config.network):
            prefix = f"level_{levels[0]}."
            own = {name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
            networks.append(restore_network(own, levels, frame))
        if arrays:
            raise ModelError(f"{frame.source}: holds {min(arrays)}, which no network of this model has.")
        return cls(frame.tree, networks, config.text.max_length, config.search.beam, config.search.n_searched, score)


@dataclass(frozen=True)
class AttentionFindings:
    """What the networks found in a block of documents, batch by batch."""

    evidence: AttentionTree
    n_documents: int
    batches: list[tuple[NDArray[np.int64], list[BatchSearch]]]
    """Rows of the block, and the search of each network from top to bottom."""

    @cached_property
    def proposals(self) -> LabelIds:
        """The labels with the best products of probabilities."""
        return self.ranking_of_search(self.evidence.n_proposals).ids

    def ranking_of_search(self, k: int) -> Ranking:
        """Rank the labels that the search met."""
        return self._collect(lambda searches: searches[-1].best(k), k)

    def ranking(self, k: int) -> Ranking:
        """Rank by the product of probabilities; labels that only a wider beam meets follow below."""
        ranking, beam = self.ranking_of_search(k), self.evidence.beam
        while not is_full(ranking, k):
            beam *= 2
            ranking = extend_ranking(ranking, self._collect(partial(search_wider, beam=beam, k=k), k), k)
        return ranking

    def _collect(self, rank_batch: Callable[[list[BatchSearch]], Ranking], k: int) -> Ranking:
        """Put the rankings of all batches into the order of the documents."""
        n_labels = self.evidence.tree.n_labels
        ids = np.full((self.n_documents, min(k, n_labels)), ABSENT, np.int32)
        scores = np.zeros(ids.shape, np.float32)
        for rows, searches in self.batches:
            own = rank_batch(searches)
            ids[rows, : own.ids.shape[1]], scores[rows, : own.ids.shape[1]] = own.ids, own.scores
        return Ranking(ids, scores, None, n_labels)

    def features(self, candidates: LabelIds) -> Features:
        """Return the log of the product of probabilities, and the logit of each node on the path."""
        # Two threads would wait for each other at the small matmuls of a single document.
        with one_thread() if self.n_documents == 1 else nullcontext():
            return self._describe(candidates)

    def _describe(self, candidates: LabelIds) -> Features:
        tree = self.evidence.tree
        features = np.empty((*candidates.shape, 1 + tree.n_levels), np.float32)
        for rows, searches in self.batches:
            own, score = candidates[rows], np.ones((len(rows), candidates.shape[1]), np.float32)
            for search in searches:
                for level in search.network.levels:
                    logits = search.path_logits(level, own)
                    score *= sigmoid(logits)
                    features[rows, :, 1 + level] = logits.clip(-MAX_LOGIT, MAX_LOGIT)
            features[rows, :, 0] = np.log(np.maximum(score, MIN_SCORE))
        return features

    @torch.inference_mode()
    def reasons(self, row: int, label: int) -> Reasons:
        """Return the path with the probability of each node, and the attention that the label pays to each token."""
        rows, searches = next((rows, searches) for rows, searches in self.batches if row in rows)
        place = int(np.flatnonzero(rows == row)[0])
        path: list[tuple[int, float]] = []
        labels = np.full((len(rows), 1), label, np.int32)
        for search in searches:
            for level in search.network.levels:
                node = int(ancestors_of(self.evidence.tree, labels, level)[0, 0])
                path.append((node, float(sigmoid(search.path_logits(level, labels))[place, 0])))
        last = searches[-1]
        states = last.states[place, : int(last.lengths[place])].float()  # (T, H)
        query = last.network.head(last.network.levels[-1]).queries.weight[label]
        return Reasons(path, (states @ query).softmax(dim=0).cpu().numpy())


def search_wider(searches: list[BatchSearch], beam: int, k: int) -> Ranking:
    """Rank k labels by a search with another beam, from the same states."""
    above: Ranking | None = None
    for search in searches:
        again = search.search(above, beam)
        above = again.best(beam)
    return again.best(k)
