"""Sparse matrices as scipy saves them, the form of PECOS."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from haxmlnet.errors import DataError

if TYPE_CHECKING:
    import scipy.sparse as sp

# What numpy, scipy and zipfile raise for damaged files; they promise no common type.
_FAULTS = (
    OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, SyntaxError, MemoryError, ArithmeticError,
    RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def load_matrix(path: Path) -> sp.csr_array:
    """Load a matrix and check every index and value; the order within the rows stays as it is stored."""
    import numpy as np
    import scipy.sparse as sp

    try:
        with open(path, "rb") as stream:
            matrix = sp.csr_array(sp.load_npz(stream))
        matrix.check_format(full_check=True)
        if matrix.dtype.kind not in "biuf":
            raise ValueError(f"its values are {matrix.dtype}")
    except _FAULTS as failure:
        reason = " ".join(str(failure).split())[:80]
        raise DataError(
            f"{path}: not a sparse matrix as scipy saves it ({reason}). Make or download it again."
        ) from failure
    finite = np.isfinite(matrix.data)
    if not finite.all():
        raise DataError(f"{path}: {_place(matrix, int(finite.argmin()))} is no finite number. Mend the matrix.")
    return matrix


def load_targets(path: Path) -> sp.csr_array:
    """Load a matrix of labels, whose values say only that a label is there."""
    matrix = load_matrix(path)
    negative = matrix.data < 0
    if negative.any():
        raise DataError(f"{path}: {_place(matrix, int(negative.argmax()))} is negative. Labels have positive values.")
    return matrix


def _place(matrix: sp.csr_array, i: int) -> str:
    import numpy as np

    row = int(np.searchsorted(matrix.indptr, i, side="right"))
    return f"the value {matrix.data[i]} in row {row}, column {matrix.indices[i] + 1}"
