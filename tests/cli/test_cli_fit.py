"""`haxmlnet fit`: where settings come from, odd but good data, and mistakes found before training."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import LABELS, QUICK, SMALL, Cli, documents, file_contents, run_process, write_jsonl

from haxmlnet.settings import Settings


def settings_of(model: Path) -> dict[str, Any]:
    return dict(json.loads((model / "model.json").read_text("utf-8"))["training"]["settings"])


def test_logs_go_to_standard_error(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    outcome = cli("fit", train_file, "--out", tmp_path / "m", *SMALL, "--epochs", "2")
    assert (outcome.code, outcome.out) == (0, "")
    assert "60 training documents" in outcome.err
    assert "epoch 2/2" in outcome.err
    assert f"saved in {tmp_path / 'm'}" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_quiet_is_really_quiet(train_file: Path, tmp_path: Path) -> None:
    outcome = run_process("fit", train_file, "--out", tmp_path / "m", *QUICK)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_same_seed_same_model(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        assert cli("fit", train_file, "--out", tmp_path / name, *QUICK, "--random-state", seed).code == 0
    a, b, c = (file_contents(tmp_path / name, "*.safetensors") for name in "abc")
    assert a == b
    assert a != c


def test_flags_win_over_file_and_file_over_preset(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text("beam = 3\nhidden_size = 4\nmlp_sizes = [6, 5]\nepochs = 1\nword_size = 8\n")
    flags = ["--preset", "paper", "--config", config, "--hidden-size", "5", "--quiet", "--n-jobs", "1"]
    assert cli("fit", train_file, "--out", tmp_path / "m", *flags).code == 0
    settings = settings_of(tmp_path / "m")
    assert settings["hidden_size"] == 5  # flag, file and preset
    assert (settings["beam"], settings["mlp_sizes"], settings["epochs"]) == (3, [6, 5], 1)  # file and preset
    assert (settings["own_outputs"], settings["patience"], settings["batch_size"]) == (False, 10, 40)  # preset
    assert (settings["word_dropout"], settings["state_dropout"]) == (0.2, 0.5)  # preset, unlike the default
    assert settings["vocabulary_size"] == Settings.vocabulary_size  # default


def test_switches(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    flags = ["--no-attend-words", "--no-own-outputs", "--no-train-word-vectors"]
    assert cli("fit", train_file, "--out", tmp_path / "m", *QUICK, *flags).code == 0
    settings = settings_of(tmp_path / "m")
    assert not any(settings[name] for name in ("attend_words", "own_outputs", "train_word_vectors"))


def test_validation_file(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    validation = [*documents(5), {"text": "word0x0", "labels": ["unseen"]}]
    file = write_jsonl(tmp_path / "validation.jsonl", validation)
    outcome = cli("fit", train_file, "--out", tmp_path / "m", *SMALL, "--epochs", "1", "--validation", file)
    assert outcome.code == 0
    assert "validation nDCG@5" in outcome.err
    (found,) = cli("inspect", tmp_path / "m", "--json").objects
    assert found["training"]["n_validation"] == 6
    assert found["n_labels"] == 12


def test_word_vectors_from_a_file(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    words = sorted({word for document in documents() for word in document["text"].split()})
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"{word} {i} 0.5 -1e-2\n" for i, word in enumerate(words)))
    flags = [*QUICK, "--vectors", vectors, "--no-train-word-vectors"]
    assert cli("fit", train_file, "--out", tmp_path / "m", *flags).code == 0
    from safetensors.numpy import load_file

    table = load_file(tmp_path / "m" / "tree_0.attention.safetensors")["level_0.encoder.words.weight"]
    assert table.shape == (len(words) + 2, 3)


@pytest.mark.parametrize("name", ["train.csv", "train.tsv", "train.jsonl.gz", "train.data"])
def test_forms_of_training_files(cli: Cli, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    rows = [(document["text"], ";".join(document["labels"])) for document in documents()]
    if name.endswith(".gz"):
        file.write_bytes(gzip.compress("".join(json.dumps(d) + "\n" for d in documents()).encode()))
    else:
        mark = "," if name == "train.csv" else "\t"
        file.write_text("".join(f"{text}{mark}{labels}\n" for text, labels in [("text", "labels"), *rows]))
    assert cli("fit", file, "--out", tmp_path / "m", *QUICK).code == 0
    assert cli("inspect", tmp_path / "m", "--json").objects[0]["n_labels"] == 12


def test_standard_input_and_other_field_names(cli: Cli, tmp_path: Path) -> None:
    lines = [json.dumps({"body": d["text"], "tags": "|".join(d["labels"])}) for d in documents()]
    fields = ["--text-field", "body", "--label-field", "tags", "--label-separator", "|"]
    outcome = cli("fit", "-", "--out", tmp_path / "m", *QUICK, *fields, stdin="\n".join(lines).encode())
    assert outcome.code == 0
    assert (tmp_path / "m" / "labels.txt").read_text().splitlines() == LABELS


def test_an_older_model_is_replaced(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()  # an empty directory may be taken, too
    for seed in (1, 2):
        assert cli("fit", train_file, "--out", tmp_path / "m", *QUICK, "--random-state", seed).code == 0
        assert settings_of(tmp_path / "m")["random_state"] == seed
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_model_in_the_current_directory(
    cli: Cli, train_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert cli("fit", train_file, "--out", ".", *QUICK).code == 0
    assert (tmp_path / "here" / "model.json").is_file()


def test_directory_with_the_name_of_our_checkpoints(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    mine = tmp_path / "m.training" / "holiday.jpg"
    mine.parent.mkdir()
    mine.write_text("a photo")
    assert cli("fit", train_file, "--out", tmp_path / "m", *QUICK).code == 0
    assert mine.read_text() == "a photo"


ODD_NAMES = [
    "with spaces", " around ", "new\nline", "re\rturn", "back\\slash \\n", "tab\t", "a\u2028b", "x" * 10_000,
]  # fmt: skip
ODD_CORPORA: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "odd labels": lambda: [{"text": f"word{i}", "labels": [name]} for i, name in enumerate(ODD_NAMES * 3)],
    "duplicate labels": lambda: [{**d, "labels": d["labels"] * 3} for d in documents()],
    "one label only": lambda: [{**d, "labels": ["the one"]} for d in documents()],
    "one document only": lambda: documents(1),
    "one document with one label": lambda: [{"text": "word", "labels": ["a"]}],
    "all documents equal": lambda: [documents()[0]] * 30,
    "documents without labels or text": lambda: [*documents(), {"text": "", "labels": []}],
    "all texts but one empty": lambda: [{**d, "text": ""} for d in documents()] + documents(1),
    "numbers as labels": lambda: [{**d, "labels": [1, 2]} for d in documents()],
}


@pytest.mark.parametrize("name", ODD_CORPORA)
def test_odd_but_good_data(cli: Cli, tmp_path: Path, name: str) -> None:
    corpus = ODD_CORPORA[name]()
    file = write_jsonl(tmp_path / "train.jsonl", corpus)
    outcome = cli("fit", file, "--out", tmp_path / "m", *QUICK)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    labels = {str(label) for document in corpus for label in document["labels"]}
    answers = cli("predict", tmp_path / "m", file, "--k", "100").objects
    assert len(answers) == len(corpus)
    for answer in answers:
        assert {scored["label"] for scored in answer["labels"]} == labels
        assert len(answer["labels"]) == len(labels)
    assert cli("evaluate", tmp_path / "m", file, "--json").objects[0]["n_documents"] == len(corpus)


def test_document_of_10_megabytes(cli: Cli, tmp_path: Path) -> None:
    big = {"text": "word0x0 word1x1 " * 650_000, "labels": LABELS[:2]}
    assert len(big["text"]) > 10_000_000
    file = write_jsonl(tmp_path / "train.jsonl", [*documents(), big])
    assert cli("fit", file, "--out", tmp_path / "m", *QUICK).code == 0
    outcome = cli("predict", tmp_path / "m", file, "--k", "100")
    assert len(outcome.objects) == 61
    assert len(outcome.objects[-1]["labels"]) == 12


def test_skipped_documents_are_counted(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    good = [json.dumps(document) for document in documents()]
    file.write_text("\n".join([*good, "{broken", '{"text": "a", "labels": 5}']))
    outcome = cli("fit", file, "--out", tmp_path / "m", *SMALL, "--epochs", "1", "--on-error", "skip")
    assert outcome.code == 0
    assert "skipped 2 bad documents" in outcome.err
    assert f"{file}:61: " in outcome.err
    assert "60 training documents" in outcome.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (b"\n \n", ["no document"]),
        (b'{"text": "a", "labels": ["b"]}\n{"text": "a", labels}\n', [":2: ", "JSON"]),
        (b'{"text": "a", "labels": ["b"]}\n["a"]\n', [":2: ", "object"]),
        (b'{"text": "a", "labels": "b;c"}\n', [":1: ", "'labels'", "--label-separator"]),
        (b'{"text": "a", "labels": {"b": 1}}\n', [":1: ", "'labels'"]),
        (b'{"text": "a", "labels": [["b"]]}\n', [":1: ", "'labels'"]),
        (b'{"text": "a", "labels": [null]}\n', [":1: ", "'labels'"]),
        (b'{"text": "a"}\n', [":1: ", "--label-field"]),
        (b'{"labels": ["a"]}\n', [":1: ", "--text-field"]),
        (b'{"text": ["a"], "labels": ["b"]}\n', [":1: ", "'text'"]),
        (b'{"text": "caf\xe9", "labels": ["b"]}\n', [":1: ", "UTF-8"]),
        (b'{"text": "a", "labels": []}\n' * 3, ["none of 3 documents", "--label-field"]),
        (b'{"text": "...", "labels": ["a"]}\n' * 3, ["word"]),
        (b"\x1f\x8b broken", ["gzip"]),
        (b"PK\x03\x04", ["zip"]),
    ],
)
def test_bad_training_files(cli: Cli, tmp_path: Path, content: bytes, words: list[str]) -> None:
    file = tmp_path / "train.jsonl"
    file.write_bytes(content)
    cli("fit", file, "--out", tmp_path / "m", *QUICK).assert_refused(*words)
    assert list(tmp_path.iterdir()) == [file]


def test_missing_files(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "m", *QUICK]
    missing = tmp_path / "missing"
    cli("fit", missing, *out).assert_refused(str(missing), "no such file")
    cli("fit", tmp_path, *out).assert_refused(str(tmp_path), "directory")
    cli("fit", train_file, *out, "--validation", missing).assert_refused(str(missing), "no such file")
    cli("fit", train_file, *out, "--config", missing).assert_refused(str(missing), "no such")
    cli("fit", train_file, *out, "--config", tmp_path).assert_refused(str(tmp_path))
    cli("fit", train_file, *out, "--vectors", missing).assert_refused(str(missing), "no such file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("word0x0 1 2\nword0x1 nan 2\n", [":2: ", "NaN"]),
        ("word0x0 1 2\nword0x1 1 inf\n", [":2: ", "NaN or infinite"]),
        ("word0x0 1 2\nword0x1 1 2 3\n", [":2: ", "expected 2"]),
        ("word0x0 1 two\n", [":1: ", "numbers"]),
        ("word0x0\n", [":1: ", "number"]),
        ("other 1 2\n", ["no vector"]),
        ("", ["no vector"]),
    ],
)
def test_bad_vectors(cli: Cli, train_file: Path, tmp_path: Path, content: str, words: list[str]) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text(content)
    outcome = cli("fit", train_file, "--out", tmp_path / "m", *QUICK, "--vectors", vectors)
    outcome.assert_refused(str(vectors), *words)
    assert list(tmp_path.iterdir()) == [vectors]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--epochs", "0"], ["epochs", "at least 1"]),
        (["--epochs", "three"], ["--epochs", "'three'"]),
        (["--epochs", "1.5"], ["--epochs", "'1.5'"]),
        (["--learning-rate", "nan"], ["learning_rate"]),
        (["--word-dropout", "2"], ["word_dropout", "0.95"]),
        (["--random-state", "-1"], ["random_state"]),
        (["--random-state", "1" * 400], ["random_state"]),
        (["--mlp-sizes", "8,x"], ["--mlp-sizes", "'8,x'"]),
        (["--mlp-sizes", "8,0"], ["mlp_sizes"]),
        (["--level-sizes", "3"], ["powers of two"]),
        (["--level-sizes", "1024"], ["number of labels"]),
        (["--group-size", "1"], ["group_size"]),
        (["--device", "abacus"], ["device", "abacus"]),
        (["--label-separator", ""], ["label_separator"]),
    ],
)
def test_bad_setting_values(cli: Cli, train_file: Path, tmp_path: Path, flags: list[str], words: list[str]) -> None:
    cli("fit", train_file, "--out", tmp_path / "m", *QUICK, *flags).assert_refused(*words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"epochs = ", ["not a TOML file"]),
        (b"epochs = 3\nepochs = 4\n", ["not a TOML file"]),
        (b"epochs = '\xe9'", ["not a TOML file"]),
        (b"epoch = 3", ["epoch: ", "no such setting"]),
        (b"[training]\nepochs = 3", ["training: ", "no such setting"]),
        (b"epochs = 'three'", ["epochs", "integer", "'three'"]),
        (b"epochs = 1.5", ["epochs", "integer"]),
        (b"own_outputs = 1", ["own_outputs", "true or false"]),
        (b"mlp_sizes = 8", ["mlp_sizes", "list"]),
        (b"learning_rate = inf", ["learning_rate", "number"]),
        (b"random_state = 1" + b"0" * 400, ["random_state"]),
    ],
)
def test_bad_configuration(cli: Cli, train_file: Path, tmp_path: Path, content: bytes, words: list[str]) -> None:
    config = tmp_path / "settings.toml"
    config.write_bytes(content)
    outcome = cli("fit", train_file, "--out", tmp_path / "m", "--config", config, "--quiet")
    outcome.assert_refused(str(config), *words)


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make training a mistake of ours."""

    def fail(*arguments: object) -> None:
        raise AssertionError("training has begun")

    monkeypatch.setattr("haxmlnet.models.evidence_model.train_fused_tree", fail)


@pytest.mark.usefixtures("no_training")
def test_places_where_no_model_can_be_written(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "photo.jpg").write_text("mine")
    cli("fit", train_file, "--out", file, *QUICK).assert_refused(str(file), "not overwritten")
    cli("fit", train_file, "--out", folder, *QUICK).assert_refused(str(folder), "not overwritten")
    cli("fit", train_file, "--out", file / "m", *QUICK).assert_refused("notes.txt", "cannot be written")
    assert file_contents(folder) == {"photo.jpg": b"mine"}
    assert sorted(tmp_path.iterdir()) == [folder, file]


@pytest.mark.usefixtures("no_training")
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_parent_without_permission(cli: Cli, train_file: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        cli("fit", train_file, "--out", tmp_path / "m", *QUICK).assert_refused("cannot be written")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.usefixtures("no_training")
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a place where even root cannot write")
def test_parent_where_nobody_can_write(cli: Cli, train_file: Path) -> None:
    cli("fit", train_file, "--out", "/proc/model", *QUICK).assert_refused("/proc/model", "cannot be written")
