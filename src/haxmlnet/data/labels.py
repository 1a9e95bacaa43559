"""Labels as people give them to a sparse 0/1 matrix, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.errors import DataError


@dataclass(frozen=True)
class LabelIndex:
    """The names of the labels in the order of their columns."""

    names: NDArray[np.object_]

    @classmethod
    def from_labels(cls, labels: Iterable[Iterable[str]]) -> LabelIndex:
        """Collect all labels, in alphabetical order."""
        return cls(np.array(sorted({label for row in labels for label in row}), dtype=object))

    def __len__(self) -> int:
        return len(self.names)

    def matrix(self, labels: Sequence[Iterable[str]]) -> sp.csr_array:
        """Return the 0/1 matrix (documents x labels); labels the index does not hold get columns at the end.

        So a test set's unseen labels still count as true: they can only be missed.
        """
        columns = {name: i for i, name in enumerate(self.names)}
        indices: list[int] = []
        starts = np.zeros(len(labels) + 1, np.int64)
        for row, names in enumerate(labels):
            indices += sorted({columns.setdefault(name, len(columns)) for name in names})
            starts[row + 1] = len(indices)
        values = np.ones(len(indices), np.float32)
        shape = (len(labels), len(columns))
        return sp.csr_array((values, np.array(indices, np.int32), starts.astype(np.int32)), shape=shape)


def index_labels(labels: Any, n_documents: int, names: Sequence[str] | None = None) -> tuple[LabelIndex, sp.csr_array]:
    """Read labels given as collections of names or as a 0/1 matrix, dense or sparse, with optional names."""
    if _is_matrix(labels):
        matrix = check_indicators(labels)
        given = [str(i) for i in range(matrix.shape[1])] if names is None else _checked_names(names, "label_names")
        if len(given) != matrix.shape[1] or len(set(given)) != len(given):
            raise DataError(f"label_names: expected {matrix.shape[1]} different names, one a column, got {len(given)}.")
        index = LabelIndex(np.array(given, dtype=object))
    else:
        checked = check_label_lists(labels)
        index = LabelIndex.from_labels(checked)
        matrix = index.matrix(checked)
    if matrix.shape[0] != n_documents:
        raise DataError(f"labels: expected {n_documents}, one set a text, got {matrix.shape[0]}.")
    if matrix.nnz == 0:
        raise DataError("labels: no document has a label, so there is nothing to learn.")
    return index, matrix


def truth_matrix(labels: Any, index: LabelIndex) -> sp.csr_array:
    """Read the true labels of an evaluation in the columns of a trained model."""
    if not _is_matrix(labels):
        return index.matrix(check_label_lists(labels))
    matrix = check_indicators(labels)
    if matrix.shape[1] != len(index):
        raise DataError(f"labels: expected {len(index)} columns, as in training, got {matrix.shape[1]}.")
    return matrix


def check_label_lists(labels: Iterable[Any]) -> list[list[str]]:
    """Check collections of label names; a bare string is refused, for its letters are not its labels."""
    return [_checked_names(names, f"labels[{row}]") for row, names in enumerate(labels)]


def _checked_names(names: Any, where: str) -> list[str]:
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise DataError(f"{where} must be a collection of strings, got {names!r:.60}. Put it in a list.")
    members = list(names)
    for name in members:
        if not isinstance(name, str):
            raise DataError(f"{where} must hold strings, got {name!r:.60}.")
        if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
            raise DataError(f"{where} holds half a surrogate pair, which is no character: {name!r:.60}.")
    return members


def check_indicators(labels: Any) -> sp.csr_array:
    """Check a 0/1 matrix and give it as CSR, sorted and without stored zeros."""
    matrix = sp.csr_array(labels, dtype=np.float32, copy=True)  # what follows works in place
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not (matrix.data == 1).all():
        raise DataError("labels: an indicator matrix holds 0 and 1 only.")
    return matrix


def _is_matrix(labels: Any) -> bool:
    if isinstance(labels, np.ndarray):
        return labels.ndim == 2 and labels.dtype.kind in "biuf"
    return bool(sp.issparse(labels))
