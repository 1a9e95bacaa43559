from __future__ import annotations

import errno
import json
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
    FORMAT_VERSION,
    HEADER,
    OLDEST_READ,
    check_replaceable,
    new_directory,
    read_arrays,
    unescaped,
    write_arrays,
    write_header,
    write_lines,
    write_text,
)

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def write_model(path: Path, mark: str = "first") -> None:
    with new_directory(path) as directory:
        write_lines(directory / "labels.txt", ["a", "b"])
        write_arrays(directory / "weights.safetensors", {"weights": WEIGHTS})
        write_header(directory, {"method": "Test", "mark": mark, "settings": {"sizes": (1, 2), "rate": 0.1}})


def mark_of(path: Path) -> str:
    return str(SavedModel(path).fetch().header["mark"])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    write_model(path)
    return path


def error_of(path: Path) -> str:
    with pytest.raises(ModelError) as error:
        SavedModel(path).fetch()
    assert "\n" not in str(error.value)
    return str(error.value)


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


def test_a_model_comes_back_as_it_was_written(model):
    saved = SavedModel(model).fetch()
    header = saved.header
    assert header["method"] == "Test"
    assert header["settings"] == {"sizes": [1, 2], "rate": 0.1}
    assert set(header["files"]) == {"labels.txt", "weights.safetensors"}
    assert saved.lines("labels.txt") == ["a", "b"]
    np.testing.assert_array_equal(saved.arrays("weights.safetensors")["weights"], WEIGHTS)


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
        assert unescaped(file.read_bytes().decode()) == lines
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


@pytest.mark.parametrize(
    "kind",
    ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"],
)
def test_a_saved_model_gives_arrays_of_every_type_where_processors_read_them_fastest(tmp_path, kind):
    arrays = {"a": np.arange(6).astype(kind).reshape(2, 3), "b": np.array(1).astype(kind), "c": np.zeros((0, 2), kind)}
    with new_directory(tmp_path / "model") as directory:
        write_arrays(directory / "a.safetensors", arrays)
        write_header(directory, {})
    read = SavedModel(tmp_path / "model").fetch().arrays("a.safetensors")
    for name, array in arrays.items():
        assert (read[name].shape, read[name].dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(read[name], array)
    assert min(array.ctypes.data % 64 for array in read.values()) == 0
    assert all(array.flags.aligned and array.flags.writeable for array in read.values())


def test_a_saved_model_gives_what_it_checked_even_if_the_files_change_later(model):
    saved = SavedModel(model).fetch()
    for file in model.iterdir():
        file.write_bytes(b"")
    assert saved.lines("labels.txt") == ["a", "b"]
    np.testing.assert_array_equal(saved.arrays("weights.safetensors")["weights"], WEIGHTS)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"abc", b"\xff" * 8, (2).to_bytes(8, "little") + b"[]", (1).to_bytes(8, "little") + b"{",
        *((len(entry)).to_bytes(8, "little") + entry for entry in (
            b'{"a": 3}', b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
            b'{"a": {"dtype": "F99", "shape": [0], "data_offsets": [0, 0]}}',
            b'{"a": {"dtype": "F32", "shape": "x", "data_offsets": [0, 0]}}',
            b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": 3}}',
        )),
    ],
)  # fmt: skip
def test_a_file_with_the_right_checksum_that_holds_no_arrays_is_named(tmp_path, content):
    with new_directory(tmp_path / "model") as directory:
        (directory / "a.safetensors").write_bytes(content)
        write_header(directory, {})
    saved = SavedModel(tmp_path / "model").fetch()
    with pytest.raises(ModelError, match=r"a\.safetensors: not a readable safetensors file \(.*\)\.$"):
        saved.arrays("a.safetensors")


def test_a_file_that_the_header_does_not_list_is_missing(model):
    (model / "more.txt").write_text("x\n")
    saved = SavedModel(model).fetch()
    assert "more.txt" not in saved
    with pytest.raises(ModelError, match=r"more\.txt: is missing from the model\.$"):
        saved.lines("more.txt")


def test_a_truncated_array_file_is_named(tmp_path):
    file = tmp_path / "a.safetensors"
    write_arrays(file, {"a": WEIGHTS})
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ModelError, match=r"a\.safetensors: not a readable safetensors file \(.*\)\.$"):
        read_arrays(file)


def test_an_altered_header_is_found(model):
    text = (model / HEADER).read_text()
    (model / HEADER).write_text(text.replace('"rate": 0.1', '"rate": 0.2'))
    assert error_of(model) == f"{model / HEADER}: was altered after it was written (checksum differs)."


def test_a_truncated_header_is_found(model):
    (model / HEADER).write_text((model / HEADER).read_text()[:-5])
    assert error_of(model).startswith(f"{model / HEADER}: damaged, it is not JSON")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[" * 100_000], ids=["empty", "binary", "deep"])
def test_a_header_that_is_not_json_is_found(model, content):
    (model / HEADER).write_bytes(content)
    assert error_of(model).startswith(f"{model / HEADER}: damaged, it is not JSON")


@pytest.mark.parametrize("foreign", ["{}", "[]", "3", '{"format": "other"}', '{"format": ["haxmlnet model"]}'])
def test_foreign_json_is_found(model, foreign):
    (model / HEADER).write_text(foreign)
    assert error_of(model) == f"{model / HEADER}: not written by haxmlnet."


def test_a_newer_format_asks_for_an_upgrade(model):
    header = json.loads((model / HEADER).read_text())
    (model / HEADER).write_text(json.dumps({**header, "format_version": FORMAT_VERSION + 1}))
    message = error_of(model)
    assert message.startswith(f"{model / HEADER}: has format version {FORMAT_VERSION + 1}")
    assert "Upgrade" in message


@pytest.mark.parametrize("version", [OLDEST_READ - 1, None, "3", 2.5])
def test_a_format_that_is_no_longer_read_asks_for_another_training(model, version):
    header = json.loads((model / HEADER).read_text())
    (model / HEADER).write_text(json.dumps({**header, "format_version": version}))
    message = error_of(model)
    assert message.startswith(f"{model / HEADER}: has format version {version}, this library reads {OLDEST_READ} to ")
    assert "Train the model anew" in message


def test_a_truncated_file_is_found(model):
    file = model / "weights.safetensors"
    size = file.stat().st_size
    os.truncate(file, size - 1)
    assert error_of(model) == f"{file}: damaged, expected {size} bytes, got {size - 1}."


@pytest.mark.parametrize("name", ["labels.txt", "weights.safetensors"])
def test_a_flipped_bit_is_found(model, name):
    content = bytearray((model / name).read_bytes())
    content[-1] ^= 1
    (model / name).write_bytes(content)
    assert error_of(model) == f"{model / name}: damaged or altered (checksum differs)."


def test_a_missing_file_is_found(model):
    (model / "labels.txt").unlink()
    assert error_of(model) == f"{model / 'labels.txt'}: is missing from the model."


def test_a_missing_header_is_found(model):
    (model / HEADER).unlink()
    assert error_of(model) == f"{model}: not a model directory, there is no {HEADER} in it."


def test_what_is_no_directory_is_no_model(tmp_path, model):
    assert error_of(tmp_path / "nothing").startswith(f"{tmp_path / 'nothing'}: no such model directory.")
    assert error_of(model / "labels.txt").startswith(f"{model / 'labels.txt'}: no such model directory.")


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
