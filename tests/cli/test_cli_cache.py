"""`haxmlnet fit` and the cache: the second training reads nothing again, and nobody is harmed by a bad cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import QUICK, SMALL, Cli, documents, file_contents, run_process, write_jsonl

from haxmlnet import Corpus, HAXMLNet

LOUD = [*SMALL, "--epochs", "1"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for one test."""
    monkeypatch.setenv("HAXMLNET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def never(*arguments: Any, **options: Any) -> None:
    raise AssertionError("the texts were read again")


def test_the_second_training_reads_and_counts_nothing(
    cli: Cli, train_file: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validation = write_jsonl(tmp_path / "validation.jsonl", documents(7))
    command = ["fit", train_file, *LOUD, "--validation", validation]
    first = cli(*command, "--out", tmp_path / "first")
    assert (first.code, "prepared before" in first.err) == (0, False)
    kept = sorted(path.name.split("-")[0] for entry in cache.iterdir() for path in entry.iterdir() if path.is_dir())
    assert kept == ["label_features", "tfidf", "word_vectors"]
    for name in ("corpus_vectors", "label_feature_blocks"):
        monkeypatch.setattr(f"haxmlnet.evidence.fold.{name}", never)
    monkeypatch.setattr("haxmlnet.text.document_features.word_counts", never)
    monkeypatch.setattr("haxmlnet.text.prepare.iterate_documents", never)
    again = cli(*command, "--out", tmp_path / "again")
    assert again.code == 0
    assert again.err.count("was prepared before; opened") == 2
    assert file_contents(tmp_path / "again", "*.safetensors") == file_contents(tmp_path / "first", "*.safetensors")


def test_a_file_is_learned_as_the_lists_it_holds(cli: Cli, train_file: Path, tmp_path: Path, cache: Path) -> None:
    train = Corpus.read(train_file)
    settings = {"hidden_size": 8, "word_size": 8, "mlp_sizes": (8,), "n_jobs": 1, "batch_size": 16, "epochs": 1}
    HAXMLNet(**settings).fit(train.texts, train.labels).save(tmp_path / "lists")
    lists = file_contents(tmp_path / "lists")
    del lists["model.json"]  # it says how long the training took
    for name, flags in (("new", []), ("cached", []), ("uncached", ["--no-cache"])):
        assert cli("fit", train_file, "--out", tmp_path / name, *QUICK, *flags).code == 0
        contents = file_contents(tmp_path / name)
        assert {file: contents[file] for file in lists} == lists


def test_the_cache_is_where_the_flag_says(cli: Cli, train_file: Path, tmp_path: Path, cache: Path) -> None:
    command = ["fit", train_file, "--out", tmp_path / "m", *LOUD, "--cache", tmp_path / "other"]
    assert cli(*command).code == 0
    assert len(os.listdir(tmp_path / "other")) == 1
    assert not cache.exists()
    assert "prepared before" in cli(*command).err


@pytest.mark.parametrize("source", ["file", "standard input"])
def test_without_the_cache_nothing_is_left(
    cli: Cli, train_file: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    if source == "file":
        outcome = cli("fit", train_file, "--out", tmp_path / "m", *QUICK, "--no-cache")
    else:
        outcome = cli("fit", "-", "--out", tmp_path / "m", *QUICK, stdin=train_file.read_bytes())
    assert (outcome.code, outcome.err) == (0, "")
    assert not cache.exists()
    assert os.listdir(scratch) == []


def test_skipped_documents_are_reported_from_the_cache_too(cli: Cli, tmp_path: Path, cache: Path) -> None:
    train = tmp_path / "train.jsonl"
    train.write_text("".join(json.dumps(document) + "\n" for document in documents()) + "{\n")
    command = ["fit", train, "--out", tmp_path / "m", *LOUD, "--on-error", "skip"]
    for _ in range(2):
        outcome = cli(*command)
        assert outcome.code == 0
        assert "skipped 1 bad documents; the first:" in outcome.err
        assert "train.jsonl:61: " in outcome.err


def test_a_damaged_cache_costs_a_remark(cli: Cli, train_file: Path, tmp_path: Path, cache: Path) -> None:
    command = ["fit", train_file, "--out", tmp_path / "m", *LOUD]
    assert cli(*command).code == 0
    before = file_contents(tmp_path / "m", "*.safetensors")
    entry = next(cache.iterdir())
    os.truncate(next(entry.glob("label_features-*/columns.npy")), 135)
    outcome = cli(*command)
    assert outcome.code == 0
    assert outcome.err.count("It is made anew.") == 1
    os.truncate(entry / "ids.npy", 135)
    outcome = cli(*command)
    assert outcome.code == 0
    assert outcome.err.count("It is made anew.") == 1
    assert file_contents(tmp_path / "m", "*.safetensors") == before


def test_a_full_disk_of_the_cache_costs_a_remark(tmp_path: Path) -> None:
    # 60 documents of 600 words take 144,000 bytes, and the model of these few words much less.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000))"
    wordy = [{**document, "text": " ".join(f"common w{i % 7}" for i in range(300))} for document in documents()]
    train = write_jsonl(tmp_path / "train.jsonl", wordy)
    outcome = run_process(
        "fit", train, "--out", tmp_path / "m", *LOUD, setup=limit, variables={"HAXMLNET_CACHE": str(tmp_path / "cache")}
    )
    assert outcome.code == 0, outcome
    assert "so nothing is kept there" in outcome.err
    assert os.listdir(tmp_path / "cache") == []


def test_two_trainings_at_once_share_a_cache(
    start: Callable[..., subprocess.Popen[bytes]], train_file: Path, tmp_path: Path, cache: Path
) -> None:
    processes = [start("fit", train_file, "--out", tmp_path / name, *QUICK) for name in "ab"]
    for process in processes:
        _, errors = process.communicate(timeout=100)
        assert (process.returncode, errors) == (0, b"")
    assert file_contents(tmp_path / "a", "*.safetensors") == file_contents(tmp_path / "b", "*.safetensors")
    (entry,) = cache.iterdir()
    assert not [path for path in entry.iterdir() if path.name.startswith(".")]


def test_the_cache_keeps_to_its_size(
    cli: Cli, train_file: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("fit", train_file, "--out", tmp_path / "m", *QUICK).code == 0
    (first,) = cache.iterdir()
    monkeypatch.setenv("HAXMLNET_CACHE_GB", "0")
    other = write_jsonl(tmp_path / "other.jsonl", documents(40))
    assert cli("fit", other, "--out", tmp_path / "m", *QUICK).code == 0
    assert len(os.listdir(cache)) == 1
    assert not first.exists()
    monkeypatch.setenv("HAXMLNET_CACHE_GB", "none")
    cli("fit", other, "--out", tmp_path / "m", *QUICK).assert_refused("HAXMLNET_CACHE_GB", "none")


def test_a_resumed_training_may_lack_the_cache(
    cli: Cli, train_file: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["fit", train_file, "--out", tmp_path / "m", *QUICK]

    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    assert cli(*command).code == 0
    expected = file_contents(tmp_path / "m", "*.safetensors")
    shutil.rmtree(tmp_path / "m")
    with monkeypatch.context() as patched:
        patched.setattr("haxmlnet.models.haxmlnet.HAXMLNet.save", interrupt)
        assert cli(*command).code == 130
    shutil.rmtree(cache)
    assert cli(*command, "--resume").code == 0
    assert file_contents(tmp_path / "m", "*.safetensors") == expected
