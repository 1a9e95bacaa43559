"""`haxmlnet predict`: forms of input and output, and models it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import LABELS, N_LABELS, Cli, documents, environment, file_contents, write_jsonl


def test_one_object_a_document_in_input_order(cli: Cli, model: Path, train_file: Path) -> None:
    outcome = cli("predict", model, train_file, "--k", "3")
    assert (outcome.code, outcome.err) == (0, "")
    assert [found["id"] for found in outcome.objects] == [document["id"] for document in documents()]
    for found in outcome.objects:
        assert list(found) == ["id", "labels"]
        assert [list(scored) for scored in found["labels"]] == [["label", "score"]] * 3
        scores = [scored["score"] for scored in found["labels"]]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def test_the_model_has_learned(cli: Cli, model: Path, train_file: Path) -> None:
    found = cli("predict", model, train_file, "--k", "2").objects
    hits = [
        {scored["label"] for scored in answer["labels"]} == set(document["labels"])
        for answer, document in zip(found, documents(), strict=True)
    ]
    assert sum(hits) > 50


def test_five_labels_by_default(cli: Cli, model: Path) -> None:
    assert len(cli("predict", model, "--text", "word0x0").objects[0]["labels"]) == 5


@pytest.mark.parametrize("text", ["word0x0 word1x1", "", "never seen", "  \n\t "])
def test_one_text(cli: Cli, model: Path, text: str) -> None:
    (found,) = cli("predict", model, "--text", text, "--k", "2").objects
    assert found["id"] == "1"
    assert len(found["labels"]) == 2


def test_one_text_is_the_same_in_a_file(cli: Cli, model: Path, train_file: Path) -> None:
    in_file = cli("predict", model, train_file).objects[7]["labels"]
    (alone,) = cli("predict", model, "--text", documents()[7]["text"]).objects
    assert [scored["label"] for scored in alone["labels"]] == [scored["label"] for scored in in_file]
    assert [scored["score"] for scored in alone["labels"]] == pytest.approx(
        [scored["score"] for scored in in_file], rel=1e-4
    )


@pytest.mark.parametrize("source", [["-"], []])
def test_json_lines_from_standard_input(cli: Cli, model: Path, train_file: Path, source: list[str]) -> None:
    outcome = cli("predict", model, *source, stdin=train_file.read_bytes())
    assert outcome == cli("predict", model, train_file)


def test_plain_text_from_standard_input(cli: Cli, model: Path) -> None:
    outcome = cli("predict", model, "--k", "1", stdin=b"word3x0 word3x1\n\nword5x0 word5x1\n")
    assert [found["id"] for found in outcome.objects] == ["1", "2", "3"]
    assert outcome.objects[0]["labels"][0]["label"] == LABELS[3]
    assert outcome.objects[2]["labels"][0]["label"] == LABELS[5]


def test_input_may_follow_the_flags(cli: Cli, model: Path, train_file: Path) -> None:
    first = cli("predict", model, train_file, "--k", "2")
    assert cli("predict", model, "--k", "2", train_file) == first
    assert cli("predict", "--k", "2", model, "-", stdin=train_file.read_bytes()) == first
    assert cli("predict", model, "--k", "2", "-", stdin=train_file.read_bytes()) == first
    cli("predict", model, "--k", "2", train_file, "more").assert_refused("more")


def test_csv(cli: Cli, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.csv"
    file.write_text("key,words\na,word3x0\nb,word5x0\n")
    outcome = cli("predict", model, file, "--text-field", "words", "--id-field", "key")
    assert [found["id"] for found in outcome.objects] == ["a", "b"]


def test_k_above_the_number_of_labels_gives_all(cli: Cli, model: Path) -> None:
    (found,) = cli("predict", model, "--text", "word0x0", "--k", "1000").objects
    assert sorted(scored["label"] for scored in found["labels"]) == LABELS


def test_all_labels_even_with_the_narrowest_beam(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    from commands import QUICK

    narrow = ["--beam", "1", "--group-size", "2"]
    assert cli("fit", train_file, "--out", tmp_path / "m", *QUICK, *narrow).code == 0
    (found,) = cli("predict", tmp_path / "m", "--text", "word0x0", "--k", "1000").objects
    assert sorted(scored["label"] for scored in found["labels"]) == LABELS


def test_threshold(cli: Cli, model: Path, train_file: Path) -> None:
    every = cli("predict", model, train_file).objects
    above = cli("predict", model, train_file, "--threshold", "0.5").objects
    for kept, all_of_them in zip(above, every, strict=True):
        assert kept["labels"] == [scored for scored in all_of_them["labels"] if scored["score"] >= 0.5]
    assert sum(len(kept["labels"]) for kept in above) not in (0, sum(len(found["labels"]) for found in every))


def test_tsv(cli: Cli, model: Path, train_file: Path) -> None:
    lines = cli("predict", model, train_file, "--format", "tsv", "--k", "2").out.splitlines()
    assert len(lines) == 2 * len(documents())
    document_id, label, score = lines[0].split("\t")
    best = cli("predict", model, train_file, "--k", "1").objects[0]
    assert {"label": label, "score": float(score)} == best["labels"][0]
    assert document_id == best["id"]


def test_output_file(cli: Cli, model: Path, train_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "predictions.jsonl"
    outcome = cli("predict", model, train_file, "--output", file)
    assert (outcome.code, outcome.out) == (0, "")
    assert file.read_text("utf-8") == cli("predict", model, train_file).out
    assert list(tmp_path.iterdir()) == [file]


def test_output_file_is_complete_or_as_it_was(cli: Cli, model: Path, tmp_path: Path) -> None:
    source = tmp_path / "new.jsonl"
    good = "".join(json.dumps({"text": "word1x1"}) + "\n" for _ in range(1001))
    source.write_text(good + "{broken\n")
    file = tmp_path / "predictions.jsonl"
    file.write_text("from before\n")
    cli("predict", model, source, "--output", file).assert_refused(f"{source}:1002", "JSON")
    assert file.read_text() == "from before\n"
    assert sorted(tmp_path.iterdir()) == [source, file]


@pytest.mark.parametrize("target", ["a directory", "no/such/folder/file"])
def test_output_that_cannot_be_written(cli: Cli, model: Path, train_file: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "a directory").mkdir()
    cli("predict", model, train_file, "--output", tmp_path / target).assert_refused(target)


def test_output_on_a_full_disk(cli: Cli, model: Path, train_file: Path) -> None:
    cli("predict", model, train_file, "--output", "/dev/full").assert_refused("No space left")


def test_skipped_documents_are_counted_on_standard_error(cli: Cli, model: Path, tmp_path: Path) -> None:
    source = tmp_path / "new.jsonl"
    source.write_text('{"text": "word1x1"}\n{broken\n{"text": 5}\n{"id": "last", "text": ""}\n')
    outcome = cli("predict", model, source, "--on-error", "skip")
    assert outcome.code == 0
    assert [found["id"] for found in outcome.objects] == ["1", "last"]
    assert "skipped 2 bad documents" in outcome.err
    assert f"{source}:2: " in outcome.err
    assert f"{source}:3: " in outcome.err
    quiet = cli("predict", model, source, "--on-error", "skip", "--quiet")
    assert (quiet.out, quiet.err) == (outcome.out, "")


def test_reader_that_goes_away(model: Path, train_file: Path, tmp_path: Path) -> None:
    many = write_jsonl(tmp_path / "many.jsonl", documents() * 50)
    command = '"$0" -m haxmlnet predict "$1" "$2" --k 12 | head -n 1'
    done = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable, str(model), str(many)],
        capture_output=True, check=True, env=environment(),
    )  # fmt: skip
    assert json.loads(done.stdout)["id"] == "d0"
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--text", "a", "--k", "0"], ["--k", "0"]),
        (["--text", "a", "--k", "-1"], ["--k"]),
        (["--text", "a", "--threshold", "1.5"], ["--threshold", "1.5"]),
        (["--text", "a", "--threshold", "nan"], ["--threshold"]),
        (["--text", "a", "file.jsonl"], ["--text"]),
        (["--text", "caf\udce9"], ["--text", "UTF-8"]),
        (["/no/such/file.jsonl"], ["/no/such/file.jsonl", "no such file"]),
        (["/"], ["directory"]),
    ],
)
def test_mistakes(cli: Cli, model: Path, flags: list[str], words: list[str]) -> None:
    cli("predict", model, *flags).assert_refused(*words)


def test_nothing_from_standard_input(cli: Cli, model: Path) -> None:
    cli("predict", model, stdin=b"").assert_refused("<stdin>", "empty")


def test_text_that_is_not_utf_8(cli: Cli, model: Path) -> None:
    cli("predict", model, stdin=b"fine\ncaf\xe9\n").assert_refused("<stdin>:2", "UTF-8")


def test_directories_without_a_model(cli: Cli, tmp_path: Path, train_file: Path) -> None:
    cli("predict", tmp_path, "--text", "a").assert_refused(str(tmp_path), "model.json")
    cli("predict", tmp_path / "none", "--text", "a").assert_refused("no such model")
    cli("predict", train_file, "--text", "a").assert_refused("no such model")


@pytest.mark.parametrize("command", ["predict", "evaluate", "inspect"])
@pytest.mark.parametrize("file", ["model.json", "labels.txt", "tokenizer.json", "tree_0.attention.safetensors"])
@pytest.mark.parametrize("damage", ["truncated", "altered", "empty", "missing", "foreign"])
def test_damaged_models(
    cli: Cli, model: Path, train_file: Path, tmp_path: Path, command: str, file: str, damage: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    content = (copy / file).read_bytes()
    middle = len(content) // 2
    damaged = {
        "truncated": content[:middle],
        "altered": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "empty": b"",
        "foreign": b'{"a": 1}' if file == "model.json" else b"from another program",
    }
    if damage == "missing":
        (copy / file).unlink()
    else:
        (copy / file).write_bytes(damaged[damage])
    more = {"predict": ["--text", "a"], "evaluate": [train_file], "inspect": []}[command]
    cli(command, copy, *more).assert_refused(str(copy), file)


def test_model_of_a_newer_version(cli: Cli, model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    header = json.loads((copy / "model.json").read_text())
    (copy / "model.json").write_text(json.dumps({**header, "format_version": 99}))
    cli("predict", copy, "--text", "a").assert_refused("99", "Upgrade")


def test_predicting_changes_nothing_in_the_model(cli: Cli, model: Path) -> None:
    before = file_contents(model)
    assert cli("predict", model, "--text", "word0x0", "--k", str(N_LABELS)).code == 0
    assert file_contents(model) == before


@pytest.mark.parametrize("arguments", [["", "--k", "3"], ["--k", "3", ""]])
def test_an_input_without_a_name_is_refused(cli: Cli, model: Path, arguments: list[str]) -> None:
    cli("predict", model, *arguments).assert_refused("error")
