"""Other methods than HAXMLNet, and files of sparse features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from haxmlnet.models import METHODS, load_model

LINEAR = ["LinearTree", "OneVsRestSVM"]


def write_sparse(path: Path, n_documents: int, seed: int) -> Path:
    """Write documents of two labels of 12 each, and for each label the feature of its number."""
    rng = np.random.default_rng(seed)
    rows = [sorted(rng.choice(12, 2, replace=False).tolist()) for _ in range(n_documents)]
    lines = [",".join(map(str, row)) + " " + " ".join(f"{label}:1.5" for label in row) + " 20:0.1" for row in rows]
    path.write_text(f"{n_documents} 30 12\n" + "".join(line + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def sparse_files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sparse")
    write_sparse(directory / "train.txt", 120, 0)
    write_sparse(directory / "test.txt", 30, 1)
    return directory


@pytest.mark.parametrize("method", LINEAR)
def test_a_linear_method_is_trained_on_texts(cli, train_file, tmp_path, method):
    assert cli("fit", train_file, "--method", method, "--out", tmp_path / "m", "--quiet").code == 0
    assert type(load_model(tmp_path / "m")) is METHODS[method]
    report = cli("evaluate", tmp_path / "m", train_file, "--json").objects[0]
    assert report["P@1"] > 95


@pytest.mark.parametrize("method", LINEAR)
def test_a_linear_method_takes_a_directory_of_sparse_features(cli, sparse_files, tmp_path, method):
    assert cli("fit", sparse_files, "--method", method, "--out", tmp_path / "m", "--quiet").code == 0
    assert cli("evaluate", tmp_path / "m", sparse_files, "--json").objects[0]["P@1"] > 95
    predicted = cli("predict", tmp_path / "m", sparse_files / "test.txt", "--k", 2).objects
    truth = [line.split(" ")[0].split(",") for line in (sparse_files / "test.txt").read_text().splitlines()[1:]]
    right = [
        sorted(entry["label"] for entry in row["labels"]) == sorted(labels)
        for row, labels in zip(predicted, truth, strict=True)
    ]
    assert np.mean(right) > 0.9


def test_networks_say_that_they_need_texts(cli, sparse_files, tmp_path):
    refused = cli("fit", sparse_files, "--out", tmp_path / "m", "--quiet")
    refused.assert_refused("train.txt", "neural methods need", "--method LinearTree")


def test_a_model_of_texts_does_not_take_features_and_the_other_way_round(
    cli, model, sparse_files, train_file, tmp_path
):
    cli("predict", model, sparse_files / "test.txt").assert_refused("features, not texts")
    assert cli("fit", sparse_files, "--method", "LinearTree", "--out", tmp_path / "m", "--quiet").code == 0
    cli("predict", tmp_path / "m", train_file).assert_refused("trained on features, got texts")


def test_settings_belong_to_a_method(cli, train_file, tmp_path):
    out = ["--out", tmp_path / "m", "--quiet"]
    cli("fit", train_file, "--method", "LinearTree", "--hidden-size", 8, *out).assert_refused(
        "--hidden-size", "LinearTree has no such setting"
    )
    cli("fit", train_file, "--C", 2, *out).assert_refused("--C", "HAXMLNet has no such setting")
    assert cli("fit", train_file, "--method", "LinearTree", "--C", 2, "--no-fusion", *out).code == 0
    settings = load_model(tmp_path / "m").get_params()
    assert (settings["C"], settings["fusion"]) == (2.0, False)


def test_a_configuration_file_is_read_for_the_method(cli, train_file, tmp_path):
    (tmp_path / "c.toml").write_text("beam = 3\nprune = 0.2\n")
    fit = ["fit", train_file, "--method", "LinearTree", "--config", tmp_path / "c.toml", "--quiet"]
    assert cli(*fit, "--out", tmp_path / "m").code == 0
    assert load_model(tmp_path / "m").get_params()["prune"] == 0.2
    (tmp_path / "c.toml").write_text("hidden_size = 3\n")
    cli(*fit, "--out", tmp_path / "n").assert_refused("hidden_size", "c.toml")


@pytest.mark.parametrize("flags", [["--preset", "paper"], ["--resume"], ["--validation", "x.jsonl"]])
def test_what_is_for_networks_alone_is_refused(cli, train_file, tmp_path, flags):
    refused = cli("fit", train_file, "--method", "LinearTree", "--out", tmp_path / "m", *flags)
    refused.assert_refused(flags[0], "is for HAXMLNet")


def test_pairs_of_a_filter_file_do_not_count(cli, sparse_files, tmp_path):
    fit = ["fit", sparse_files, "--method", "OneVsRestSVM", "--out", tmp_path / "m", "--quiet"]
    assert cli(*fit).code == 0
    test = write_sparse(tmp_path / "test.txt", 30, 1)
    first_labels = [line.split(",")[0] for line in test.read_text().splitlines()[1:]]
    pairs = "".join(f"{row} {label}\n" for row, label in enumerate(first_labels))
    (tmp_path / "filter_labels_test.txt").write_text(pairs)
    with_filter = cli("evaluate", tmp_path / "m", test, "--json")
    assert "30 pairs" in with_filter.err
    # One of two labels is left, so at most one of five can be right.
    assert with_filter.objects[0]["P@5"] == pytest.approx(20, abs=0.01)
    without = json.loads(cli("evaluate", tmp_path / "m", test, "--json", "--no-filter").out)
    assert without["P@5"] == pytest.approx(40, abs=0.01)


def test_a_filter_file_and_skipped_documents_do_not_go_together(cli, sparse_files, tmp_path):
    assert cli("fit", sparse_files, "--method", "OneVsRestSVM", "--out", tmp_path / "m", "--quiet").code == 0
    test = write_sparse(tmp_path / "test.txt", 5, 1)
    test.write_text(test.read_text().replace("20:0.1", "20:x", 1))
    (tmp_path / "filter_labels_test.txt").write_text("1 1\n")
    cli("evaluate", tmp_path / "m", test, "--on-error", "skip").assert_refused("filter_labels_test.txt", "--no-filter")
