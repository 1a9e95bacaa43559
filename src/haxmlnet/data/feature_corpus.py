"""`FeatureCorpus`: documents as rows of numbers, for data sets that come without texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from haxmlnet.errors import DataError

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass
class FeatureCorpus:
    """Documents without texts, for linear methods; a document may have no feature and no label."""

    ids: list[str]
    features: sp.csr_array  # (documents, features), float32, sorted, without stored zeros
    targets: sp.csr_array  # (documents, labels), 1 for each label of a document
    label_names: list[str] | None = None
    """One for each column of `targets`; None: the numbers of the columns are the names."""
    source: str = ""
    """Where the documents come from, for messages."""
    n_skipped: int = 0
    has_sizes: bool = True
    """Does the file say how many features and labels there are, or only which ones it uses?"""

    def __post_init__(self) -> None:
        assert len(self.ids) == self.features.shape[0] == self.targets.shape[0]
        assert self.label_names is None or len(self.label_names) == self.targets.shape[1]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def labels(self) -> list[tuple[str, ...]]:
        """The names of the labels of each document."""
        columns, names = self.targets.indices.tolist(), self.label_names
        named = [str(column) for column in columns] if names is None else [names[column] for column in columns]
        starts = self.targets.indptr.tolist()
        return [tuple(named[start:stop]) for start, stop in pairwise(starts)]

    def with_n_features(self, n_features: int) -> FeatureCorpus:
        """Give the corpus as many columns as a model was trained with.

        A file that does not say how many features there are is padded, or loses those that the model has never
        seen; one that says so must have the number of the model.
        """
        if n_features == self.features.shape[1]:
            return self
        if self.has_sizes:
            raise DataError(
                f"{self.source}: expected {n_features} features, as in training, got {self.features.shape[1]}. "
                "Give documents of the same data set."
            )
        import scipy.sparse as sp

        known = self.features[:, :n_features]
        features = sp.csr_array((known.data, known.indices, known.indptr), shape=(len(self), n_features))
        return replace(self, features=features)
