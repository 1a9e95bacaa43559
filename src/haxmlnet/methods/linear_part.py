"""The linear model of one tree as methods use it: trained beside held-out documents, fused, saved, loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import csr_view
from haxmlnet.errors import ModelError
from haxmlnet.linear import LinearLevel, LinearModel
from haxmlnet.ranking import ABSENT, Ranking, rank
from haxmlnet.search.fusion import Fusion, fit_fusion
from haxmlnet.tree import LabelTree, with_coarser_levels

# Labels of a document that the rule of fusion compares.
CANDIDATES = 64
# More nodes in the first level than this take longer to train than one more level above them.
MAX_FIRST_LEVEL = 512
MAX_FAN_OUT = 32
_MATRIX = ("values", "columns", "bounds")


@dataclass(frozen=True)
class LinearPart:
    """A linear model, and the rule that turns what it says of a label into a probability."""

    model: LinearModel
    label_counts: NDArray[np.int64]
    fusion: Fusion | None = None
    """None: labels are ranked by the scores of the tree."""

    def search(self, features: sp.csr_array, beam: int, k: int, n_threads: int) -> Ranking:
        """Rank the best k labels of each document."""
        if self.fusion is None:
            return self.model.search(features, beam, k, n_threads)
        candidates = self.model.search(features, beam, max(CANDIDATES, k), n_threads)
        signals = self.signals(features, candidates.ids, n_threads)
        probabilities = self.fusion.probabilities(signals, candidates.ids != ABSENT)
        return rank(candidates.ids, probabilities, k, None, candidates.n_ids)

    def signals(self, features: sp.csr_array, labels: NDArray[np.int32], n_threads: int) -> NDArray[np.float32]:
        """Say what the model thinks of some labels (documents, W), and how frequent they are."""
        frequency = np.log1p(self.label_counts[labels]).astype(np.float32)
        return np.concatenate([self.model.signals(features, labels, n_threads), frequency[..., None]], axis=-1)

    def fitted_fusion(
        self, features: sp.csr_array, targets: sp.csr_array, beam: int, seed: int, n_threads: int
    ) -> Fusion | None:
        """Fit the rule on documents that the model was not trained on."""
        candidates = self.model.search(features, beam, CANDIDATES, n_threads).ids
        signals = self.signals(features, candidates, n_threads)
        return fit_fusion(signals, candidates != ABSENT, marked_true(candidates, targets), seed)

    @property
    def n_signals(self) -> int:
        """How many numbers describe a candidate."""
        return len(self.model.levels) + 3

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give all that was learned by name, for saving."""
        arrays: dict[str, NDArray[Any]] = _matrix_arrays("prototypes", self.model.prototypes)
        for depth, level in enumerate(self.model.levels):
            arrays |= {f"level_{depth}.biases": level.biases, **_matrix_arrays(f"level_{depth}", level.weights)}
        fusion = {} if self.fusion is None else self.fusion.to_arrays()
        return arrays | {f"fusion.{name}": value for name, value in fusion.items()}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        tree: LabelTree,
        label_counts: NDArray[np.int64],
        n_features: int,
        n_more_signals: int = 0,
    ) -> LinearPart:
        """Make it from its named arrays, after checking that they fit the tree; others may add signals to the rule."""
        levels = []
        for depth, n_nodes in enumerate(tree.level_sizes):
            weights = _matrix(arrays, f"level_{depth}", (n_nodes, n_features))
            biases = arrays.get(f"level_{depth}.biases", np.zeros(0))
            if biases.shape != (n_nodes,):
                raise ModelError(f"linear level {depth}: expected {n_nodes} biases, got {biases.shape}.")
            levels.append(LinearLevel(weights, biases))
        model = LinearModel(tree, levels, _matrix(arrays, "prototypes", (tree.n_labels, n_features)))
        part = cls(model, label_counts)
        prefix = "fusion."
        fusion = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
        return cls(model, label_counts, Fusion.from_arrays(fusion, part.n_signals + n_more_signals)) if fusion else part


def tree_for_linear(tree: LabelTree) -> LabelTree:
    """Put levels above the tree where its first one is too wide for linear classifiers."""
    return with_coarser_levels(tree, MAX_FIRST_LEVEL, MAX_FAN_OUT)


def marked_true(labels: NDArray[np.int32], targets: sp.csr_array) -> NDArray[np.bool_]:
    """Say which of some labels (documents, W) are true."""
    rows = np.repeat(np.arange(targets.shape[0]), np.diff(targets.indptr))
    true = rows * np.int64(targets.shape[1]) + targets.indices
    asked = np.arange(len(labels))[:, None] * np.int64(targets.shape[1]) + labels
    return np.isin(asked, true) & (labels != ABSENT)


def _matrix_arrays(name: str, matrix: sp.csr_array) -> dict[str, NDArray[Any]]:
    return dict(zip((f"{name}.{part}" for part in _MATRIX), (matrix.data, matrix.indices, matrix.indptr), strict=True))


def _matrix(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, int]) -> sp.csr_array:
    try:
        values, columns, bounds = (arrays[f"{name}.{part}"] for part in _MATRIX)
        matrix = csr_view(values, columns, bounds, shape[1])
        matrix.check_format(full_check=True)
    except (KeyError, ValueError) as error:
        raise ModelError(f"{name}: does not hold the weights of {shape[0]} nodes ({error}).") from None
    if matrix.shape != shape:
        raise ModelError(f"{name}: expected weights of shape {shape}, got {matrix.shape}.")
    return matrix
