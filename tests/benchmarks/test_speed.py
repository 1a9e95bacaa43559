"""The speed benchmark computes what it says, and its command gives a table and one line of JSON."""

import gzip
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from benchmarks.inputs import write_documents, write_features
from benchmarks.speed import __main__ as speed
from benchmarks.speed import many_documents, neural_peer, one_document, training
from benchmarks.speed.documents import first_documents, part_of
from benchmarks.speed.flops import FORWARD_AND_BACKWARD, HeadCall, count_operations, record_calls
from benchmarks.speed.metrics import make_ranking
from benchmarks.speed.models import SMALL, texts_of_length
from benchmarks.speed.row import Row, Run, Unavailable, at_least, at_most, median_seconds, run_command
from benchmarks.speed.tree import in_group_cosine
from benchmarks.synthetic import Statistics, SyntheticData
from benchmarks.synthetic_text import made_up_words
from torch.utils.flop_counter import FlopCounterMode

from haxmlnet import LinearTree, prepare
from haxmlnet.data import Document
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork


def test_in_group_cosine_is_the_mean_of_the_cosines_with_the_centres():
    rng = np.random.default_rng(0)
    rows = rng.random((40, 12)) * (rng.random((40, 12)) < 0.5) + 0.01
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    groups = rng.permutation(np.arange(40) % 6).astype(np.int32)
    cosines = []
    for row, group in zip(rows, groups, strict=True):
        centre = rows[groups == group].mean(axis=0)
        cosines.append(row @ centre / np.linalg.norm(centre))
    assert in_group_cosine(sp.csr_array(rows), groups) == pytest.approx(np.mean(cosines))


def test_a_make_ranking_has_each_label_once_and_some_true_ones():
    rng = np.random.default_rng(0)
    truth = sp.csr_array((rng.random((300, 50)) < 0.1).astype(np.float32))
    ids = make_ranking(truth, rng)
    assert ids.shape == (300, 5)
    assert all(len(set(row)) == 5 for row in ids.tolist())
    assert ids.min() >= 0
    assert ids.max() < 50
    true = truth.toarray()[np.arange(300)[:, None], ids]
    assert 0.2 < true.mean() < 0.6


def test_limits_decide_what_is_reached():
    assert at_most("a", 1.0, "s", 1.0, {}).reached
    assert not at_most("a", 1.01, "s", 1.0, {}).reached
    assert at_least("a", 0.5, "", 0.5, {}).reached
    assert not at_least("a", 0.49, "", 0.5, {}).reached


def test_the_median_counts():
    seconds, times = median_seconds(lambda: None, 3)
    assert seconds == sorted(times)[1]


def test_a_command_that_fails_is_named_with_its_last_line():
    with pytest.raises(Unavailable, match="ended with 3: the reason"):
        run_command(["sh", "-c", "echo first >&2; echo the reason >&2; exit 3"])


@pytest.fixture
def planted(monkeypatch):
    def fast(run):
        """Is fast."""
        yield Row("fast: a", 0.5, "s", "<= 1", True)
        yield Row("fast: b", 7.0, "x", details={"work": run.work.name})

    def slow(run):
        """Is slow."""
        yield Row("slow", 2.0, "s", "<= 1", False)

    def missing(run):
        """Is not there."""
        raise Unavailable("there is no peer. Run 'make bench-peers'.")
        yield

    monkeypatch.setattr(speed, "ROWS", {"fast": fast, "slow": slow, "missing": missing})


def run_main(capsys, *arguments):
    code = speed.main(list(arguments))
    lines = capsys.readouterr().out.strip().splitlines()
    return code, lines, json.loads(lines[-1])


def test_all_rows_are_measured_and_one_that_is_not_reached_fails(planted, capsys, tmp_path):
    code, lines, found = run_main(capsys, "--work", str(tmp_path))
    assert code == 1
    assert found["reached"] is False
    assert [row["what"] for row in found["rows"]] == [
        "fast: a", "fast: b", "slow", "missing: there is no peer. Run 'make bench-peers'.",
    ]  # fmt: skip
    assert "NOT REACHED" in next(line for line in lines if line.startswith("slow"))
    assert found["rows"][1]["details"]["work"] == tmp_path.name
    assert 0 <= found["rows"][0]["details"]["others_share"] <= 1.5


def test_rows_can_be_chosen(planted, capsys, tmp_path):
    code, _, found = run_main(capsys, "fast", "fast", "--work", str(tmp_path))
    assert code == 0
    assert found["reached"] is True
    assert len(found["rows"]) == 2


