from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

from haxmlnet import store
from haxmlnet.errors import ModelError
from haxmlnet.saved import SavedModel
from haxmlnet.store import (
    check_replaceable,
    new_directory,
    read_arrays,
    unescape_lines,
    write_arrays,
    write_lines,
    write_text,
)
from small_model import WEIGHTS, write_model


def mark_of(path: Path) -> str:
    return str(SavedModel(path).fetch().header["mark"])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def test_what_a_killed_process_left_is_removed_after_a_day_and_nothing_else(tmp_path):
    names = [
        ".model.abcdefgh.new",
        ".model.new.new",
        ".other.abcdefgh.new",
        "model.abcdefgh.new",
        ".model.12345678.new",
    ]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").write_text("x")
        for path in (tmp_path / name / "weights", tmp_path / name):
            os.utime(path, (0, 0))
    (tmp_path / names[-1] / "more").write_text("just written")
    write_model(tmp_path / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["model", *names[1:]])


def test_others_may_read_the_directory(model):
    assert model.stat().st_mode & 0o777 == 0o755


def test_parents_are_made(tmp_path):
    write_model(tmp_path / "a" / "b" / "model")
    assert mark_of(tmp_path / "a" / "b" / "model") == "first"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text()))
@example(
    ["\\n", "\n", "\r\n", "\\", "\\\\n", "\n\\", "\\\n", "\\r\\", "", " ", "\t", "\u2028", "\x85", "\x0b\x0c\x1c", "\0"]
)
def test_lines_of_any_characters_come_back(lines):
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "labels.txt"
        write_lines(file, lines)
        assert unescape_lines(file.read_bytes().decode()) == lines
        assert file.read_bytes().count(b"\n") == len(lines)


@pytest.mark.parametrize(
    "array",
    [np.array(1.5), np.zeros((0, 3), np.int32), WEIGHTS.T, WEIGHTS[:, ::2], np.array([True, False]), np.arange(3)],
    ids=["scalar", "empty", "transposed", "strided", "bool", "int64"],
)
def test_arrays_keep_shape_type_and_values(tmp_path, array):
    write_arrays(tmp_path / "a.safetensors", {"a": array})
    read = read_arrays(tmp_path / "a.safetensors")["a"]
    assert (read.shape, read.dtype) == (array.shape, array.dtype)
    np.testing.assert_array_equal(read, array)


def test_a_truncated_array_file_is_named(tmp_path):
    file = tmp_path / "a.safetensors"
    write_arrays(file, {"a": WEIGHTS})
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"a\.safetensors: not a readable safetensors file \(.*\)\.$"):
        read_arrays(file)


def test_a_model_is_replaced(tmp_path, model):
    write_model(model, "second")
    assert mark_of(model) == "second"
    assert os.listdir(tmp_path) == ["model"]


def test_an_empty_directory_is_filled(tmp_path):
    (tmp_path / "model").mkdir()
    write_model(tmp_path / "model")
    assert mark_of(tmp_path / "model") == "first"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_in_the_middle_leaves_the_old_model(tmp_path, model, error):
    def write_half() -> None:
        with new_directory(model) as directory:
            write_text(directory / "labels.txt", "half")
            raise error

    with pytest.raises(error):
        write_half()
    assert mark_of(model) == "first"
    assert os.listdir(tmp_path) == ["model"]


def test_a_disk_error_in_the_middle_is_one_line(tmp_path, model):
    with pytest.raises(ModelError) as error, new_directory(model):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(error.value) == f"{model}: cannot be written (No space left on device); nothing was changed."
    assert mark_of(model) == "first"
    assert os.listdir(tmp_path) == ["model"]


