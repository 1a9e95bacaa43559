"""The benchmark of the whole way asks for the sizes it was given."""

import json

import pytest
from benchmarks.scale import main, print_stage, statistics_of
from benchmarks.scale_stages import build_tree, prepare_corpus, write_text
from benchmarks.synthetic import SyntheticData

from benchmarks import scale


def test_all_labels_fit_on_few_documents():
    statistics = statistics_of(labels=900, documents=100, words=500, length=30, judged=10)
    targets = SyntheticData(statistics).labels("train")
    assert targets.shape == (100, 900)
    assert len(set(targets.indices.tolist())) == 900
    assert statistics_of(100, 1000, 500, 30, 10).labels_per_document == pytest.approx(5.45)


def test_stages_up_to_the_tree_leave_what_the_next_needs(tmp_path):
    text, judged, corpus = (tmp_path / name for name in ("train.jsonl", "test.jsonl", "corpus"))
    write_text(statistics_of(600, 400, 800, 30, 20), 0, text, judged)
    assert len(judged.read_text().splitlines()) == 20
    prepared = prepare_corpus(text, corpus)
    assert (prepared["documents"], prepared["labels"]) == (400, 600)
    figures = build_tree(corpus, 0)
    assert figures["level_sizes"] == [8, 600]
    assert set(figures["seconds"]) == {"TF-IDF", "label features", "tree"}


@pytest.mark.parametrize(("own_bytes", "code"), [(1e9, 0), (25e9, 1)])
def test_the_command_prints_each_stage_and_fails_beyond_the_memory(monkeypatch, capsys, tmp_path, own_bytes, code):
    figures = {"seconds": {"a": 1.0, "b": 2.5}, "peak_bytes": 3e9, "peak_anonymous_bytes": own_bytes}
    monkeypatch.setattr(scale, "run_alone", lambda part, *arguments: figures)
    assert main(["--labels", "50", "--folder", str(tmp_path)]) == code
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        "text",
        "prepare",
        "tree",
        "train",
        "load,",
    ]
    found = json.loads(last)
    assert found["labels"] == 50
    assert found["holds"] is (code == 0)
    assert list(tmp_path.iterdir()) == []


def test_a_stage_takes_as_long_as_its_parts(capsys):
    print_stage("x", {"seconds": {"a": 1.0, "b": 2.5}, "peak_bytes": 3e9, "peak_anonymous_bytes": 1e9})
    assert capsys.readouterr().out.splitlines()[0].split() == ["x", "3.5", "3.00", "1.00"]