def test_a_row_that_does_not_exist_is_refused(planted, capsys):
    with pytest.raises(SystemExit):
        speed.main(["fats"])
    assert "there is no row 'fats'; the rows are fast, slow, missing" in capsys.readouterr().err


def test_help_names_every_row(capsys):
    with pytest.raises(SystemExit):
        speed.main(["--help"])
    text = capsys.readouterr().out
    for name, function in speed.ROWS.items():
        assert f"  {name:<16}{function.__doc__}" in text


def test_the_row_of_the_metrics_works_at_a_small_size(tmp_path):
    (row,) = speed.ROWS["metrics"](Run(tmp_path, scale=0.002, rounds=1))
    assert row.reached
    assert row.details["documents"] == 306
    assert row.details["metrics"] == 14


def tiny_network(word_size=10, hidden_size=8, mlp_sizes=(6, 5), own_outputs=True):
    torch.manual_seed(0)
    encoder = BiLSTMEncoder(torch.randn(50, word_size), hidden_size, 0.0, 0.0, True, False)
    heads = [LabelHead(encoder.state_size, n_nodes, mlp_sizes, own_outputs, False) for n_nodes in (16, 40)]
    return LabelAttentionNetwork(encoder, heads)


def run_network(network, tokens, lengths, candidates):
    states = network.encode(tokens, lengths)
    return network.head(0)(states, lengths, None).sum() + network.head(1)(states, lengths, candidates).sum()


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_operations_are_those_that_torch_counts():
    network, tokens, lengths = tiny_network(), torch.randint(1, 50, (4, 7)), torch.full((4,), 7)
    candidates = torch.stack([torch.randperm(40)[:12] for _ in range(4)])
    # Torch sees the matmuls of an LSTM only where oneDNN does not take all of it.
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        with record_calls() as calls:
            result = run_network(network, tokens, lengths, candidates)
        forward = counter.get_total_flops()
        result.backward()
    own_outputs = 2 * 4 * (16 + 12) * 5  # elementwise products, which torch does not count
    first_states = 2 * 2 * 4 * (4 * 8) * 8  # with the zeros before the first word, which we do not count
    needed = count_operations(calls).total - own_outputs
    assert forward == needed + first_states
    # These zeros need no gradient, but torch computes what they add to that of the weights.
    assert counter.get_total_flops() == FORWARD_AND_BACKWARD * needed + 2 * first_states


def test_padding_and_absent_candidates_are_no_useful_operations():
    network = tiny_network()
    with record_calls() as calls:
        run_network(network, torch.ones(1, 9, dtype=torch.int64), torch.tensor([4]), torch.tensor([[3, 8, 5, -1, -1]]))
    with record_calls() as plain:
        run_network(network, torch.ones(1, 4, dtype=torch.int64), torch.tensor([4]), torch.tensor([[3, 8, 5]]))
    assert count_operations(calls) == count_operations(plain)


def test_the_first_layer_counts_where_it_needs_less():
    # One node and many words: first the weighted sum (2 x 10 x 4 a side), then the layer (2 x 4 x 3).
    few_nodes = HeadCall(torch.tensor([10]), None, 1, 4, [3], own_outputs=False).count()
    assert (few_nodes.attention, few_nodes.layers) == (2 * 10 * 4 + 2 * 10 * 4, 2 * 4 * 3 + 2 * 3)
    # Many nodes: the layer of each word first (2 x 10 x 4 x 3), then sums that are three wide.
    many_nodes = HeadCall(torch.tensor([10]), None, 100, 4, [3], own_outputs=False).count()
    assert (many_nodes.attention, many_nodes.layers) == (2 * 1000 * (4 + 3), 2 * 10 * 4 * 3 + 2 * 100 * 3)


@pytest.fixture
def data(tmp_path):
    """A data set of the bench's names with forty labels."""
    sources = SyntheticData(Statistics(60, 20, 200, 40, 3.0, 20.0, 20.0), 0)
    for name in ("eurlex57k", "cve_products"):
        (tmp_path / "data" / name).mkdir(parents=True)
        for split in ("train", "test"):
            sources.write(split, tmp_path / "data" / name / f"{split}.jsonl")
    return tmp_path / "data"


def test_steps_of_the_real_training_are_measured(data, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "SIZE", 64)
    prepare(data / "eurlex57k" / "train.jsonl", tmp_path / "corpus")
    figures = training.measure(tmp_path / "corpus", {"word_size": 12, "hidden_size": 8}, 0.01, 1, 0)
    assert figures["steps"] == training.MIN_STEPS
    assert figures["level_sizes"] == [2, 40]
    assert 0 < figures["documents_per_step"] <= 32
    seconds = figures["seconds_per_step"]
    assert figures["useful_gigaflop_per_step"] == pytest.approx(figures["useful_gigaflops_per_second"] * seconds)
    expected = figures["useful_gigaflops_per_second"] / max(figures["peak_gigaflops_per_second"])
    assert figures["share"] == pytest.approx(expected)
    assert sum(figures["parts"].values()) == pytest.approx(1)


