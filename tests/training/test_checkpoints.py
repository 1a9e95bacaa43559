from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from haxmlnet.errors import HaxmlnetError, ModelError
from haxmlnet.training.checkpoints import Checkpoints, training_identity

SETTINGS = {"epochs": 3, "mlp_sizes": (8, 4), "device": "cpu", "n_jobs": 1}
DIGEST = "of the training documents"
VALIDATION = (np.array([0, 1, 2]), np.array([1, 0]))
IDENTITY = training_identity(SETTINGS, DIGEST, VALIDATION)
STATE = {"weights": np.arange(3.0), "score": np.array(0.5)}


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    """The directory of a training that has a state."""
    path = tmp_path / "checkpoints"
    Checkpoints.start(path, IDENTITY, 0, resume=False).save_state("tree 0 level 0", STATE)
    return path


def error_of(path: Path, identity: dict[str, str], resume: bool = True) -> str:
    with pytest.raises(HaxmlnetError) as error:
        Checkpoints.start(path, identity, 0, resume)
    assert "\n" not in str(error.value)
    return str(error.value)


def assert_state(arrays: dict[str, np.ndarray] | None) -> None:
    assert arrays is not None
    assert set(arrays) == set(STATE)
    for name, value in STATE.items():
        assert arrays[name].shape == value.shape
        np.testing.assert_array_equal(arrays[name], value)


def test_a_state_comes_back(unfinished):
    checkpoints = Checkpoints.start(unfinished, IDENTITY, 0, resume=True)
    assert_state(checkpoints.state("tree 0 level 0"))
    assert checkpoints.state("tree 0 level 1") is None
    assert checkpoints.finished("tree 0 level 0") is None


def test_a_new_state_takes_the_place_of_the_old(unfinished):
    checkpoints = Checkpoints.start(unfinished, IDENTITY, 0, resume=True)
    checkpoints.save_state("tree 0 level 0", {"weights": np.ones(2)})
    assert list(checkpoints.state("tree 0 level 0")["weights"]) == [1, 1]


def test_a_finished_part_has_no_state_any_more(unfinished):
    checkpoints = Checkpoints.start(unfinished, IDENTITY, 0, resume=True)
    checkpoints.finish("tree 0 level 0", STATE)
    again = Checkpoints.start(unfinished, IDENTITY, 0, resume=True)
    assert_state(again.finished("tree 0 level 0"))
    assert again.state("tree 0 level 0") is None
    assert float(again.finished("tree 0 level 0")["score"]) == 0.5


def test_states_are_due_after_some_seconds(tmp_path, monkeypatch):
    now = [time.monotonic()]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    checkpoints = Checkpoints.start(tmp_path, IDENTITY, 60, resume=False)
    assert not checkpoints.due()
    now[0] += 61
    assert checkpoints.due()
    checkpoints.save_state("part", STATE)
    assert not checkpoints.due()


def test_an_unfinished_training_is_not_resumed_unasked(unfinished):
    message = error_of(unfinished, IDENTITY, resume=False)
    assert message.startswith(f"{unfinished}: holds an unfinished training. Go on with --resume")
    assert Checkpoints.start(unfinished, IDENTITY, 0, resume=True).state("tree 0 level 0") is not None


@pytest.mark.parametrize("resume", [False, True])
def test_without_a_state_training_starts_anew(tmp_path, resume):
    Checkpoints.start(tmp_path / "new", {**IDENTITY, "data": "other"}, 0, resume)
    checkpoints = Checkpoints.start(tmp_path / "new", IDENTITY, 0, resume)
    assert checkpoints.state("part") is None
    # The identity on disk is that of the latest start, not of the one that did nothing.
    checkpoints.save_state("part", STATE)
    assert_state(Checkpoints.start(tmp_path / "new", IDENTITY, 0, resume=True).state("part"))


@pytest.mark.parametrize(
    ("digest", "validation"),
    [
        ("of other documents", VALIDATION),
        (DIGEST, (np.array([0, 1, 2]), np.array([0, 1]))),
        (DIGEST, (np.array([0, 1]), np.array([2, 1, 0]))),
        (DIGEST, (np.array([0, 1, 2], np.int32), np.array([1, 0], np.int32))),
        (DIGEST, ()),
    ],
    ids=["documents", "validation", "boundary", "type", "none"],
)
def test_other_data_is_refused(unfinished, digest, validation):
    message = error_of(unfinished, training_identity(SETTINGS, digest, validation))
    assert message.startswith(f"{unfinished}: was made from other training data.")


def test_other_settings_are_refused_by_name(unfinished):
    other = training_identity({**SETTINGS, "mlp_sizes": (8,)}, DIGEST, VALIDATION)
    assert error_of(unfinished, other).startswith(f"{unfinished}: was made with mlp_sizes [8, 4], now it is [8].")


def test_settings_that_do_not_change_the_model_may_differ(unfinished):
    other = training_identity({**SETTINGS, "n_jobs": 2, "device": "auto", "checkpoint_seconds": 5}, DIGEST, VALIDATION)
    assert_state(Checkpoints.start(unfinished, other, 0, resume=True).state("tree 0 level 0"))


