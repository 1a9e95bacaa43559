"""The command line as a whole: help, versions, exit codes, and how quickly it answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from commands import Cli, environment, run_process

COMMANDS = ("fit", "predict", "evaluate", "inspect", "check", "plan", "convert", "demo")
SLOW_MODULES = {"torch", "sklearn", "numba", "numpy", "scipy", "pyarrow", "tokenizers", "safetensors", "rich"}


def test_version(cli: Cli) -> None:
    from haxmlnet import __version__

    outcome = cli("--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"haxmlnet {__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], *([command, "--help"] for command in COMMANDS)])
def test_help_goes_to_standard_output(cli: Cli, arguments: list[str]) -> None:
    outcome = cli(*arguments)
    assert outcome.code == 0
    assert outcome.out.startswith("usage: haxmlnet")
    assert outcome.err == ""


def test_help_of_fit_lists_every_setting(cli: Cli) -> None:
    from haxmlnet.settings import setting_fields

    shown = cli("fit", "--help").out
    assert [name for name in setting_fields() if f"--{name.replace('_', '-')}" not in shown] == []


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["fit", "--help"]])
def test_answers_at_once_and_without_slow_imports(arguments: list[str]) -> None:
    program = (
        "import sys, json, atexit; from haxmlnet.cli import main\n"
        "atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr)); main()"
    )
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, check=True, env=environment()
        )
        seconds.append(time.perf_counter() - started)
    assert set(json.loads(done.stderr)) & SLOW_MODULES == set()
    assert min(seconds) < 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["required: COMMAND"]),
        (["train"], ["'train'", "fit"]),
        (["fit"], ["required: TRAIN, --out"]),
        (["fit", "t.jsonl", "--out", "m", "--no-such-flag", "1"], ["--no-such-flag"]),
        (["fit", "t.jsonl", "--out", "m", "--preset", "best"], ["'best'", "amazon-670k"]),
        (["predict"], ["MODEL_DIR"]),
        (["predict", "m", "--k", "many"], ["--k", "'many'"]),
        (["predict", "m", "--format", "xml"], ["'xml'", "jsonl"]),
        (["evaluate", "m"], ["TEST"]),
        (["inspect"], ["MODEL_DIR"]),
    ],
)  # fmt: skip
def test_wrong_commands(cli: Cli, arguments: list[str], words: list[str]) -> None:
    cli(*arguments).assert_refused(*words)


def test_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "haxmlnet", "--version"], capture_output=True, check=True, env=environment()
    )
    assert done.stdout.startswith(b"haxmlnet ")


def test_interruption_outside_of_training(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("haxmlnet.models.load_model", interrupt)
    outcome = cli("inspect", "model")
    assert (outcome.code, outcome.err) == (130, "haxmlnet: interrupted\n")


def test_full_disk_behind_standard_output(model: object) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", '"$0" -m haxmlnet inspect "$1" --json > /dev/full', sys.executable, str(model)],
        capture_output=True, check=False, env=environment(),
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == b"haxmlnet: error: [Errno 28] No space left on device\n"


def test_results_are_utf_8_in_any_locale(model: object) -> None:
    outcome = run_process(
        "predict", model, "--k", "1", stdin='{"id": "é中", "text": "x"}\n'.encode(),
        variables={"PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.objects[0]["id"] == "é中"