def test_the_clock_leaves_the_first_steps_out():
    clock = training.StepClock(lambda: 0, 10)
    clock.ends = [(0.0, 0), (5.0, 2), (6.0, 4), (8.0, 6)]
    assert clock.after(1) == ([1.0, 2.0], slice(2, 6))
    assert clock.after(100) == ([2.0], slice(4, 6))


def test_every_document_has_as_many_candidates_as_the_peer_takes(data, tmp_path, monkeypatch):
    for name, value in {"GROUP_SIZE": 4, "BEAM": 3}.items():
        monkeypatch.setattr(neural_peer, name, value)
    run = Run(tmp_path, data=data)
    train, judged = (first_documents(run, "eurlex57k", split, 20) for split in ("train", "test"))
    neural_peer.write_inputs(tmp_path, train, judged, 0)
    with record_calls() as calls:
        figures = neural_peer.measure_variants(tmp_path, 1, 0)
    n_labels = len({label for document in train for label in document.labels})
    assert figures["labels"] == n_labels
    # The peer halves the labels until no cluster has more than four, and takes three clusters of the largest size.
    assert figures["groups"] / 2 * 4 < n_labels <= figures["groups"] * 4
    assert figures["candidates"] == 3 * math.ceil(n_labels / figures["groups"]) < n_labels
    # The candidates of a prediction are inference tensors.
    given = [call for call in calls if isinstance(call, HeadCall) and call.candidates is not None]
    trained = [call for call in given if not call.candidates.is_inference()]
    assert {int(count) for call in trained for count in call.n_scored()} == {figures["candidates"]}
    assert all(rate > 0 for name in neural_peer.VARIANTS for rate in figures[name].values())


