"""`FusedTree`: a label tree, its evidence and the fusion: how a block of documents becomes a `Ranking`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.fusion import MIN_DOCUMENTS, Fusion, fit_fusion
from haxmlnet.evidence.protocol import (
    Documents,
    Evidence,
    Features,
    Findings,
    LabelIds,
    RankingEvidence,
    RankingFindings,
    Run,
)
from haxmlnet.evidence.training_set import Labeled
from haxmlnet.ranking import ABSENT, Ranking, extend_ranking, is_full, rank
from haxmlnet.tree import LabelTree, marked_in_rows


@dataclass
class FusedTree:
    """A list of evidence over a label tree, and the fusion; without one, the first evidence ranks alone."""

    tree: LabelTree
    evidence: list[Evidence]
    fusion: Fusion | None

    @property
    def first(self) -> RankingEvidence:
        """The evidence that can rank alone, and says how the work is divided."""
        return cast(RankingEvidence, self.evidence[0])

    def with_beam(self, beam: int | None) -> FusedTree:
        """Search with another beam; None: with that of the training."""
        if beam is None or beam == self.first.beam:
            return self
        return FusedTree(self.tree, [replace(self.first, beam=beam), *self.evidence[1:]], self.fusion)  # type: ignore[type-var]

    def rank(self, documents: Documents, k: int, n_threads: int) -> Ranking:
        """Rank the best k labels of each document, block by block."""
        width = min(k, self.tree.n_labels)
        ids = np.full((len(documents), width), ABSENT, np.int32)
        scores = np.zeros(ids.shape, np.float32)
        for rows, ranking in self.first.map_blocks(partial(self.rank_block, k=width), documents, n_threads):
            ids[rows], scores[rows] = ranking.ids, ranking.scores
        return Ranking(ids, scores, None, self.tree.n_labels)

    def rank_block(self, documents: Documents, k: int) -> Ranking:
        """Rank by the fusion; without one, by the first evidence's own scores."""
        if self.fusion is None:
            return self.first.examine(documents).ranking(k)
        findings = self.examine(documents)
        candidates, features = describe_candidates(findings)
        probabilities = self.fusion.probabilities(features, candidates != ABSENT)
        best = rank(candidates, probabilities, k, None, self.tree.n_labels)
        # Labels that are no candidates follow below: a score depends on the text and the model, never on k.
        return best if is_full(best, k) else extend_ranking(best, cast(RankingFindings, findings[0]).ranking(k), k)

    def examine(self, documents: Documents) -> list[Findings]:
        """Look at a block of documents with all evidence."""

        def look(source: Evidence) -> Findings:
            findings = source.examine(documents)
            _ = findings.proposals  # searched now, as jobs run side by side
            return findings

        return self.first.run_jobs([partial(look, source) for source in self.evidence], documents)

    @property
    def feature_names(self) -> list[str]:
        """What the fusion learns from, in order."""
        return [f"{evidence.name}: {name}" for evidence in self.evidence for name in evidence.feature_names]


def describe_candidates(findings: Sequence[Findings]) -> tuple[LabelIds, Features]:
    """Make all proposals the candidates (B, C), and ask all findings for their features (B, C, F)."""
    candidates = unite([found.proposals for found in findings])
    return candidates, np.concatenate([found.features(candidates) for found in findings], axis=-1)


def unite(proposals: Sequence[LabelIds]) -> LabelIds:
    """Join proposals (B, W) of several sources to candidates (B, C); a label that comes again is ABSENT."""
    candidates = proposals[0]
    for labels in proposals[1:]:
        new = np.where(marked_in_rows(labels, candidates), ABSENT, labels).astype(np.int32)
        candidates = np.concatenate([candidates, new], axis=1)
    return candidates


def train_fused_tree(fold: Fold, tree: LabelTree, sources: Sequence[type[Evidence]], run: Run) -> FusedTree:
    """Train the evidence on the documents kept, fit the fusion on those held out, retrain on all where that pays."""
    n_held_out = 0 if fold.held_out is None else len(fold.held_out)
    if len(sources) > 1 and n_held_out < MIN_DOCUMENTS:
        run.progress.say(
            f"{n_held_out} documents are held out, and a fusion needs {MIN_DOCUMENTS}: {sources[0].name} ranks alone. "
            "Give validation documents, or a larger validation_fraction."
        )
        sources = sources[:1]
    trained = [source.train(fold, tree, run) for source in sources]
    model = FusedTree(tree, [evidence for evidence in trained if evidence is not None], None)
    del trained
    if fold.held_out is not None and len(sources) > 1:
        model.fusion = fit_on(model, fold.held_out, run)
        if model.fusion is None:
            model.evidence = model.evidence[:1]
    if fold.n_left_out:
        retrain(model, fold, run)
    return model


def fit_on(model: FusedTree, held_out: Labeled, run: Run) -> Fusion | None:
    """Fit the fusion on documents that the evidence was not trained on."""
    blocks = list(
        model.first.map_blocks(
            lambda block: describe_candidates(model.examine(block)), held_out.documents, run.n_threads
        )
    )
    rows = np.concatenate([rows for rows, _ in blocks])
    candidates = np.concatenate([candidates for _, (candidates, _) in blocks])
    features = np.concatenate([features for _, (_, features) in blocks])
    right = mark_true(candidates, held_out.targets[rows])
    return fit_fusion(features, candidates != ABSENT, right, run.config.machine.random_state)


def retrain(model: FusedTree, fold: Fold, run: Run) -> None:
    """Train again on all documents what gains by it; the old one goes first, to make room."""
    for place in range(len(model.evidence)):
        if model.evidence[place].pays_to_retrain(fold):
            source = type(model.evidence.pop(place))
            again = source.train(fold.everything, model.tree, run)
            assert again is not None
            model.evidence.insert(place, again)


def mark_true(labels: LabelIds, targets: sp.csr_array) -> NDArray[np.bool_]:
    """Return which of some labels (B, C) are true."""
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    true = rows * np.int64(targets.shape[1]) + targets.indices
    asked = np.arange(len(labels))[:, None] * np.int64(targets.shape[1]) + labels
    return np.isin(asked, true) & (labels != ABSENT)
