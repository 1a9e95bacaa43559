from __future__ import annotations

import json
import os
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from haxmlnet.data.arrays import (
    DESCRIPTION,
    GrowingArray,
    csr_view,
    map_array,
    map_bytes,
    open_or_fill,
    read_seal,
    release_pages,
    seal,
    write_array,
)
from haxmlnet.errors import DataError


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(-5, 5), max_size=40), max_size=6), st.sampled_from([np.int32, np.int64, np.float32])
)
def test_blocks_come_back_as_one_array(tmp_path_factory, blocks, dtype):
    for file in (None, tmp_path_factory.mktemp("arrays") / "array.npy"):
        growing = GrowingArray(dtype, file)
        for block in blocks:
            growing.append(np.array(block, dtype))
        array = growing.close()
        assert array.dtype == dtype
        assert array.tolist() == [number for block in blocks for number in block]
        assert growing.size == len(array)
        if file is not None:
            np.testing.assert_array_equal(np.load(file, allow_pickle=False), array)


def test_writing_to_a_mapped_array_leaves_its_file_alone(tmp_path):
    array = write_array(tmp_path, "numbers", np.arange(5))
    array[:] = 7
    assert map_array(tmp_path / "numbers.npy").tolist() == [0, 1, 2, 3, 4]


def test_a_cut_array_is_refused(tmp_path):
    write_array(tmp_path, "numbers", np.arange(500))
    os.truncate(tmp_path / "numbers.npy", 900)
    with pytest.raises(DataError, match=r"numbers\.npy: damaged, it cannot be mapped into memory"):
        map_array(tmp_path / "numbers.npy")


def test_an_array_of_python_objects_is_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be mapped"):
        map_array(tmp_path / "objects.npy")


def test_an_empty_file_of_text_is_mapped(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"")
    assert len(map_bytes(tmp_path / "words.txt")) == 0


def test_a_sparse_matrix_shares_its_arrays():
    values, columns = np.ones(3, np.float32), np.array([0, 2, 1], np.int32)
    matrix = csr_view(values, columns, np.array([0, 2, 3], np.int64), 4)
    assert matrix.toarray().tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]]
    assert np.shares_memory(matrix.indices, columns)
    assert np.shares_memory(matrix.data, values)


def fill(directory: Path) -> None:
    write_array(directory, "numbers", np.arange(10))
    seal(directory, {"fact": "ü"})


def open_directory(directory: Path) -> list[int]:
    assert read_seal(directory)["fact"] == "ü"
    return list(map_array(directory / "numbers.npy").tolist())


def never(directory: Path) -> None:
    raise AssertionError("made again")


def test_a_directory_is_open_or_fill(tmp_path):
    assert open_or_fill(tmp_path / "a" / "x", open_directory, fill) == list(range(10))
    assert open_or_fill(tmp_path / "a" / "x", open_directory, never) == list(range(10))
    assert os.listdir(tmp_path / "a") == ["x"]


def test_a_failure_leaves_nothing(tmp_path):
    def fail(directory: Path) -> None:
        fill(directory)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_or_fill(tmp_path / "x", open_directory, fail)
    assert os.listdir(tmp_path) == []


def cut(directory: Path) -> None:
    os.truncate(directory / "numbers.npy", 150)


def lose(directory: Path) -> None:
    (directory / "numbers.npy").unlink()


def lose_description(directory: Path) -> None:
    (directory / DESCRIPTION).unlink()


def empty_description(directory: Path) -> None:
    (directory / DESCRIPTION).write_text("")


def foreign_description(directory: Path) -> None:
    (directory / DESCRIPTION).write_text('["something else"]')


def other_version(directory: Path) -> None:
    content = json.loads((directory / DESCRIPTION).read_text("utf-8"))
    (directory / DESCRIPTION).write_text(json.dumps({**content, "format_version": 99}))


@pytest.mark.parametrize("harm", [cut, lose, lose_description, empty_description, foreign_description, other_version])
def test_a_damaged_directory_is_made_anew_with_one_remark(tmp_path, harm):
    open_or_fill(tmp_path / "x", open_directory, fill)
    harm(tmp_path / "x")
    remarks: list[str] = []
    assert open_or_fill(tmp_path / "x", open_directory, fill, remarks.append) == list(range(10))
    assert len(remarks) == 1
    assert remarks[0].startswith(str(tmp_path / "x"))
    assert remarks[0].endswith("It is made anew.")
    assert os.listdir(tmp_path) == ["x"]


def test_of_two_processes_the_quicker_one_wins(tmp_path):
    def slow(directory: Path) -> None:
        fill(directory)
        open_or_fill(tmp_path / "x", open_directory, fill)  # the other one, in the meantime
        (tmp_path / "x" / "mark").touch()

    assert open_or_fill(tmp_path / "x", open_directory, slow) == list(range(10))
    assert (tmp_path / "x" / "mark").exists()
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux' account of mapped files")
def test_released_pages_leave_memory_and_come_back(tmp_path):
    def resident() -> int:
        found, total = False, 0
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if "-" in line.split(" ")[0]:
                found = line.endswith("numbers.npy")
            elif found and line.startswith("Rss:"):
                total += int(line.split()[1])
        return total

    expected = np.arange(1_000_000, dtype=np.int64)
    np.save(tmp_path / "numbers.npy", expected)
    array = map_array(tmp_path / "numbers.npy")
    assert array.sum() == expected.sum()
    assert resident() > 7_000
    release_pages(array[5:], np.zeros(3))
    assert resident() < 100
    np.testing.assert_array_equal(array, expected)