def stand_in_for_the_peer(path: Path, ending: str) -> Path:
    """Write a program that answers as the peer does: it took 4 s for 8 documents, and predicts in 1, 2, 3 s."""
    path.write_text(
        f"""#!{sys.executable}
import itertools, sys
print("a word of the library's own")
print('{{"training_seconds": [3.0, 1.0], "trained": 8, "predicted": 5}}', flush=True)
{ending}
for seconds, _ in zip(itertools.count(1), sys.stdin):
    print('{{"prediction_seconds": %d}}' % seconds, flush=True)
"""
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("ending", ["", "sys.exit('out of luck')"], ids=["answers", "fails"])
def test_the_peer_predicts_in_turn_or_is_unavailable(ending, dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(neural_peer, "dtype_of", lambda precision: dtype)
    peer = stand_in_for_the_peer(tmp_path / "peer", ending)
    monkeypatch.setattr(neural_peer, "NEURAL_PEERS_PYTHON", peer)
    monkeypatch.setattr(neural_peer, "prepare_ours", lambda *_: (None, [], {}))
    monkeypatch.setattr(neural_peer, "train_ours", lambda *_: (10.0, lambda: 0.5))
    figures = neural_peer.compare(tmp_path, tmp_path / "task.json", 1, 0, rounds=3)
    if ending:
        assert figures == {"unavailable": "LibMultiLabel ended with 1: out of luck"}
        return
    assert ("float32" in figures) is (dtype == "bfloat16")
    for compared in (figures, figures.get("float32", figures)):
        assert compared["training_ratio"] == pytest.approx(10.0 / 2.0)
        assert compared["prediction_ratio"] == pytest.approx(4.0)
        assert compared["seconds_of_predictions"] == [(0.5, 1.0), (0.5, 2.0), (0.5, 3.0)]


def test_word_vectors_of_both_sides_are_those_of_the_commonest_words(tmp_path):
    documents = [Document("1", "Word word, other", ("a",)), Document("2", "word", ("b",))]
    neural_peer.write_inputs(tmp_path, documents, documents, 0)
    with gzip.open(tmp_path / "vectors.txt.gz", "rt") as file:
        lines = [line.split() for line in file]
    assert [line[0] for line in lines] == ["word", "other"]
    assert {len(line) for line in lines} == {1 + neural_peer.WORD_SIZE}
    assert json.loads((tmp_path / "labels.json").read_text()) == ["a", "b"]


@pytest.mark.parametrize("name", ["training", "neural_peer", "many_documents"])
def test_a_row_without_its_data_set_says_so(name, tmp_path):
    with pytest.raises(Unavailable, match="no such data set"):
        list(speed.ROWS[name](Run(tmp_path, data=tmp_path / "nothing")))


@pytest.mark.parametrize(("module", "python"), [(neural_peer, "NEURAL_PEERS_PYTHON"), (many_documents, "PEERS_PYTHON")])
def test_a_row_without_its_peer_says_so(module, python, data, tmp_path, monkeypatch):
    monkeypatch.setattr(module, python, tmp_path / ".venv-of-peers/bin/python")
    row = speed.ROWS[module.__name__.rpartition(".")[2]]
    with pytest.raises(Unavailable, match=r"no environment \.venv-of-peers\. Run 'make bench-peers'"):
        list(row(Run(tmp_path, data=data)))


def test_a_part_of_a_data_set_is_spread_over_all_of_it(data, tmp_path):
    assert part_of(Run(tmp_path, data=data), "cve_products") == data / "cve_products"
    part = part_of(Run(tmp_path, data=data, scale=0.25), "cve_products")
    ids = [json.loads(line)["id"] for line in (part / "train.jsonl").read_text().splitlines()]
    all_ids = [json.loads(line)["id"] for line in (data / "cve_products/train.jsonl").read_text().splitlines()]
    assert ids == all_ids[3::4]
    assert len((part / "test.jsonl").read_text().splitlines()) == 5


def test_texts_have_the_length_asked_for_and_words_of_the_vocabulary(tmp_path):
    statistics = Statistics(50, 10, 300, 20, 2.0, 10.0, 10.0)
    texts = texts_of_length(statistics, 0, 30, 40, tmp_path / "texts.jsonl")
    assert 20 < len(texts) <= 30
    assert {len(text.split()) for text in texts} == {40}
    words = re.findall(r"\w+", " ".join(texts).lower())
    assert set(words) <= set(made_up_words(300)) | {word for word in words if word.isdigit()}
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def linear_tree(data, tmp_path):
    documents = [json.loads(line) for line in (data / "cve_products/train.jsonl").read_text().splitlines()]
    LinearTree().fit([d["text"] for d in documents], [d["labels"] for d in documents]).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_saved_model_is_timed_on_one_and_on_many_documents(linear_tree, data):
    one = one_document.predict_one_by_one(linear_tree, ["some words"] * (one_document.WARM_UP + 5), 1)
    assert one["texts"] == 5
    assert 0 < one["median_ms"] <= one["slowest_ms"]
    assert one["labels"] == 40
    many = many_documents.predict_all(linear_tree, data / "cve_products/test.jsonl", 1)
    assert many["documents"] == 20
    assert many["seconds"] > 0


def test_a_tree_alone_is_trained_on_the_features_of_the_bench_and_timed_on_them(data, tmp_path):
    inputs, model = tmp_path / "inputs", tmp_path / "tree"
    write_documents(data / "cve_products", "test", inputs)
    write_features(inputs)
    many_documents._train_on_features(inputs, 1, 0, model)
    figures = many_documents.predict_features(model, inputs / "judged.jsonl", 1)
    assert figures["documents"] == 20
    assert figures["seconds"] > 0


def test_the_large_model_may_take_twice_as_long_as_the_small_one(tmp_path, monkeypatch):
    def measured(run, method, size):
        ms = 8.0 if size is SMALL else 17.0
        figures = {"labels": size.statistics.n_labels, "texts": 1, "has_linear_part": True}
        return {"median_ms": ms, "slowest_ms": 2 * ms, **figures}

    monkeypatch.setattr(one_document, "_measure", measured)
    rows = [row for row in one_document.one_document(Run(tmp_path)) if row.reached is not None]
    assert [(row.value, row.target, row.reached) for row in rows] == [(8.0, "<= 10", True), (17.0, "<= 16", False)]


def test_the_median_of_the_ratios_of_rounds_counts(tmp_path, monkeypatch):
    own, peer = iter([1.0, 2.0, 4.0]), iter([2.0, 2.0, 2.0])
    monkeypatch.setattr(many_documents, "run_alone", lambda *_: {"seconds": next(own), "documents": 100})
    monkeypatch.setattr(many_documents, "run_command", lambda _: json.dumps({"seconds": next(peer)}))
    run, predict = Run(tmp_path, rounds=3), many_documents.predict_all
    given = many_documents.Peer(tmp_path / "task.json", tmp_path, tfidf_ms=20.0)
    row = many_documents.compare(run, "ours", predict, tmp_path, given)
    assert (row.value, row.reached) == (1.0, True)
    assert row.details["ratio_with_tfidf"] == 2.0
    assert row.details["documents_per_second"] == 50.0
