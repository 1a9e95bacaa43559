"""`Evidence` and `Findings`: what every source of evidence can do. Sources of evidence know nothing of each other.

A model examines a block of documents with all its evidence, makes all proposals the candidates, asks all findings for
their features of every candidate, and fuses these into probabilities (`fused_tree.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.config import Config
from haxmlnet.data.tokens import TokenArray
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.text.tfidf import tfidf, word_counts
from haxmlnet.tree import LabelTree

if TYPE_CHECKING:
    from haxmlnet.evidence.fold import Fold
    from haxmlnet.training.checkpoints import Checkpoints

LabelIds = NDArray[np.int32]
"""(B, W) label ids of B documents; ABSENT where there are fewer."""
Features = NDArray[np.float32]
"""(B, C, F) features of C candidates."""
R = TypeVar("R")


class Evidence(Protocol):
    """A source of evidence about which labels fit a document. It never changes after training."""

    name: ClassVar[str]
    """Names its file in the model directory, and its share of an explanation."""
    of_tree: ClassVar[bool] = False
    """Whether it depends on the label tree; what does not is shared by all trees of a model."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What its features say, in their order."""
        ...

    @classmethod
    def train(cls, fold: Fold, tree: LabelTree, run: Run) -> Self | None:
        """Learn from the documents that the fold keeps; None where there is nothing to learn."""
        ...

    def pays_to_retrain(self, fold: Fold) -> bool:
        """Whether to train it again on all documents, once the fusion is fitted on those held out."""
        return True

    def examine(self, documents: Documents) -> Findings:
        """Look at a block of documents."""
        ...

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything learned as named arrays, for saving."""
        ...

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], frame: Frame) -> Self:
        """Restore what `to_arrays` returned, after checking that it fits the frame."""
        ...


class RankingEvidence(Evidence, Protocol):
    """Evidence that can rank labels alone, as the first of a model must; it also knows how its work is divided."""

    @property
    def beam(self) -> int:
        """Best nodes of each level whose children are scored."""
        ...

    def examine(self, documents: Documents) -> RankingFindings:
        """Look at a block of documents."""
        ...

    def map_blocks(
        self, work: Callable[[Documents], R], documents: Documents, n_threads: int
    ) -> Iterator[tuple[NDArray[np.int64], R]]:
        """Apply work to blocks of documents, side by side in threads; return the rows and the result of each."""
        ...

    def run_jobs(self, jobs: Sequence[Callable[[], R]], documents: Documents) -> list[R]:
        """Do what does not depend on each other with one block of documents."""
        ...


class Findings(Protocol):
    """What one piece of evidence found in a block of documents. It keeps what it computed, for later questions."""

    @property
    def proposals(self) -> LabelIds:
        """Labels (B, W) that may be right, best first."""
        ...

    def features(self, candidates: LabelIds) -> Features:
        """Return the features of candidates (B, C) of each document."""
        ...

    def reasons(self, row: int, label: int) -> Reasons:
        """Return what speaks for a label of one document."""
        ...


class RankingFindings(Findings, Protocol):
    """Findings that can rank labels by scores of their own, as those of a model's first evidence must."""

    def ranking(self, k: int) -> Ranking:
        """Rank k labels of each document; neither order nor scores of the first ones depend on k."""
        ...


@dataclass(frozen=True)
class Reasons:
    """What speaks for a label of a document, as far as a source of evidence can say."""

    path: list[tuple[int, float]] = field(default_factory=list)
    """Nodes from the first level down to the label, with the score of each given its parent."""
    tokens: NDArray[np.float32] | None = None
    """A weight for each token that was read."""
    words: dict[int, float] = field(default_factory=dict)
    """Contributions of word ids (or columns of sparse features)."""
    documents: list[tuple[int, float]] = field(default_factory=list)
    """Training documents and their similarity."""
    count: int | None = None
    """Training documents of the label."""


@dataclass(frozen=True)
class Documents:
    """Documents as evidence sees them: the ids of all their words, and their TF-IDF, made when it is first needed."""

    tokens: TokenArray | None
    """None: sparse features were given, which have no order of words."""
    idf: NDArray[np.float32]
    given_features: sp.csr_array | None = None

    def __len__(self) -> int:
        if self.tokens is not None:
            return len(self.tokens)
        assert self.given_features is not None
        return int(self.given_features.shape[0])

    @cached_property
    def features(self) -> sp.csr_array:
        """TF-IDF, rows of length one (documents x words)."""
        if self.given_features is not None:
            return self.given_features
        assert self.tokens is not None
        return tfidf(word_counts(self.tokens, len(self.idf)), self.idf)

    def take(self, rows: NDArray[np.int64]) -> Documents:
        """Keep some documents."""
        if len(rows) == len(self) == 1:
            return self
        tokens = None if self.tokens is None else self.tokens.take(rows)
        features = None if self.given_features is None else self.given_features[rows]
        return Documents(tokens, self.idf, features)


@dataclass(frozen=True)
class Run:
    """One training: its config, which tree it is for, and where it shows and keeps its state."""

    config: Config
    number: int = 0
    """Of the tree; trees differ in their random start and in the documents that they hold out."""
    progress: Progress = field(default_factory=Progress)
    checkpoints: Checkpoints | None = None
    n_threads: int = 1


@dataclass(frozen=True)
class Frame:
    """What a saved piece of evidence must fit."""

    tree: LabelTree
    n_features: int
    """Word ids of the vocabulary, or columns of sparse features."""
    config: Config
    source: str
    """The file, for messages."""
