"""`LabelFrequency`: how many training documents a label has."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from haxmlnet.errors import ModelError
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.protocol import Documents, Features, Frame, LabelIds, Reasons, Run
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree


@dataclass(frozen=True)
class LabelFrequency:
    """Training documents of each label: no reason to propose it, but the fusion learns how far to trust others."""

    counts: NDArray[np.int64]

    name: ClassVar[str] = "label_frequency"
    of_tree: ClassVar[bool] = False
    feature_names: ClassVar[tuple[str, ...]] = ("log frequency",)

    @classmethod
    def train(cls, fold: Fold, tree: LabelTree, run: Run) -> Self:
        """Count the documents of each label."""
        return cls(np.bincount(fold.kept_targets.indices, minlength=tree.n_labels))

    def pays_to_retrain(self, fold: Fold) -> bool:
        """Return True: counting is cheap."""
        return True

    def examine(self, documents: Documents) -> FrequencyFindings:
        """Frequencies do not depend on the documents."""
        return FrequencyFindings(np.full((len(documents), 0), ABSENT, np.int32), self.counts, self.log_counts)

    @cached_property
    def log_counts(self) -> NDArray[np.float32]:
        """log(1 + count) of each label."""
        return np.log1p(self.counts).astype(np.float32)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the counts."""
        return {"counts": self.counts}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], frame: Frame) -> Self:
        """Take the counts of as many labels as the tree has."""
        counts = arrays.get("counts", np.zeros(0))
        if counts.shape != (frame.tree.n_labels,):
            raise ModelError(f"{frame.source}: expected counts of {frame.tree.n_labels} labels, got {counts.shape}.")
        return cls(counts)


@dataclass(frozen=True)
class FrequencyFindings:
    """The logarithm of each candidate's count."""

    proposals: LabelIds
    counts: NDArray[np.int64]
    log_counts: NDArray[np.float32]

    def features(self, candidates: LabelIds) -> Features:
        """Return log(1 + count), (B, C, 1)."""
        return self.log_counts[candidates][..., None]

    def reasons(self, row: int, label: int) -> Reasons:
        """Return the count."""
        return Reasons(count=int(self.counts[label]))
