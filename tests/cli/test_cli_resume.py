"""Trainings that are killed, interrupted or run out of disk, and go on as if nothing had happened."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from commands import QUICK, SMALL, Cli, documents, file_contents, run_process, write_jsonl
from safetensors import safe_open

Start = Callable[..., "subprocess.Popen[bytes]"]

# Two trees, each of 5 x 15 batches with a checkpoint after every one. All that a checkpoint holds
# matters: gradients are clipped at each step, and the model is the average of the weights after 45, 60 and 75.
LONG = [
    *SMALL, "--batch-size", "4", "--epochs", "5", "--n-trees", "2", "--group-size", "4", "--averaging-start", "0.5",
    "--validation-fraction", "0", "--checkpoint-seconds", "0", "--random-state", "5", "--adaptive-clip", "0.8",
    "--learning-rate", "0.01", "--quiet",
]  # fmt: skip
PARTS = ["tree 0", "tree 1"]


def uninterrupted(cli: Cli, train: Path, out: Path, settings: list[str]) -> dict[str, bytes]:
    """Give the tensors of a training that nobody disturbs."""
    assert cli("fit", train, "--out", out, *settings).code == 0
    tensors = file_contents(out, "*.safetensors")
    assert len(tensors) == 6  # label counts, features, two trees, two networks
    shutil.rmtree(out)
    return tensors


def wait_for_batch(process: subprocess.Popen[bytes], out: Path, part: str, n_batches: int) -> None:
    """Wait until a checkpoint of the part has seen so many batches, or the part is finished."""
    directory = out.with_name(out.name + ".training")
    deadline = time.monotonic() + 100
    while not (directory / f"{part}.safetensors").exists():
        assert process.poll() is None, process.communicate()[1].decode()
        assert time.monotonic() < deadline
        time.sleep(0.002)
        with suppress(FileNotFoundError), safe_open(directory / f"{part}.unfinished.safetensors", "numpy") as state:
            if state.get_tensor("numbers")[0] >= n_batches:
                return


def test_killed_again_and_again(cli: Cli, start: Start, train_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    command = ["fit", train_file, "--out", out, *LONG]
    expected = uninterrupted(cli, train_file, out, LONG)
    moments = random.Random(0)
    # In the first epoch of a tree, and after weights have been averaged twice.
    for part, first, last in ((PARTS[0], 1, 14), (PARTS[0], 61, 70), (PARTS[1], 1, 14), (PARTS[1], 61, 70)):
        process = start(*command, *(["--resume"] if (tmp_path / "m.training").exists() else []))
        wait_for_batch(process, out, part, moments.randint(first, last))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert not out.exists()
    assert cli(*command, "--resume").code == 0
    assert file_contents(out, "*.safetensors") == expected
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_interrupted_by_the_user(cli: Cli, start: Start, train_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    settings = [*LONG, "--validation-fraction", "0.1"]  # so the best weights so far are part of a checkpoint
    command = ["fit", train_file, "--out", out, *settings]
    expected = uninterrupted(cli, train_file, out, settings)
    process = start(*command)
    wait_for_batch(process, out, PARTS[1], 57)
    process.send_signal(signal.SIGINT)
    message = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    assert message.startswith("haxmlnet: stopped")
    assert message.endswith(f"continue with: haxmlnet {' '.join(str(word) for word in command)} --resume\n")
    assert message.count("\n") == 1
    assert (tmp_path / "m.training" / f"{PARTS[1]}.unfinished.safetensors").is_file()
    assert not out.exists()

    left = file_contents(tmp_path / "m.training")
    cli(*command).assert_refused("m.training", "unfinished training", "--resume")
    cli(*command, "--resume", "--epochs", "6").assert_refused("epochs 5", "6")
    cli(*command, "--resume", "--random-state", "6").assert_refused("random_state 5", "6")
    cli(*command, "--resume", "--mlp-sizes", "9").assert_refused("mlp_sizes [8]", "[9]")
    other = write_jsonl(tmp_path / "other.jsonl", documents(61))
    cli("fit", other, *command[2:], "--resume").assert_refused("other", "data")
    relabelled = [*documents(59), {**documents()[59], "labels": ["topic 00"]}]
    cli("fit", write_jsonl(other, relabelled), *command[2:], "--resume").assert_refused("other", "data")
    cli(*command, "--resume", "--validation", other).assert_refused("other", "data")
    assert file_contents(tmp_path / "m.training") == left

    assert cli(*command, "--resume").code == 0
    assert file_contents(out, "*.safetensors") == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "other.jsonl"]


def test_resume_without_anything_to_resume_starts_anew(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    assert cli("fit", train_file, "--out", tmp_path / "m", *QUICK, "--resume").code == 0
    assert (tmp_path / "m" / "model.json").is_file()


def test_damaged_checkpoint(cli: Cli, train_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["fit", train_file, "--out", tmp_path / "m", *QUICK]

    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("haxmlnet.models.haxmlnet.HAXMLNet.save", interrupt)
        outcome = cli(*command)
    assert outcome.code == 130
    assert "--resume" in outcome.err
    part = tmp_path / "m.training" / f"{PARTS[0]}.safetensors"
    part.write_bytes(part.read_bytes()[:1000])
    cli(*command, "--resume").assert_refused(part.name)
    (tmp_path / "m.training" / "training.json").write_text("{}")
    cli(*command, "--resume").assert_refused("m.training", "Delete it")


LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"


def test_full_disk_while_writing_a_checkpoint(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    command = ["fit", train_file, "--out", out, *QUICK]
    assert cli(*command).code == 0
    before = file_contents(out)
    # 50 words of 64 numbers take 12,800 bytes.
    outcome = run_process(*command, "--word-size", "64", setup=LIMIT.format(size=8_000))
    outcome.assert_refused("m.training", "checkpoint cannot be written", "too large")
    assert file_contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_full_disk_while_saving_the_model(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "m"
    # So many words that tokenizer.json is larger than any checkpoint.
    wordy = [{**d, "text": " ".join(f"word{i}x{j}" for j in range(100))} for i, d in enumerate(documents())]
    train = write_jsonl(tmp_path / "train.jsonl", wordy)
    command = ["fit", train, "--out", out, *QUICK, "--word-size", "2", "--min-document-frequency", "1"]
    assert cli(*command).code == 0
    before = file_contents(out)
    largest = max(file.stat().st_size for file in out.glob("*.safetensors"))
    limit = (largest + len(before["tokenizer.json"])) // 2
    assert largest + 1_000 < limit
    outcome = run_process(*command, "--random-state", "1", setup=LIMIT.format(size=limit))
    outcome.assert_refused(str(out), "cannot be written", "too large")
    assert file_contents(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "m.training", "train.jsonl"]
    assert cli(*command, "--random-state", "1", "--resume").code == 0
    after = file_contents(out)
    assert after.keys() == before.keys()
    assert after["tree_0.attention.safetensors"] != before["tree_0.attention.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "train.jsonl"]
