"""`haxmlnet plan`: what a training would take, as tables, as JSON and as an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import SMALL, Cli

AVAILABLE = "haxmlnet.planning.forecast.available_memory"
LARGE = ["--labels", "670091", "--documents", "490449", "--no-calibration"]
GIGABYTE = 10**9


@pytest.fixture
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AVAILABLE, lambda: 500 * GIGABYTE)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AVAILABLE, lambda: 6 * GIGABYTE)


@pytest.mark.usefixtures("plenty")
def test_sizes_alone_are_enough(cli: Cli) -> None:
    outcome = cli("plan", *LARGE)
    assert (outcome.code, outcome.err) == (0, "")
    assert "490,449 documents with 5 of 670,091 labels and 200 words each" in outcome.out
    for words in ("parameters", "candidates in training", "optimizer", "linear classifiers", "Model on disk"):
        assert words in outcome.out
    assert outcome.out.splitlines()[-1].startswith("Fits: training takes about ")
    assert "expected time" not in outcome.out


@pytest.mark.usefixtures("little")
def test_what_does_not_fit_comes_with_changes_that_help(cli: Cli) -> None:
    outcome = cli("plan", *LARGE)
    assert outcome.code == 3
    assert "Does not fit: training takes about" in outcome.out
    assert "has 6.5 GB for it" in outcome.out
    changes = [line.split(" saves ")[0].strip() for line in outcome.out.splitlines() if " saves " in line]
    assert changes
    together = "These together make it fit:" in outcome.out
    for change in [" ".join(changes)] if together else changes:
        assert cli("plan", *LARGE, *change.split()).code == 0


@pytest.mark.usefixtures("little")
def test_times_are_not_taken_of_what_does_not_fit(cli: Cli) -> None:
    (plan,) = cli("plan", "--labels", "670091", "--documents", "490449", "--json").objects
    assert plan["seconds"] is None


@pytest.mark.usefixtures("plenty")
def test_data_is_counted_and_timed(cli: Cli, train_file: Path) -> None:
    outcome = cli("plan", train_file, *SMALL, "--group-size", "4", "--quiet")
    assert (outcome.code, outcome.err) == (0, "")
    assert "60 documents with 2 of 12 labels and 6 words each, 6 of them read; 50 distinct words" in outcome.out
    assert "expected time on this machine" in outcome.out
    assert "ms per document" in outcome.out


@pytest.mark.usefixtures("plenty")
def test_json_is_one_object_with_all_of_it(cli: Cli, train_file: Path) -> None:
    (plan,) = cli("plan", train_file, "--json", "--quiet", *SMALL, "--group-size", "4").objects
    assert plan["sizes"]["documents"] == 60
    assert [level["nodes"] for level in plan["levels"]] == [4, 12]
    assert sum(part["networks"] for part in plan["memory_bytes"].values()) == plan["memory_totals"]["networks"]
    assert (plan["fits"], plan["advice"], plan["available_bytes"]) == (True, [], 500 * GIGABYTE)
    assert plan["seconds"]["training"] >= plan["seconds"]["networks"] > 0


@pytest.mark.usefixtures("plenty")
def test_numbers_given_replace_those_of_the_data(cli: Cli, train_file: Path) -> None:
    given = ["--documents", "1000000", "--labels", "20000", "--words", "300", "--vocabulary", "90000"]
    (plan,) = cli("plan", *given, train_file, "--no-calibration", "--json", "--quiet").objects
    counted = {"documents": 1_000_000, "labels": 20_000, "words_per_document": 300, "vocabulary": 90_002}
    assert counted.items() <= plan["sizes"].items()
    assert plan["sizes"]["labels_per_document"] == 2


@pytest.mark.usefixtures("plenty")
def test_settings_are_those_of_fit(cli: Cli, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text("word_size = 64\n")
    arguments = ["--preset", "amazon-670k", "--config", config, "--hidden-size", "32", "--json"]
    (plan,) = cli("plan", *LARGE, *arguments).objects
    settings = plan["settings"]
    assert (settings["n_trees"], settings["word_size"], settings["hidden_size"]) == (3, 64, 32)
    assert [level["nodes"] for level in plan["levels"]] == [2048, 16384, 131072, 670091]


def test_wrong_commands(cli: Cli, tmp_path: Path) -> None:
    cli("plan").assert_refused("--labels and --documents")
    cli("plan", "--labels", "10").assert_refused("--labels and --documents")
    cli("plan", "--labels", "-5", "--documents", "10").assert_refused("labels must be at least 1, got -5")
    cli("plan", "--labels", "10", "--documents", "10", "--level-sizes", "3").assert_refused("powers of two")
    cli("plan", "--labels", "10", "--documents", "10", "--prune", "1").assert_refused("--prune")
    cli("plan", tmp_path / "absent.jsonl").assert_refused("no such file")


@pytest.mark.usefixtures("plenty")
def test_fit_refuses_with_one_line(cli: Cli, train_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AVAILABLE, lambda: 1000)
    outcome = cli("fit", train_file, "--out", tmp_path / "model", "--quiet", *SMALL)
    outcome.assert_refused("GB of memory", "haxmlnet plan", "check_memory=False")
    assert list(tmp_path.iterdir()) == []
    trained = cli(
        "fit", train_file, "--out", tmp_path / "model", "--quiet", *SMALL, "--epochs", "1", "--no-check-memory"
    )
    assert trained.code == 0
