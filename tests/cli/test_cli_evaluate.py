"""`haxmlnet evaluate` and `haxmlnet inspect`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import LABELS, QUICK, Cli, documents, write_jsonl

KEYS = [
    "P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5",
    "PSnDCG@1", "PSnDCG@3", "PSnDCG@5", "R@5", "RP@5", "n_documents", "seconds",
]  # fmt: skip


def measured(cli: Cli, *arguments: object) -> dict[str, Any]:
    outcome = cli("evaluate", *arguments, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    (values,) = outcome.objects
    return dict(values)


def test_json_has_every_metric_in_percent(cli: Cli, model: Path, train_file: Path) -> None:
    values = measured(cli, model, train_file)
    assert list(values) == KEYS
    assert values["n_documents"] == 60
    assert all(0 <= values[key] <= 100 for key in KEYS[:-2])
    assert values["P@1"] > 90


def test_metrics_follow_from_the_predictions(cli: Cli, model: Path, train_file: Path) -> None:
    values = measured(cli, model, train_file)
    hits = np.array([
        [scored["label"] in document["labels"] for scored in found["labels"]]
        for found, document in zip(cli("predict", model, train_file).objects, documents(), strict=True)
    ])  # fmt: skip
    for k in (1, 3, 5):
        assert values[f"P@{k}"] == pytest.approx(100 * hits[:, :k].mean(), abs=0.006)
    assert values["R@5"] == pytest.approx(100 * hits.sum(axis=1).mean() / 2, abs=0.006)


def test_tables_for_people(cli: Cli, model: Path, train_file: Path) -> None:
    outcome = cli("evaluate", model, train_file)
    assert outcome.code == 0
    for key in KEYS[:-1]:
        assert key in outcome.out
    assert "60 documents in" in outcome.err
    quiet = cli("evaluate", model, train_file, "--quiet")
    assert (quiet.out, quiet.err) == (outcome.out, "")


def test_labels_unseen_in_training_can_only_be_missed(cli: Cli, model: Path, train_file: Path, tmp_path: Path) -> None:
    with_unseen = [{**document, "labels": [*document["labels"], "unseen"]} for document in documents()]
    before = measured(cli, model, train_file)
    after = measured(cli, model, write_jsonl(tmp_path / "test.jsonl", with_unseen))
    assert after["P@5"] == before["P@5"]
    assert after["R@5"] == pytest.approx(before["R@5"] * 2 / 3, abs=0.006)
    only_unseen = write_jsonl(tmp_path / "unseen.jsonl", [{"text": "word0x0", "labels": ["a", "b"]}])
    assert measured(cli, model, only_unseen)["P@1"] == 0
    assert "unseen" in cli("evaluate", model, only_unseen).out


def test_documents_without_labels(cli: Cli, model: Path, tmp_path: Path) -> None:
    some = [*documents(3), {"text": "word0x0", "labels": []}]
    assert measured(cli, model, write_jsonl(tmp_path / "test.jsonl", some))["n_documents"] == 4
    none = write_jsonl(tmp_path / "none.jsonl", [{"text": "word0x0", "labels": []}])
    cli("evaluate", model, none).assert_refused(str(none), "label")


def test_standard_input(cli: Cli, model: Path, train_file: Path) -> None:
    values = measured(cli, model, train_file)
    outcome = cli("evaluate", model, "-", "--json", stdin=train_file.read_bytes())
    assert {**outcome.objects[0], "seconds": 0} == {**values, "seconds": 0}


def test_skipped_documents_are_counted(cli: Cli, model: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.jsonl"
    test.write_text(json.dumps(documents()[0]) + '\n{"text": "a", "labels": "b"}\n')
    cli("evaluate", model, test).assert_refused(f"{test}:2", "'labels'")
    outcome = cli("evaluate", model, test, "--json", "--on-error", "skip")
    assert outcome.objects[0]["n_documents"] == 1
    assert "skipped 1 bad document" in outcome.err


@pytest.mark.parametrize("flags", [["--propensity-a", "-2"], ["--propensity-a", "nan"], ["--propensity-b", "-1"]])
def test_impossible_propensities(cli: Cli, model: Path, train_file: Path, flags: list[str]) -> None:
    cli("evaluate", model, train_file, *flags).assert_refused("propensity", flags[1])


def test_missing_test_file(cli: Cli, model: Path, tmp_path: Path) -> None:
    cli("evaluate", model, tmp_path / "none.jsonl").assert_refused("none.jsonl", "no such file")


def test_inspect_tells_what_the_model_is_made_of(cli: Cli, model: Path) -> None:
    outcome = cli("inspect", model, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    (found,) = outcome.objects
    assert (found["method"], found["n_labels"], found["n_trees"]) == ("HAXMLNet", 12, 1)
    assert [level["nodes"] for level in found["levels"]] == [4, 12]
    assert (found["levels"][0]["fewest_children"], found["levels"][0]["most_children"]) == (3, 3)
    assert found["parameters"] == sum(level["parameters"] for level in found["levels"])
    assert found["bytes"] == sum(file.stat().st_size for file in model.iterdir())
    assert found["settings"]["hidden_size"] == 8
    assert found["training"]["n_documents"] == 60
    assert found["training"]["seconds"] >= 0


def test_inspect_for_people(cli: Cli, model: Path) -> None:
    outcome = cli("inspect", model)
    assert (outcome.code, outcome.err) == (0, "")
    for word in ("HAXMLNet", "nodes", "parameters", "bytes", "hidden_size", "n_documents"):
        assert word in outcome.out


def test_tables_show_names_as_they_are(cli: Cli, model: Path, tmp_path: Path) -> None:
    name = "a long name with :key: and [bold] " + "x" * 150
    shutil.copytree(model, tmp_path / name)
    assert f"{tmp_path / name}\n" in cli("inspect", tmp_path / name).out


def leaves(node: dict[str, Any]) -> list[str]:
    assert list(node) in (["children"], ["labels"])
    if "labels" in node:
        return list(node["labels"])
    return [label for child in node["children"] for label in leaves(child)]


def test_exported_tree_has_every_label_once(cli: Cli, model: Path, tmp_path: Path) -> None:
    file = tmp_path / "tree.json"
    assert cli("inspect", model, "--tree", file).code == 0
    tree = json.loads(file.read_text("utf-8"))
    assert sorted(leaves(tree)) == LABELS
    assert [len(group["labels"]) for group in tree["children"]] == [3, 3, 3, 3]


@pytest.mark.parametrize("flags", [["--level-sizes", "2,4"], ["--level-sizes", ""], ["--n-trees", "2"]])
def test_exported_trees_of_other_shapes(cli: Cli, train_file: Path, tmp_path: Path, flags: list[str]) -> None:
    assert cli("fit", train_file, "--out", tmp_path / "m", *QUICK, *flags).code == 0
    assert cli("inspect", tmp_path / "m", "--tree", tmp_path / "tree.json").code == 0
    tree = json.loads((tmp_path / "tree.json").read_text("utf-8"))
    for each in tree.get("trees", [tree]):
        assert sorted(leaves(each)) == LABELS


def test_tree_that_cannot_be_written(cli: Cli, model: Path, tmp_path: Path) -> None:
    cli("inspect", model, "--tree", tmp_path / "no" / "tree.json").assert_refused("tree.json")
    cli("inspect", model, "--tree", "/dev/full").assert_refused("No space left")


def test_quiet_means_the_same_for_every_command(cli: Cli, model: Path) -> None:
    assert cli("inspect", model, "--quiet").out == cli("inspect", model).out
