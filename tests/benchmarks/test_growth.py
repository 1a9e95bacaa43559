"""The benchmark of growth times steps and predictions at each number of labels, and draws them."""

import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from benchmarks.growth import divide_by_documents, draw_growth, main, round_numbers, statistics_of, total_steps
from benchmarks.speed.flops import EncoderCall, HeadCall
from benchmarks.speed.models import fewest_documents
from benchmarks.speed.training import WARM_UP
from benchmarks.synthetic import SyntheticData

from benchmarks import growth
from haxmlnet.data.tokens import similar_length_batches

SVG = "{http://www.w3.org/2000/svg}"


def row(n_labels, training_ms=8.0, batch_ms=0.5):
    return {
        "labels": n_labels, "levels": "16 > 256", "documents": 1200, "nodes_scored": 400.4, "training_ms": training_ms,
        "batch_ms": batch_ms, "single_ms": 5.0, "peak_gigabytes": 1.0,
    }  # fmt: skip


def test_the_figure_has_a_point_of_each_line_for_each_size_in_order():
    rows = [row(4_000, 8.0, 0.5), row(40_000, 16.0, 0.7), row(400_000, 32.0, 1.5)]
    root = ElementTree.fromstring(draw_growth(rows))
    circles = [(float(circle.get("cx")), float(circle.get("cy"))) for circle in root.iter(f"{SVG}circle")]
    training, prediction = circles[:3], circles[3:]
    assert len(training) == len(prediction) == 3
    assert [x for x, _ in training] == [x for x, _ in prediction] == sorted(x for x, _ in training)
    # Time grows upwards, and training takes longer.
    assert [y for _, y in training] == sorted((y for _, y in training), reverse=True)
    assert all(above < below for (_, above), (_, below) in zip(training, prediction, strict=True))
    # Both axes are logarithmic: a factor has one length.
    (x0, y0), (x1, y1), (x2, y2) = training
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y1 - y0 == pytest.approx(y2 - y1, abs=0.2)
    assert all(80 <= x <= 730 and 50 <= y <= 400 for x, y in circles)


def test_one_size_can_be_drawn():
    assert draw_growth([row(1_000, 1.0, 1.0)]).count("<circle") == 2


def test_axes_go_from_a_round_number_to_a_round_number():
    assert round_numbers(4_000, 670_000) == [2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6]
    assert round_numbers(0.3, 0.3) == [0.2, 0.5]
    assert round_numbers(1, 1) == [1, 2]


def test_the_documents_have_all_labels_and_are_enough_for_the_steps_of_one_pass():
    for n_labels, steps in ((2_000, 30), (9_000, 1)):
        statistics = statistics_of(n_labels, steps)
        assert len(set(SyntheticData(statistics).labels("train").indices.tolist())) == n_labels
        n_kept = statistics.n_train - round(0.05 * statistics.n_train)
        batches = similar_length_batches(np.full(n_kept, 50), growth.BATCH_SIZE, np.random.default_rng(0))
        assert len(batches) >= total_steps(steps) > WARM_UP + steps
    assert statistics_of(1_000_000, 1).n_train == fewest_documents(1_000_000, 5.0) == 240_000


def test_time_and_scored_nodes_are_divided_by_the_documents_of_the_steps():
    lengths = torch.tensor([5, 7])
    candidates = torch.tensor([[1, 2, 3], [4, 4, 4]])  # the second document has one, repeated
    calls = [
        EncoderCall(lengths, word_size=3, hidden_size=2),
        HeadCall(lengths, None, 16, 7, [4], True),
        HeadCall(lengths, candidates, 40, 7, [4], True),
    ]
    figures = divide_by_documents(calls + calls, [0.5, 1.5])
    assert figures["training_ms"] == pytest.approx(2000 / 4)
    assert figures["nodes_scored"] == pytest.approx(16 + 2)
    assert figures["words"] == pytest.approx(6)


def test_two_sizes_are_measured_and_drawn(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(growth, "MIN_DOCUMENTS_OF_BATCH", 1)
    monkeypatch.setattr(growth, "BATCH_SIZE", 16)
    monkeypatch.setattr(growth, "DIFFERENT_WORDS", 400)
    monkeypatch.setattr(growth.one_document, "WARM_UP", 1)
    monkeypatch.setattr(growth, "run_alone", lambda part, *rest: {**part(*rest), "peak_anonymous_bytes": 2e9})
    figure = tmp_path / "figures" / "growth.svg"
    command = ["--steps", "2", "--documents-predicted", "12", "--threads", "1", "--figure", str(figure)]
    assert main(["--labels", "150", "40", *command, "--folder", str(tmp_path)]) == 0
    title, *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["40", "150"]
    assert len(title) == len(lines[0])
    rows = json.loads(last)["rows"]
    assert [(found["labels"], found["levels"]) for found in rows] == [(40, "2"), (150, "8")]
    for found in rows:
        assert found["details"]["training"]["documents_timed"] == 2 * 16
        assert len(found["details"]["training"]["step_seconds"]) == 2
        assert 8 <= found["details"]["single"]["texts"] == found["details"]["batch"]["texts"] <= 12
        assert 45 < found["details"]["training"]["words"] <= growth.WORDS
        assert 0 < found["nodes_scored"] <= found["labels"] + 8
        assert min(found["training_ms"], found["batch_ms"], found["single_ms"]) > 0
    assert ElementTree.fromstring(figure.read_text()).tag == f"{SVG}svg"
    assert figure.read_text().count("<circle") == 4
    assert [file.name for file in tmp_path.iterdir()] == ["figures"]
