"""Texts of PECOS with a matrix of labels."""

import io

import numpy as np
import pytest
import scipy.sparse as sp
from format_samples import (
    TEXTS,
    assert_message,
    message_of,
    npz,
)

BAD_CSR = npz([[0], [1]], n_columns=2, compressed=False)
MALFORMED = [
    ("pecos", {"X.trn.txt": TEXTS}, "X.trn.txt: there is no Y.trn.npz beside it"),
    ("pecos", {"a.txt": TEXTS}, "a.txt: cannot tell the file of the labels. Name the files X.NAME.txt and Y.NAME.npz"),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": npz([[0]])}, "X.trn.txt: 2 texts, but 1 rows of labels in Y.trn.npz."),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": npz([[0]] * 3)}, "X.trn.txt: 2 texts, but 3 rows of labels in Y.trn"),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": b"no archive"}, "Y.trn.npz: not a sparse matrix as scipy saves it ("),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": BAD_CSR[: len(BAD_CSR) // 2]}, "Y.trn.npz: not a sparse matrix as"),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": npz([[0], [1]]), "output-items.txt": "a\n"},
     "output-items.txt: expected 2 different names, one a line, got 1. Fix"),
]  # fmt: skip


def test_indices_beyond_the_matrix_are_refused(write):
    matrix = sp.csr_matrix((np.ones(2), [0, 1], [0, 1, 2]), (2, 2))
    matrix.indices[1] = 7
    stream = io.BytesIO()
    sp.save_npz(stream, matrix)
    assert "not a sparse matrix" in message_of(write({"X.trn.txt": TEXTS, "Y.trn.npz": stream.getvalue()}))


@pytest.mark.parametrize(("name", "files", "message"), MALFORMED, ids=lambda value: str(value)[:30])
def test_malformed_files_are_told_where_and_what(write, name, files, message):
    assert_message(write(files), message, format=name)