@pytest.mark.parametrize("content", [None, "", "{}", "[]", "null", json.dumps({"settings": "x", "data": ""})], ids=str)
def test_a_damaged_identity_is_one_line(unfinished, content):
    (unfinished / "training.json").unlink()
    if content is not None:
        (unfinished / "training.json").write_text(content)
    assert error_of(unfinished, IDENTITY).startswith(f"{unfinished}: holds no training that could be resumed.")


def test_a_directory_of_other_files_is_refused_as_it_is(unfinished):
    (unfinished / "training.json").unlink()
    with pytest.raises(ModelError, match="holds files that are no checkpoints"):
        Checkpoints.start(unfinished, IDENTITY, 0, resume=False)
    assert (unfinished / "tree 0 level 0.unfinished.safetensors").exists()


def test_leftovers_of_a_killed_write_are_ignored_and_cleared(unfinished):
    leftover = unfinished / "tree 0 level 0.unfinished.safetensors.tmp"
    leftover.write_bytes(b"half")
    (unfinished / "training.json.tmp").write_text("{")
    assert_state(Checkpoints.start(unfinished, IDENTITY, 0, resume=True).state("tree 0 level 0"))
    assert sorted(os.listdir(unfinished)) == ["training.json", "tree 0 level 0.unfinished.safetensors"]


def test_a_process_killed_at_its_first_write_leaves_nothing_to_resume(tmp_path):
    (tmp_path / "training.json.tmp").write_text("{")
    (tmp_path / "part.unfinished.safetensors.tmp").write_bytes(b"half")
    assert Checkpoints.start(tmp_path, IDENTITY, 0, resume=False).state("part") is None


def test_a_failed_write_leaves_the_state_before(unfinished, monkeypatch):
    checkpoints = Checkpoints.start(unfinished, IDENTITY, 0, resume=True)

    def full(file: Path, arrays: object) -> None:
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("haxmlnet.training.checkpoints.write_arrays", full)
    with pytest.raises(ModelError) as error:
        checkpoints.save_state("tree 0 level 0", {"weights": np.ones(2)})
    assert str(error.value) == (
        f"{unfinished}: the checkpoint cannot be written (No space left on device). "
        "Make room, then go on with --resume."
    )
    assert_state(checkpoints.state("tree 0 level 0"))


def test_a_damaged_state_is_named(unfinished):
    file = unfinished / "tree 0 level 0.unfinished.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    checkpoints = Checkpoints.start(unfinished, IDENTITY, 0, resume=True)
    with pytest.raises(ModelError, match=r"level 0\.unfinished\.safetensors: not a readable safetensors file"):
        checkpoints.state("tree 0 level 0")


def test_a_file_in_the_place_of_the_directory_is_one_line(tmp_path):
    (tmp_path / "file").write_text("text")
    assert error_of(tmp_path / "file", IDENTITY).startswith(f"{tmp_path / 'file'}: cannot be written (")


def test_remove_deletes_the_directory(unfinished):
    checkpoints = Checkpoints.start(unfinished, IDENTITY, 0, resume=True)
    checkpoints.finish("tree 0 level 0", STATE)
    checkpoints.save_state("tree 0 level 1", STATE)
    checkpoints.remove()
    assert not unfinished.exists()
    checkpoints.remove()


def test_files_of_others_are_never_deleted(tmp_path):
    # Somebody gives their home as the directory of the checkpoints.
    for name in ("thesis.tex", "notes.tmp"):
        (tmp_path / name).write_text("precious")
    checkpoints = Checkpoints.start(tmp_path, IDENTITY, 0, resume=False)
    checkpoints.save_state("part", STATE)
    checkpoints.remove()
    assert sorted(os.listdir(tmp_path)) == ["notes.tmp", "thesis.tex"]


def test_other_word_vectors_under_the_same_name_are_noticed(tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a 1 2\n")
    before = training_identity(SETTINGS, DIGEST, VALIDATION, str(vectors))
    assert training_identity(SETTINGS, DIGEST, VALIDATION, str(vectors)) == before
    vectors.write_text("a 1 3\n")
    assert training_identity(SETTINGS, DIGEST, VALIDATION, str(vectors)) != before


def test_kept_weights_stay_as_long_as_a_state_may_need_them(tmp_path):
    checkpoints = Checkpoints.start(tmp_path, IDENTITY, 0, resume=False)
    numbers = {step: {"a": np.arange(step), "b": np.full((2, 2), step)} for step in (3, 6)}
    checkpoints.keep_weights("part", 3, numbers[3])
    checkpoints.keep_weights("other", 3, numbers[3])
    checkpoints.save_state("part", {}, 3)
    checkpoints.keep_weights("part", 6, numbers[6])  # a crash here goes on from the state, which needs those of 3
    assert {name: array.tolist() for name, array in checkpoints.weights("part", 3)} == {
        name: array.tolist() for name, array in numbers[3].items()
    }
    checkpoints.save_state("part", {}, 6)
    with pytest.raises(ModelError):
        next(checkpoints.weights("part", 3))
    checkpoints.finish("part", {})
    assert sorted(file.name for file in tmp_path.glob("*.safetensors")) == [
        "other.best.3.safetensors", "part.safetensors",
    ]  # fmt: skip
