"""A model trained once for all tests of the command line, and ways to run commands."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import SMALL, Cli, Outcome, documents, environment, process_arguments, write_jsonl

from haxmlnet.cli import main


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command in this process."""

    def run(*arguments: object, stdin: bytes | None = None) -> Outcome:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit:
            code = int(str(exit.code))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def train_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("corpus") / "train.jsonl", documents())


@pytest.fixture(scope="session")
def model(train_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two levels that has learned the corpus; tests read it and never write to it."""
    path = tmp_path_factory.mktemp("model") / "model"
    learn = ["--epochs", "30", "--learning-rate", "0.02", "--group-size", "4", "--state-dropout", "0"]
    alike = ["--precision", "float32"]  # so that a text has the same scores alone and among others
    assert main(["fit", str(train_file), "--out", str(path), "--quiet", *SMALL, *learn, *alike]) == 0
    return path


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start commands in processes of their own, and leave none of them running."""
    processes: list[subprocess.Popen[bytes]] = []

    def run(*arguments: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            process_arguments(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()
