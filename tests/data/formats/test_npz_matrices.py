from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.data.formats.npz_matrices import load_matrix
from haxmlnet.errors import DataError


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"indptr": [0, 2, 2, 0]}, "do not rise"),
        ({"indptr": [1, 2, 3, 3]}, "do not rise"),
        ({"indptr": [0, 3]}, "do not fit"),
        ({"indices": [0, 1, 9]}, "outside 0 to 3"),
        ({"indices": [0, -1, 1]}, "outside 0 to 3"),
        ({"data": [1, 1]}, "do not fit"),
        ({"data": ["a", "b", "c"]}, "its values are"),
        ({"format": "coo"}, "not CSR"),
        ({"shape": [3, 10**12]}, "do not fit"),
        ({"indptr": [0.0, 1.0, 2.0, 3.0]}, "integers"),
    ],
)
def test_arrays_that_make_no_matrix_are_refused_before_scipy_sees_them(tmp_path, changes, reason):
    arrays = {"format": b"csr", "shape": [3, 4], "data": [1, 1, 1], "indices": [0, 1, 2], "indptr": [0, 1, 2, 3]}
    np.savez(tmp_path / "Y.trn.npz", **{**arrays, **changes})
    with pytest.raises(DataError, match=f"Y.trn.npz.*{reason}"):
        load_matrix(tmp_path / "Y.trn.npz")


def test_a_matrix_saved_by_scipy_is_loaded(tmp_path):
    matrix = sp.random_array((5, 7), density=0.4, format="csr", rng=np.random.default_rng(0))
    sp.save_npz(tmp_path / "Y.trn.npz", matrix)
    assert (load_matrix(tmp_path / "Y.trn.npz") != matrix).nnz == 0
