"""`ClassifierTree`: linear classifiers at the nodes of a label tree, strong on labels with few documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from haxmlnet.data.arrays import release_pages
from haxmlnet.errors import ModelError
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.protocol import Documents, Features, Frame, LabelIds, Reasons, Run
from haxmlnet.linear import (
    BeamSearch,
    Block,
    LinearLevel,
    LinearModel,
    LinearTask,
    NodeVectors,
    block_of,
    map_blocks,
    train_linear_model,
)
from haxmlnet.ranking import Ranking, extend_ranking, is_full
from haxmlnet.tree import LabelTree, ancestors_of, with_coarser_levels
from haxmlnet.tree.walk import parents_at

# More nodes in the first level than this take longer to train than one more level above them.
MAX_FIRST_LEVEL = 512
MAX_FAN_OUT = 32
# Nodes with less than a twentieth of the best one's score are not searched, as long as there is a choice of labels.
MAX_SCORE_GAP = 3.0
# Classifiers trained beside at most this part of the documents are kept: to train them again on all documents would
# take as long again. Labels that only held-out documents have are left to names and to similar documents.
FEW_HELD_OUT = 0.01

R = TypeVar("R")


@dataclass(frozen=True)
class ClassifierTree:
    """Classifiers over a tree, and the beam that searches it."""

    model: LinearModel
    beam: int
    n_proposals: int

    name: ClassVar[str] = "classifiers"
    of_tree: ClassVar[bool] = True

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The margin of each node on the path, the score that follows, and the similarity to the label's documents."""
        levels = (f"margin of level {level}" for level in range(len(self.model.levels)))
        return (*levels, "log score", "similarity to prototype")

    @classmethod
    def train(cls, fold: Fold, tree: LabelTree, run: Run) -> Self:
        """Train the classifiers of every level on the documents kept."""
        config = run.config
        task = LinearTask(
            fold.kept_features(),
            fold.kept_targets,
            config.linear,
            config.machine.random_state,
            run.n_threads,
            run.progress,
        )
        model = train_linear_model(task, coarsen(tree), fold.label_features)
        release_pages(fold.label_features.data, fold.label_features.indices)
        return cls(model, config.linear.beam, config.search.n_candidates)

    def pays_to_retrain(self, fold: Fold) -> bool:
        """Retrain unless so few documents were held out that they would change little."""
        return gains_from_held_out(fold.n_left_out, len(fold.whole))

    def map_blocks(
        self, work: Callable[[Documents], R], documents: Documents, n_threads: int
    ) -> Iterator[tuple[NDArray[np.int64], R]]:
        """Work on equal blocks of documents, one after the other in each thread."""

        def work_on(block: range) -> tuple[NDArray[np.int64], R]:
            rows = np.arange(block.start, block.stop)
            return rows, work(documents.take(rows))

        size = self.model.search_size(self.beam, self.n_proposals)
        return map_blocks(work_on, len(documents), n_threads, size)

    def run_jobs(self, jobs: Sequence[Callable[[], R]], documents: Documents) -> list[R]:
        """Do one after the other: a block has a thread of its own."""
        return [job() for job in jobs]

    def examine(self, documents: Documents) -> ClassifierFindings:
        """Search the best labels of the documents."""
        return ClassifierFindings(self, documents, block_of(documents.features, range(len(documents))))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights of each level, and the prototypes."""
        levels = self.model.levels
        arrays: dict[str, NDArray[Any]] = {f"level_{depth}.biases": level.biases for depth, level in enumerate(levels)}
        weights = {f"level_{depth}": level.vectors for depth, level in enumerate(levels)}
        weights["prototypes"] = self.model.prototypes
        return arrays | {
            f"{part}.{name}": value for part, w in weights.items() for name, value in w.to_arrays().items()
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], frame: Frame) -> Self:
        """Restore classifiers that fit the tree."""
        tree = coarsen(frame.tree)

        def weights(part: str, depth: int) -> NodeVectors:
            prefix = f"{part}."
            own = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
            n_nodes = tree.level_sizes[depth]
            try:
                return NodeVectors.from_arrays(own, n_nodes, frame.n_features, parents_at(tree, depth))
            except (KeyError, ValueError) as error:
                message = f"{frame.source}: {part} does not hold the weights of {n_nodes} nodes ({error})."
                raise ModelError(message) from None

        levels = []
        for depth, n_nodes in enumerate(tree.level_sizes):
            biases = arrays.get(f"level_{depth}.biases", np.zeros(0))
            if biases.shape != (n_nodes,):
                raise ModelError(f"{frame.source}: level {depth}: expected {n_nodes} biases, got {biases.shape}.")
            levels.append(LinearLevel(weights(f"level_{depth}", depth), biases))
        model = LinearModel(tree, levels, weights("prototypes", tree.n_levels - 1))
        return cls(model, frame.config.linear.beam, frame.config.search.n_candidates)


@dataclass(frozen=True)
class ClassifierFindings:
    """The labels below the best nodes of each level, and the dot products that were computed on the way."""

    evidence: ClassifierTree
    documents: Documents
    block: Block

    @cached_property
    def search(self) -> BeamSearch:
        """The best labels and, for later questions, the dot products on the way to them."""
        evidence = self.evidence
        width = min(evidence.n_proposals, evidence.model.tree.n_labels)
        return evidence.model.search(self.block, evidence.beam, width, MAX_SCORE_GAP)

    @property
    def proposals(self) -> LabelIds:
        """The labels with the best scores."""
        return self.search.ranking.ids

    def ranking(self, k: int) -> Ranking:
        """Rank by the product of exp(-hinge^2) along the path; labels that only a wider beam meets follow below."""
        model, beam = self.evidence.model, self.evidence.beam
        ranking = model.search(self.block, beam, k).ranking
        while not is_full(ranking, k):
            beam *= 2
            ranking = extend_ranking(ranking, model.search(self.block, beam, k).ranking, k)
        return ranking

    def features(self, candidates: LabelIds) -> Features:
        """Return margins and score of each candidate's path, and the similarity to its prototype."""
        model = self.evidence.model
        found = self.search.ranking.ids
        if np.array_equal(candidates[:, : found.shape[1]], found):  # the margins of these are known
            others = model.path_margins(self.block, candidates[:, found.shape[1] :], self.search)
            margins = np.concatenate([self.search.margins, others], axis=1)
        else:
            margins = model.path_margins(self.block, candidates, self.search)
        return model.features(self.block, candidates, margins)

    def reasons(self, row: int, label: int) -> Reasons:
        """Return the path with the score of each node, and what each word adds to its margins."""
        model, labels = self.evidence.model, np.array([[label]], np.int32)
        own = self.documents.take(np.array([row])).features
        margins = model.path_margins(block_of(own, range(1)), labels)[0, 0]
        scores = np.exp(-np.square(np.maximum(1 - margins, 0)))
        nodes = [int(ancestors_of(model.tree, labels, level)[0, 0]) for level in range(model.tree.n_levels)]
        words = dict(zip(own.indices.tolist(), model.contributions(own, label).tolist(), strict=True))
        return Reasons(list(zip(nodes, scores.tolist(), strict=True)), words=words)


def gains_from_held_out(n_left_out: int, n_documents: int) -> bool:
    """Return whether to train again on all documents where some were left out at first."""
    return n_left_out > FEW_HELD_OUT * n_documents


def coarsen(tree: LabelTree) -> LabelTree:
    """Put levels above the tree where its first one is too wide for linear classifiers."""
    return with_coarser_levels(tree, MAX_FIRST_LEVEL, MAX_FAN_OUT)
