"""`FusedTree`: a label tree, its evidence and the fusion: how a block of documents becomes a `Ranking`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.evidence.fold import Fold, Labelled
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
from haxmlnet.ranking import ABSENT, Ranking, extend_ranking, is_full, rank
from haxmlnet.tree import LabelTree, marked_in_rows


@dataclass
class FusedTree:
    """One list of evidence over one label tree; the first can rank alone, and does so where there is no fusion."""

    tree: LabelTree
    first: RankingEvidence
    others: list[Evidence]
    fusion: Fusion | None

    @property
    def evidence(self) -> list[Evidence]:
        """All evidence, the first first."""
        return [self.first, *self.others]

    def with_beam(self, beam: int | None) -> FusedTree:
        """Search with another beam; None: with that of the training."""
        return self if beam in (None, self.first.beam) else replace(self, first=replace(self.first, beam=beam))  # type: ignore[type-var]

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
        findings = self.examine(documents)
        first: RankingFindings = findings[0]  # type: ignore[assignment]
        if self.fusion is None:
            return first.ranking(k)
        candidates, features = judge(findings)
        probabilities = self.fusion.probabilities(features, candidates != ABSENT)
        best = rank(candidates, probabilities, k, None, self.tree.n_labels)
        # Labels that are no candidates follow below: a score depends on the text and the model, never on k.
        return best if is_full(best, k) else extend_ranking(best, first.ranking(k), k)

    def examine(self, documents: Documents) -> list[Findings]:
        """Look at a block of documents with all evidence."""
        return self.first.run_jobs([partial(source.examine, documents) for source in self.evidence], documents)

    @property
    def feature_names(self) -> list[str]:
        """What the fusion learns from, in order."""
        return [f"{evidence.name}: {name}" for evidence in self.evidence for name in evidence.feature_names]


def judge(findings: Sequence[Findings]) -> tuple[LabelIds, Features]:
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
    if len(sources) > 1 and (fold.held_out is None or len(fold.held_out) < MIN_DOCUMENTS):
        sources = sources[:1]  # there is too little to fit a fusion on
    trained = [source.train(fold, tree, run) for source in sources]
    known = [evidence for evidence in trained if evidence is not None]
    model = FusedTree(tree, known[0], known[1:], None)  # type: ignore[arg-type]
    del trained, known
    if len(sources) > 1:
        assert fold.held_out is not None
        model.fusion = fit_on(model, fold.held_out, run)
        if model.fusion is None:
            model.others = []
    if fold.n_left_out:
        retrain(model, fold, run)
    return model


def fit_on(model: FusedTree, held_out: Labelled, run: Run) -> Fusion | None:
    """Fit the fusion on documents that the evidence was not trained on."""
    blocks = list(model.first.map_blocks(lambda block: judge(model.examine(block)), held_out.documents, run.n_threads))
    rows = np.concatenate([rows for rows, _ in blocks])
    candidates = np.concatenate([candidates for _, (candidates, _) in blocks])
    features = np.concatenate([features for _, (_, features) in blocks])
    right = mark_true(candidates, held_out.targets[rows])
    return fit_fusion(features, candidates != ABSENT, right, run.config.machine.random_state)


def retrain(model: FusedTree, fold: Fold, run: Run) -> None:
    """Train again on all documents what gains by it; the old one goes first, to make room."""
    for place in range(len(model.evidence)):
        if not model.evidence[place].pays_to_retrain(fold):
            continue
        source = type(model.evidence[place])
        if place == 0:
            del model.first
            model.first = source.train(fold.everything, model.tree, run)  # type: ignore[assignment]
        else:
            del model.others[place - 1]
            again = source.train(fold.everything, model.tree, run)
            assert again is not None
            model.others.insert(place - 1, again)


def mark_true(labels: LabelIds, targets: sp.csr_array) -> NDArray[np.bool_]:
    """Say which of some labels (B, C) are true."""
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    true = rows * np.int64(targets.shape[1]) + targets.indices
    asked = np.arange(len(labels))[:, None] * np.int64(targets.shape[1]) + labels
    return np.isin(asked, true) & (labels != ABSENT)
