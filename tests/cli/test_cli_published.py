"""One command from the download of a published data set to a model, on small files of exactly its form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from commands import LABELS, SMALL, documents

# The presets have levels for their hundreds of thousands of labels, and networks for a GPU.
SMALLER = [*SMALL, "--level-sizes", "2,4", "--n-trees", "1", "--epochs", "1", "--max-length", "50", "--quiet"]


def write_gzip(path: Path, lines: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)


def repository_lines(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "uid": row["id"], "title": row["text"].split()[0], "content": row["text"],
            "target_ind": [LABELS.index(label) for label in row["labels"]], "target_rel": [1.0] * len(row["labels"]),
        }
        for row in rows
    ]  # fmt: skip


@pytest.fixture
def raw_text_directory(tmp_path: Path) -> Path:
    """LF-Amazon-670K and Wiki-500K as the Extreme Classification Repository has them."""
    directory = tmp_path / "raw"
    directory.mkdir()
    rows = documents()
    write_gzip(directory / "trn.json.gz", repository_lines(rows))
    write_gzip(directory / "tst.json.gz", repository_lines(rows[:10]))
    write_gzip(directory / "lbl.json.gz", [{"uid": str(i), "title": name} for i, name in enumerate(LABELS)])
    return directory


@pytest.fixture
def parallel_directory(tmp_path: Path) -> Path:
    """Amazon-670K and Wiki-500K as AttentionXML has them."""
    directory = tmp_path / "parallel"
    directory.mkdir()
    for split, rows in (("train", documents()), ("test", documents()[:10])):
        (directory / f"{split}_raw_texts.txt").write_text("".join(row["text"] + "\n" for row in rows))
        labels = [" ".join(str(LABELS.index(label)) for label in row["labels"]) for row in rows]
        (directory / f"{split}_labels.txt").write_text("".join(line + "\n" for line in labels))
    return directory


@pytest.mark.parametrize("preset", ["amazon-670k", "wiki-500k"])
@pytest.mark.parametrize("form", ["raw_text_directory", "parallel_directory"])
def test_a_directory_and_a_preset_are_all_it_takes(cli, request, tmp_path, form, preset):
    directory = request.getfixturevalue(form)
    fit = cli("fit", directory, "--preset", preset, "--out", tmp_path / "m", *SMALLER)
    assert fit.code == 0, fit.err
    report = cli("evaluate", tmp_path / "m", directory, "--json", "--propensity-a", 0.6, "--propensity-b", 2.6)
    assert report.objects[0]["n_documents"] == 10
    settings = json.loads((tmp_path / "m" / "model.json").read_text())["training"]["settings"]
    assert (settings["batch_size"], settings["linear"], settings["attend_words"]) == (16, False, False)
    expected = LABELS if form == "raw_text_directory" else [str(i) for i in range(len(LABELS))]
    assert sorted((tmp_path / "m" / "labels.txt").read_text().splitlines()) == sorted(expected)


def test_too_few_labels_for_the_levels_of_a_preset_are_told(cli, raw_text_directory, tmp_path):
    refused = cli("fit", raw_text_directory, "--preset", "amazon-670k", "--out", tmp_path / "m", "--quiet")
    refused.assert_refused("level sizes must not exceed the number of labels, 12")
