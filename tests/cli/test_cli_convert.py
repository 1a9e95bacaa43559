"""`haxmlnet convert`: from any format to another, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Cli, documents, write_jsonl

from haxmlnet.data import OUTPUT_FORMATS, ReadOptions, iterate_documents


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Documents that every format can hold."""
    monkeypatch.chdir(tmp_path)
    made = [
        {"id": str(n), "text": document["text"], "labels": [label.replace(" ", "_") for label in document["labels"]]}
        for n, document in enumerate(documents(20), start=1)
    ]
    write_jsonl(Path("in.jsonl"), made)
    return "in.jsonl"


@pytest.mark.parametrize("form", OUTPUT_FORMATS)
def test_there_and_back_again(cli: Cli, source: str, form: str) -> None:
    there = {"parallel": "out_texts.txt", "pecos": "X.out.txt"}.get(form, "out")
    outcome = cli("convert", source, there, "--to", form)
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err == f"20 documents written to {there} as {form}\n"
    assert cli("convert", there, "back.jsonl", "--format", form, "--quiet").err == ""
    assert Path("back.jsonl").read_bytes() == Path(source).read_bytes()


@pytest.mark.parametrize("name", ["out.csv.gz", "out.parquet", "data_texts.txt.zst", "out.fasttext"])
def test_the_name_tells_the_format(cli: Cli, source: str, name: str) -> None:
    assert cli("convert", source, name).code == 0
    read = list(iterate_documents(name, ReadOptions(), with_labels=True))
    assert read == list(iterate_documents(source, with_labels=True))


def test_a_file_may_replace_itself(cli: Cli, source: str) -> None:
    before = Path(source).read_bytes()
    assert cli("convert", source, source).code == 0
    assert Path(source).read_bytes() == before


def test_what_a_format_cannot_hold_leaves_the_file_as_it_was(cli: Cli, source: str, tmp_path: Path) -> None:
    Path("bad.jsonl").write_text(json.dumps({"id": "1", "text": "t", "labels": ["two words"]}))
    Path("out.fasttext").write_text("old")
    before = sorted(tmp_path.iterdir())
    refused = cli("convert", "bad.jsonl", "out.fasttext")
    refused.assert_refused("out.fasttext: cannot hold document 1 with the id '1'", "'two words'")
    assert Path("out.fasttext").read_text() == "old"
    assert sorted(tmp_path.iterdir()) == before


def test_ids_are_dropped_only_if_asked(cli: Cli, source: str) -> None:
    Path("ids.jsonl").write_text(json.dumps({"id": "x", "text": "t", "labels": ["a"]}))
    cli("convert", "ids.jsonl", "out.fasttext").assert_refused("the format has no ids", "--drop-ids")
    assert cli("convert", "ids.jsonl", "out.fasttext", "--drop-ids").code == 0
    assert Path("out.fasttext").read_text() == "__label__a t\n"


def test_bad_documents_are_skipped_if_asked(cli: Cli, source: str) -> None:
    Path(source).write_text('{"text": "t", "labels": ["a"]}\n{\n')
    cli("convert", source, "out.csv").assert_refused("in.jsonl:2: not JSON")
    outcome = cli("convert", source, "out.csv", "--on-error", "skip")
    assert outcome.code == 0
    assert "skipped 1 bad documents" in outcome.err


SPARSE = "3 9 4\n0,1 2:0.5 3:1\n3 8:0.125\n \n"


@pytest.mark.parametrize("there", ["trn_X_Xf.txt", "X.trn.npz", "out.txt.gz", "trn_X_Xf.txt.zst"])
def test_sparse_files_there_and_back_again(cli: Cli, source: str, there: str) -> None:
    Path("train.txt").write_text(SPARSE)
    outcome = cli("convert", "train.txt", there)
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith(f"3 documents written to {there} as ")
    assert cli("convert", there, "back.txt", "--to", "xc-sparse", "--quiet").err == ""
    assert Path("back.txt").read_text() == SPARSE


def test_features_counted_from_one(cli: Cli, source: str) -> None:
    Path("a.svm").write_text("3 1:2 4:5\n")
    assert cli("convert", "a.svm", "zero.txt", "--first-index", "1").code == 0
    assert Path("zero.txt").read_text() == "1 4 4\n3 0:2 3:5\n"


def test_texts_and_features_do_not_turn_into_each_other(cli: Cli, source: str) -> None:
    Path("train.txt").write_text(SPARSE)
    cli("convert", "train.txt", "a", "--to", "csv").assert_refused("train.txt: has features, not texts", "csv cannot")
    cli("convert", source, "a", "--to", "xc-sparse").assert_refused("in.jsonl: has texts, not features", "xc-sparse")
    cli("convert", "train.txt", "a.csv").assert_refused("a.csv: the name does not tell the format", "xc-sparse")


def test_a_data_set_may_be_a_directory(cli: Cli, source: str) -> None:
    assert cli("convert", source, "saved", "--to", "huggingface").code == 0
    assert cli("convert", "saved", "trn.json.gz").code == 0
    assert cli("convert", ".", "back.jsonl").code == 0
    assert Path("back.jsonl").read_bytes() == Path(source).read_bytes()
    cli("convert", source, "saved", "--to", "huggingface").assert_refused("saved: is there already")


def test_wrong_names(cli: Cli, source: str) -> None:
    cli("convert", source, "out.xyz").assert_refused("out.xyz: the name does not tell the format", "--to")
    cli("convert", source, "absent/out.csv").assert_refused("absent/out.csv: cannot be written")
    cli("convert", source, "out.txt", "--to", "parallel").assert_refused("NAME_texts.txt")
    cli("convert", "absent", "out.csv").assert_refused("absent: no such file")
