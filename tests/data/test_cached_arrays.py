from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.data.cached_arrays import cache_arrays, cache_matrix
from haxmlnet.progress import Progress

IDENTITY = {"what": "some rows", "size": 3}
ROWS = np.array([[0, 1.5, 0, 2], [0, 0, 0, 0], [3, 0, 0, 0], [0, 0, 4, 0], [5, 6, 7, 8]], np.float32)


def blocks() -> Iterator[sp.csr_array]:
    for part in (ROWS[:2], ROWS[2:2], ROWS[2:]):
        yield sp.csr_array(part)


def never() -> Iterator[sp.csr_array]:
    raise AssertionError("made again")


class Remarks(Progress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_a_matrix_is_the_same_in_memory_new_and_kept(tmp_path):
    for directory, make in ((None, blocks), (tmp_path, blocks), (tmp_path, never)):
        matrix = cache_matrix(directory, IDENTITY, 4, make, Progress())
        np.testing.assert_array_equal(matrix.toarray(), ROWS)
        assert matrix.dtype == np.float32


def test_other_identities_are_other_matrices(tmp_path):
    cache_matrix(tmp_path, IDENTITY, 4, blocks, Progress())
    with pytest.raises(AssertionError, match="made again"):
        cache_matrix(tmp_path, {**IDENTITY, "size": 4}, 4, never, Progress())


def test_no_rows_are_a_matrix_too(tmp_path):
    for directory in (None, tmp_path):
        assert cache_matrix(directory, IDENTITY, 4, lambda: iter(()), Progress()).shape == (0, 4)


def test_a_damaged_matrix_is_made_anew(tmp_path):
    cache_matrix(tmp_path, IDENTITY, 4, blocks, Progress())
    os.truncate(next(tmp_path.glob("*/values.npy")), 130)
    remarks = Remarks()
    np.testing.assert_array_equal(cache_matrix(tmp_path, IDENTITY, 4, blocks, remarks).toarray(), ROWS)
    assert len(remarks.lines) == 1
    np.testing.assert_array_equal(cache_matrix(tmp_path, IDENTITY, 4, never, Progress()).toarray(), ROWS)


def test_what_cannot_be_written_is_made_in_memory(tmp_path):
    (tmp_path / "file").write_text("in the way")
    remarks = Remarks()
    made = cache_arrays(tmp_path / "file", IDENTITY, lambda directory: {"numbers": np.arange(3)}, remarks)
    assert made["numbers"].tolist() == [0, 1, 2]
    assert len(remarks.lines) == 1
    assert "so it is not cached" in remarks.lines[0]
    assert os.listdir(tmp_path) == ["file"]