FULL_DISK = """
import resource, sys
import numpy as np
from haxmlnet.errors import ModelError
from haxmlnet.store import new_directory, write_arrays, write_lines, write_header
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with new_directory(sys.argv[1]) as directory:
        write = {"arrays": lambda: write_arrays(directory / "weights.safetensors", {"w": np.ones(10**6)}),
                 "lines": lambda: write_lines(directory / "labels.txt", ["x" * 1000] * 1000)}
        write[sys.argv[2]]()
        write_header(directory, {"mark": "second"})
except ModelError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no resource limits")
@pytest.mark.parametrize("what", ["arrays", "lines"])
def test_a_full_disk_leaves_the_old_model(tmp_path, model, what):
    # A file larger than its limit fails in the middle of a write, as on a disk without room.
    environment = {**os.environ, "PYTHONPATH": str(Path(store.__file__).parents[1])}
    command = [sys.executable, "-c", FULL_DISK, str(model), what]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith(f"{model}: cannot be written (")
    assert mark_of(model) == "first"
    assert os.listdir(tmp_path) == ["model"]


def test_other_directories_and_files_are_not_overwritten(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_text("cat")
    (tmp_path / "notes").write_text("note")
    for name in ("photos", "notes"):
        expected = f"^{tmp_path / name}: exists and is not a haxmlnet model, so it is not overwritten"
        with pytest.raises(ModelError, match=expected):
            write_model(tmp_path / name)
        with pytest.raises(ModelError, match=expected):
            check_replaceable(tmp_path / name)
    assert (tmp_path / "photos" / "cat.png").read_text() == "cat"
    assert sorted(os.listdir(tmp_path)) == ["notes", "photos"]


@pytest.mark.parametrize("name", ["notes/model", "m" * 300], ids=["below a file", "too long"])
def test_an_impossible_place_is_one_line(tmp_path, name):
    (tmp_path / "notes").write_text("note")
    with pytest.raises(ModelError, match=r"(model|m{300}): cannot be written \([^\n]+\)\.$"):
        write_model(tmp_path / name)


def renames_until(monkeypatch: pytest.MonkeyPatch, n: int, error: type[BaseException]) -> None:
    """Let n renames pass and the next one fail."""
    rename = Path.rename
    passed: list[Path] = []

    def limited(self: Path, target: Path) -> Path:
        passed.append(self)
        if len(passed) == n + 1:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", limited)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("n", [0, 1])
def test_a_failed_rename_leaves_the_old_model(tmp_path, model, monkeypatch, n):
    renames_until(monkeypatch, n, PermissionError)
    with pytest.raises(ModelError, match="cannot be written"):
        write_model(model, "second")
    assert mark_of(model) == "first"
    assert os.listdir(tmp_path) == ["model"]


@pytest.fixture
def half_replaced(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose replacement was killed when the old one was moved away and the new one not yet in place."""
    with monkeypatch.context() as patch:
        renames_until(patch, 1, Killed)
        with pytest.raises(Killed):
            write_model(model, "second")
    assert not model.exists()
    return model


def test_a_half_replaced_model_is_read(tmp_path, half_replaced):
    assert mark_of(half_replaced) == "first"
    assert os.listdir(tmp_path) == ["model"]


def test_a_half_replaced_model_is_replaced(tmp_path, half_replaced):
    write_model(half_replaced, "third")
    assert mark_of(half_replaced) == "third"
    assert os.listdir(tmp_path) == ["model"]


def test_a_half_replaced_model_survives_a_failing_write(half_replaced):
    with pytest.raises(RuntimeError), new_directory(half_replaced):
        raise RuntimeError
    assert mark_of(half_replaced) == "first"


def test_a_leftover_old_model_does_not_come_back(tmp_path, model):
    # Killed after both renames: the old model waits to be deleted.
    write_model(tmp_path / ".model.old", "older")
    assert mark_of(model) == "first"
    write_model(model, "second")
    assert mark_of(model) == "second"
    assert os.listdir(tmp_path) == ["model"]


def test_replace_directory_puts_the_new_one_in_place(tmp_path):
    for name in ("new", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
    store._replace_directory(tmp_path / "new", tmp_path / "target")
    assert os.listdir(tmp_path) == ["target"]
    assert os.listdir(tmp_path / "target") == ["new.txt"]
