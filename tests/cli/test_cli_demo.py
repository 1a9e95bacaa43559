"""`haxmlnet demo`, on the first of the bundled documents, shortened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import Cli

from haxmlnet import bundled
from haxmlnet.data import Corpus
from haxmlnet.settings import resolve_settings


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    read = bundled.cve_small

    def first(split: str) -> Corpus:
        n_documents = 80 if split == "train" else 10
        corpus = read(split)
        texts = [" ".join(text.split()[:12]) for text in corpus.texts[:n_documents]]
        return Corpus(corpus.ids[:n_documents], texts, corpus.labels[:n_documents], corpus.source)

    def quick(*arguments: Any) -> dict[str, Any]:
        return {**resolve_settings(*arguments), "epochs": 2, "hidden_size": 8, "word_size": 8, "n_jobs": 1}

    monkeypatch.setattr(bundled, "cve_small", first)
    monkeypatch.setattr("haxmlnet.models.haxmlnet.resolve_settings", quick)


@pytest.mark.usefixtures("small_demo")
def test_compares_both_methods_and_labels_three_documents(cli: Cli, tmp_path: Path) -> None:
    outcome = cli("demo", "--out", tmp_path / "model")
    assert outcome.code == 0
    assert "80 vulnerability reports to train on, 10 to test on" in outcome.err
    for word in ("HAXMLNet", "OneVsRestSVM", " P@1 ", "nDCG@5", "PSP@5"):
        assert outcome.out.count(word) == 1
    assert outcome.out.count("predicted label") == 3
    assert cli("inspect", tmp_path / "model", "--json").objects[0]["method"] == "HAXMLNet"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_refuses_to_overwrite_before_training(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    cli("demo", "--out", tmp_path).assert_refused(str(tmp_path), "not overwritten")
