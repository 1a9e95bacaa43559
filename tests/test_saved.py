"""What `SavedModel` reads, and what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from haxmlnet.errors import ModelError
from haxmlnet.saved import SavedModel
from haxmlnet.store import FORMAT_VERSION, HEADER, new_directory, write_arrays, write_header
from small_model import WEIGHTS, write_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


def error_of(path: Path) -> str:
    with pytest.raises(ModelError) as error:
        SavedModel(path).fetch()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_model_comes_back_as_it_was_written(model):
    saved = SavedModel(model).fetch()
    header = saved.header
    assert header["method"] == "Test"
    assert header["settings"] == {"sizes": [1, 2], "rate": 0.1}
    assert set(header["files"]) == {"labels.txt", "weights.safetensors"}
    assert saved.lines("labels.txt") == ["a", "b"]
    np.testing.assert_array_equal(saved.arrays("weights.safetensors")["weights"], WEIGHTS)


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


@pytest.mark.parametrize("version", [FORMAT_VERSION - 1, 1, None, str(FORMAT_VERSION), float(FORMAT_VERSION), True])
def test_a_format_that_is_no_longer_read_asks_for_another_training(model, version):
    header = json.loads((model / HEADER).read_text())
    (model / HEADER).write_text(json.dumps({**header, "format_version": version}))
    message = error_of(model)
    assert message == (
        f"{model / HEADER}: has format version {version}, this version reads {FORMAT_VERSION}. "
        "Train it again with this version, or predict with the version that wrote it."
    )


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
