"""`haxmlnet check`: a report that a person or a program can act on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Cli, documents, run_process, write_jsonl

from haxmlnet.cli import build_parser
from haxmlnet.cli.flags import read_options

BAD = 'text,labels\nfirst text,a;b\nfirst  text,a\n,\nbad\nother,"x\ny"\n'


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_bad_data_is_reported_with_examples_and_advice(cli: Cli, in_folder: Path) -> None:
    Path("a.csv").write_text(BAD)
    outcome = cli("check", "a.csv")
    assert (outcome.code, outcome.err) == (0, "")
    assert "a.csv: 4 documents, 3 labels" in outcome.out
    assert "a.csv: lines that cannot be read: 1. Fix them" in outcome.out
    assert "  a.csv:5: the header has 2 columns, got 1 in ['bad']." in outcome.out
    for words in ("empty text: 1.", "without labels: 1.", "duplicate texts: 1."):
        assert words in outcome.out


def test_good_data_has_nothing_to_fix(cli: Cli, in_folder: Path) -> None:
    write_jsonl(Path("a.jsonl"), documents(12))
    outcome = cli("check", "a.jsonl", "--quiet")
    assert outcome.out.endswith("Nothing to fix.\n")
    assert "12 documents, 12 labels" in outcome.out
    assert "#" * 40 in outcome.out


def test_test_documents_are_compared(cli: Cli, in_folder: Path) -> None:
    Path("train.csv").write_text("text,labels\nt,a\nu,b\n")
    Path("test.csv").write_text('text,labels\nt,"new\nlabel"\n')
    for test in ("test.csv", "."):
        outcome = cli("check", ".", "--test", test)
        assert "train and test: test texts that are also in training: 1." in outcome.out
        assert "train and test: test labels that are not in training: 1." in outcome.out
        assert "  'new\\nlabel'\n" in outcome.out
        assert "train.csv: 2 documents, 2 labels" in outcome.out
        assert "test.csv: 1 documents, 1 labels" in outcome.out


@pytest.mark.parametrize(
    ("command", "split"),
    [
        (["fit", "d", "--out", "m"], "train"),
        (["check", "d"], "train"),
        (["convert", "d", "o.csv"], "train"),
        (["evaluate", "m", "d"], "test"),
        (["predict", "m", "d"], "test"),
        (["predict", "m", "d", "--split", "train"], "train"),
    ],
)
def test_each_command_takes_its_part_of_a_directory(command: list[str], split: str) -> None:
    assert read_options(build_parser().parse_args(command)).split == split


def test_json_has_the_same_in_one_object(cli: Cli, in_folder: Path) -> None:
    Path("a.csv").write_text(BAD)
    (report,) = cli("check", "a.csv", "--test", "a.csv", "--json").objects
    assert list(report) == ["data", "test", "both"]
    assert report["data"] == report["test"]
    assert report["data"]["n_documents"] == 4
    assert report["data"]["bad_lines"]["count"] == 1
    assert report["both"]["shared_texts"]["count"] == 2
    assert report["both"]["unknown_labels"] == {"count": 0, "examples": []}


def test_sparse_files_are_counted_by_features(cli: Cli, in_folder: Path) -> None:
    Path("train.txt").write_text("4 9 3\n0,1 2:0.5 3:1\n1 2:x\n \n0 2:0.5 3:1\n")
    Path("test.txt").write_text("1 9 3\n2 2:0.5 3:1\n")
    outcome = cli("check", ".", "--test", ".")
    assert (outcome.code, outcome.err) == (0, "")
    assert "train.txt: 3 documents, 2 labels, 9 features" in outcome.out
    assert "features per document" in outcome.out
    assert "words per document" not in outcome.out
    assert "  train.txt:3: the value of a feature must be a finite number, got '2:x'." in outcome.out
    for words in ("documents without features: 1.", "duplicate rows of features: 1."):
        assert f"train.txt: {words}" in outcome.out
    assert "train and test: test rows that are also in training: 1." in outcome.out
    assert "train and test: test labels that are not in training: 1." in outcome.out
    (report,) = cli("check", "train.txt", "--json").objects
    assert report["data"]["features_per_document"] == {"mean": 1.33, "median": 2, "min": 0, "max": 2}
    assert report["data"]["bad_lines"]["count"] == 1
    Path("a.csv").write_text("text,labels\nt,x\n")
    cli("check", "train.txt", "--test", "a.csv").assert_refused(
        "a.csv: has texts, but train.txt has rows. Give rows for both"
    )


def test_what_cannot_be_read_at_all_is_one_line(cli: Cli, in_folder: Path) -> None:
    cli("check", "absent.csv").assert_refused("absent.csv: no such file")
    Path("a.csv").write_text("body,labels\nt,x\n")
    cli("check", "a.csv").assert_refused("a.csv:1: there is no 'text'", "--text-field")
    Path("a.csv").write_text(BAD)
    cli("check", "a.csv", "--on-error", "stop").assert_refused("a.csv:5: the header has 2 columns")


def test_labels_of_any_alphabet_are_printed_in_any_locale(in_folder: Path) -> None:
    Path("a.csv").write_text("text,labels\nt,a\n", encoding="utf-8")
    Path("b.csv").write_text("text,labels\nt,é中\n", encoding="utf-8")
    outcome = run_process("check", "a.csv", "--test", "b.csv", variables={"PYTHONIOENCODING": "ascii"})
    assert (outcome.code, outcome.err) == (0, "")
    assert "  \\xe9\\u4e2d\n" in outcome.out
    shown = run_process("check", "a.csv", "--json", "--test", "b.csv", variables={"PYTHONIOENCODING": "ascii"})
    assert json.loads(shown.out)["both"]["unknown_labels"]["examples"] == ["é中"]
