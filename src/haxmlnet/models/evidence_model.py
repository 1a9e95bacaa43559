"""`EvidenceModel`: a list of evidence and a fusion over each of its label trees; how such models learn and answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from haxmlnet.config import Config, FusionConfig
from haxmlnet.errors import SettingError
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.fused_tree import FusedTree, train_fused_tree
from haxmlnet.evidence.fusion import Fusion
from haxmlnet.evidence.label_frequency import LabelFrequency
from haxmlnet.evidence.label_names import LabelNames
from haxmlnet.evidence.nearest_documents import NearestDocuments
from haxmlnet.evidence.protocol import Documents, Evidence, Frame, Run
from haxmlnet.evidence.training_set import Labeled, TrainingSet
from haxmlnet.models.document_model import DocumentModel
from haxmlnet.ranking import Ranking, average_rankings, extend_ranking
from haxmlnet.saved import SavedModel
from haxmlnet.store import write_arrays
from haxmlnet.tree import LabelTree, build_label_tree, choose_level_sizes

# Labels of each tree whose scores are averaged; those beyond them follow below, as the first tree ranks them.
AVERAGED = 128


class EvidenceModel(DocumentModel):
    """Trains evidence on most documents, a fusion on those held out, and ranks labels by what both say."""

    trees_: list[FusedTree]

    @abstractmethod
    def sources(self, config: Config) -> list[type[Evidence]]:
        """Return the evidence classes; the first must be able to rank alone, for want of a fusion."""

    def _train_trees(self, whole: TrainingSet, given: Labeled | None, run: Run) -> int:
        """Train one fused tree after the other; return the number of documents that were held out."""
        config, trees = run.config, []
        for number in range(config.tree.n_trees):
            run = replace(run, number=number)
            fold = Fold.split(whole, config, given, number)
            sources = self.sources(config)
            trees.append(train_fused_tree(fold, grow_tree(fold, number), sources, run))
            n_held_out = 0 if fold.held_out is None else len(fold.held_out)
            del fold  # room for what the next one is trained on
        share_evidence(trees)
        self.trees_ = trees
        return n_held_out

    def _average_trees(self, documents: Documents, k: int, n_threads: int, beam: int | None) -> Ranking:
        """Average the rankings of all trees."""
        if beam is not None and (not isinstance(beam, int) or beam < 1):
            raise SettingError(f"beam must be at least 1, got {beam!r}.")
        trees = [tree.with_beam(beam) for tree in self.trees_]
        if len(trees) == 1:
            return trees[0].rank(documents, k, n_threads)
        width = min(AVERAGED, len(self.label_index_))
        rankings = [tree.rank(documents, max(k, width), n_threads) for tree in trees]
        best = average_rankings([ranking.top(width) for ranking in rankings], k)
        # Means of longer rankings would change with their length.
        return best if k <= width else extend_ranking(best, rankings[0], k)

    def _write_parts(self, directory: Path) -> None:
        super()._write_parts(directory)
        evidence: dict[str, Evidence] = {}  # what does not depend on the tree is written once
        for number, fused in enumerate(self.trees_):
            write_arrays(directory / f"tree_{number}.safetensors", fused.tree.to_tensors())
            evidence |= {file_name(type(source), number): source for source in fused.evidence}
            if fused.fusion is not None:
                write_arrays(directory / f"tree_{number}.fusion.safetensors", fused.fusion.to_arrays())
        for name, source in evidence.items():
            write_arrays(directory / name, source.to_arrays())

    def _read_trees(self, saved: SavedModel, config: Config) -> None:
        self.trees_ = []
        read: dict[str, Evidence] = {}
        for number in range(config.tree.n_trees):
            tree = LabelTree.from_tensors(saved.arrays(f"tree_{number}.safetensors"))
            fused = FusedTree(tree, [], None)
            for place, source in enumerate(self.sources(config)):
                name = file_name(source, number)
                if name not in read and (place == 0 or name in saved):  # the first must be there
                    frame = Frame(tree, self.n_features_, config, str(saved.file(name)))
                    read[name] = source.from_arrays(saved.arrays(name), frame)
                if name in read:
                    fused.evidence.append(read[name])
            if f"tree_{number}.fusion.safetensors" in saved:
                arrays = saved.arrays(f"tree_{number}.fusion.safetensors")
                fused.fusion = Fusion.from_arrays(arrays, len(fused.feature_names))
            self.trees_.append(fused)

    def nested_trees(self) -> list[dict[str, Any]]:
        """Return each label tree as nested nodes, its groups with the names of their labels."""
        self._check_fitted()
        return [fused.tree.to_nested(self.label_index_.names.tolist()) for fused in self.trees_]


def optional_evidence(config: FusionConfig) -> list[type[Evidence]]:
    """Return the evidence that both models have beside networks and classifiers, as far as it is switched on."""
    optional: list[type[Evidence]] = [LabelFrequency]
    if config.names:
        optional.append(LabelNames)
    if config.neighbours:
        optional.append(NearestDocuments)
    return optional


def grow_tree(fold: Fold, number: int) -> LabelTree:
    """Build the label tree of a fold from the features of its labels."""
    config = fold.config.tree
    sizes = config.level_sizes
    if sizes is None:
        n_labels = len(fold.label_index)
        sizes = tuple(choose_level_sizes(n_labels, config.group_size, config.max_first_level, config.max_fan_out))
    rng = np.random.default_rng([fold.config.machine.random_state, number])
    # Networks must not know the documents held out, as they are validated on them. Without networks, all may count.
    known = fold if fold.config.network is not None else fold.everything
    return build_label_tree(known.label_features, sizes, rng)


def share_evidence(trees: Sequence[FusedTree]) -> None:
    """Let all trees use the same objects for evidence that does not depend on the tree."""
    shared: dict[str, Evidence] = {}
    for fused in trees:
        fused.evidence = [e if e.of_tree else shared.setdefault(e.name, e) for e in fused.evidence]


def file_name(source: type[Evidence], number: int) -> str:
    """Name the file of a piece of evidence."""
    return f"tree_{number}.{source.name}.safetensors" if source.of_tree else f"{source.name}.safetensors"
