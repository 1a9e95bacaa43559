"""Sparse matrices as `scipy.sparse.save_npz` writes them: format, shape, data, indices and indptr in an .npz file."""

from __future__ import annotations

import tokenize
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from haxmlnet.errors import DataError

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

# What numpy and zipfile raise for damaged files; they promise no common type.
_FAULTS = (
    OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, SyntaxError, MemoryError, ArithmeticError,
    RuntimeError, zipfile.BadZipFile, zlib.error, tokenize.TokenError,
)  # fmt: skip
_LARGEST = 2**31 - 1


def load_matrix(path: Path) -> sp.csr_array:
    """Load a matrix and check every index and value; the order within the rows stays as it is stored."""
    import numpy as np

    try:
        with open(path, "rb") as stream, warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy warns of headers that only Python 2 wrote
            matrix = _check_csr(dict(np.load(stream, allow_pickle=False)))
    except (*_FAULTS, Warning) as failure:
        reason = " ".join(str(failure).split())[:80]
        raise DataError(
            f"{path}: not a sparse matrix as scipy saves it ({reason}). Make or download it again."
        ) from failure
    finite = np.isfinite(matrix.data)
    if not finite.all():
        raise DataError(f"{path}: {_describe_place(matrix, int(finite.argmin()))} is no finite number. Fix the matrix.")
    return matrix


def _check_csr(arrays: dict[str, NDArray[Any]]) -> sp.csr_array:
    """Make a matrix of its arrays; scipy's own check comes too late, as it cuts what is too long without a word."""
    import numpy as np
    import scipy.sparse as sp

    form = arrays["format"].item()
    form = form.decode("ascii", "replace") if isinstance(form, bytes) else str(form)
    if form != "csr":
        raise ValueError(f"its form is {form[:20]!r}, which is not CSR: save matrix.tocsr()")
    n_rows, n_columns = (int(size) for size in arrays["shape"])
    data, indices, bounds = arrays["data"], arrays["indices"], arrays["indptr"]
    if data.dtype.kind not in "biuf":
        raise ValueError(f"its values are {data.dtype}")
    if any(array.ndim != 1 for array in (data, indices, bounds)) or {indices.dtype.kind, bounds.dtype.kind} - {*"iu"}:
        raise ValueError("its indices are no lists of integers")
    if not 0 <= n_columns <= _LARGEST or len(bounds) != n_rows + 1 or len(data) != len(indices):
        raise ValueError(f"{len(bounds)} bounds and {len(data)} values do not fit {n_rows} x {n_columns}")
    if bounds[0] != 0 or bounds[-1] != len(indices) or (np.diff(bounds.astype(np.int64)) < 0).any():
        raise ValueError("the bounds of its rows do not rise from 0 to the number of its values")
    if len(indices) and not 0 <= indices.min() <= indices.max() < n_columns:
        raise ValueError(f"a column lies outside 0 to {n_columns - 1}")
    return sp.csr_array((data, indices, bounds), shape=(n_rows, n_columns))


def load_targets(path: Path) -> sp.csr_array:
    """Load a matrix of labels, whose values say only that a label is there."""
    matrix = load_matrix(path)
    negative = matrix.data < 0
    if negative.any():
        place = _describe_place(matrix, int(negative.argmax()))
        raise DataError(f"{path}: {place} is negative. Labels have positive values.")
    return matrix


def _describe_place(matrix: sp.csr_array, i: int) -> str:
    import numpy as np

    row = int(np.searchsorted(matrix.indptr, i, side="right"))
    return f"the value {matrix.data[i]} in row {row}, column {matrix.indices[i] + 1}"


def save_matrix(stream: BinaryIO, matrix: sp.csr_array | sp.csr_matrix) -> None:
    """Save a matrix as PECOS reads it, which knows matrices and not arrays."""
    import scipy.sparse as sp

    sp.save_npz(stream, sp.csr_matrix(matrix))
