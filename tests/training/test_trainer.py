from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from haxmlnet.data.tokens import TokenArray
from haxmlnet.errors import HaxmlnetError, TrainingInterrupted
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.network import LabelAttentionNetwork, LabelHead
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.training import trainer as trainer_module
from haxmlnet.training.candidates import CandidateSource
from haxmlnet.training.checkpoints import Checkpoints
from haxmlnet.training.loss import TrainingData, batch_loss, document_losses
from haxmlnet.training.optimizer import Optimizer
from haxmlnet.training.trainer import Trainer, TrainingPlan, deferred_interrupt, lazy_tables, n_parts
from haxmlnet.tree import LabelTree

N_DOCUMENTS, N_LABELS = 20, 8
IDENTITY = {"settings": "{}", "data": ""}
PLAN = TrainingPlan(
    epochs=4,
    batch_size=6,
    learning_rate=0.01,
    final_learning_rate=0.1,
    warmup=0.1,
    gradient_clip=2.0,
    averaging_start=0.3,
    patience=None,
    seed=(0, 0, 1),
)
N_STEPS = 4 * 4


# The levels of a network: the first alone, the second alone, both on one encoder.
FIRST, SECOND, BOTH = range(1), range(1, 2), range(2)
TREE = LabelTree((np.arange(N_LABELS, dtype=np.int32) // 2,), N_LABELS)


def new_network(levels: range = SECOND, seed: int = 0, dropout: float = 0.3) -> LabelAttentionNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        encoder = BiLSTMEncoder(torch.randn(12, 4), 3, dropout, dropout, attend_words=True, sparse_words=True)
        heads = [
            LabelHead(encoder.state_size, TREE.level_sizes[level], (5,), own_outputs=True, sparse_nodes=level > 0)
            for level in levels
        ]
    return LabelAttentionNetwork(encoder, heads, levels[0])


def new_data(levels: range = SECOND, n_documents: int = N_DOCUMENTS, limit: int = 3) -> TrainingData:
    """A document has one to five words; its label is the remainder of its first word."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(2, 12, rng.integers(1, 6)).astype(np.int32) for _ in range(n_documents)]
    labels = np.array([document[0] % N_LABELS for document in documents])
    parts = (np.ones(n_documents, np.float32), labels, np.arange(n_documents + 1))
    targets = TREE.lift(sp.csr_array(parts, shape=(n_documents, N_LABELS)))
    ids = rng.integers(0, 4, (n_documents, 1)).astype(np.int32)
    predicted = None if 0 in levels else Ranking(ids, np.ones(ids.shape, np.float32))
    sources = [CandidateSource(targets[1], targets[0], TREE, 1, limit) if level else None for level in levels]
    tokens = TokenArray.from_lists(documents)
    return TrainingData(tokens, [targets[level] for level in levels], sources, predicted, hard_negatives=1)


def weight_score(network: LabelAttentionNetwork) -> float:
    """A validation that depends on every weight, and does not always get better."""
    total = sum(float(value.double().sum()) for value in network.state_dict().values())
    return 50 + 50 * math.sin(100 * total)


def weights_of(network: LabelAttentionNetwork) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def trained(plan: TrainingPlan, levels: range = SECOND, validated: bool = True) -> tuple[dict[str, Tensor], float]:
    network = new_network(levels)
    validate = (lambda: weight_score(network)) if validated else None
    score = Trainer(network, new_data(levels), plan, validate, "part").run()
    return weights_of(network), score


@pytest.fixture
def two_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Split every batch of six documents into two parts, in two threads."""
    monkeypatch.setattr(trainer_module, "LEAST_PART", 3)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


class Interrupting(Progress):
    """Does something after so many batches."""

    def __init__(self, after: int, act: Callable[[], object]) -> None:
        self.left, self.act = after, act

    @contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
        yield self.advance

    def advance(self, n: int, note: str = "") -> None:
        if note:
            self.left -= 1
            if self.left == 0:
                self.act()


def crash() -> None:
    raise RuntimeError("power failure")


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def interrupted_and_resumed(
    directory: Path, plan: TrainingPlan, levels: range, stops: list[int], act: Callable[[], object], validated: bool
) -> tuple[dict[str, Tensor], float]:
    expected = RuntimeError if act is crash else TrainingInterrupted
    for attempt, stop in enumerate([*stops, None]):
        # Every attempt starts with another network: what counts comes from the checkpoint.
        network = new_network(levels, seed=attempt)
        progress = Progress() if stop is None else Interrupting(stop, act)
        checkpoints = Checkpoints.start(directory, IDENTITY, 0, resume=attempt > 0)
        validate = (lambda network=network: weight_score(network)) if validated else None
        trainer = Trainer(network, new_data(levels), plan, validate, "part", progress, checkpoints)
        if stop is not None:
            with pytest.raises(expected):
                trainer.run()
    score = trainer.run()
    return weights_of(network), score


@pytest.mark.parametrize(
    ("levels", "changes", "validated"),
    [
        (BOTH, {}, True),
        (BOTH, {}, False),
        (BOTH, {"averaging_start": 1.0, "patience": 2}, True),
        (FIRST, {"averaging_start": 1.0}, False),
        (SECOND, {}, True),
        (SECOND, {"gradient_clip": 0.0}, False),
    ],
    ids=["both", "both, not validated", "both, patience", "first, no averaging", "second", "second, no clipping"],
)
@pytest.mark.parametrize(("act", "stops"), [(crash, [3, 6]), (press_ctrl_c, [1, 4, 5])], ids=["crash", "ctrl-c"])
def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path, act, stops, levels, changes, validated):
    plan = replace(PLAN, **changes)
    expected, expected_score = trained(plan, levels, validated)
    result, score = interrupted_and_resumed(tmp_path, plan, levels, stops, act, validated)
    assert score == expected_score
    assert_same(result, expected)


@pytest.mark.usefixtures("two_parts")
def test_a_resumed_run_in_threads_ends_as_an_uninterrupted_one(tmp_path):
    expected, expected_score = trained(PLAN, BOTH)
    result, score = interrupted_and_resumed(tmp_path, PLAN, BOTH, [3, 6], crash, validated=True)
    assert score == expected_score
    assert_same(result, expected)
    assert torch.get_num_threads() == 2


def test_ctrl_c_says_where_training_stopped(tmp_path):
    checkpoints = Checkpoints.start(tmp_path, IDENTITY, 1000, resume=False)
    progress = Interrupting(5, press_ctrl_c)
    trainer = Trainer(new_network(), new_data(), PLAN, None, "tree 0 level 1", progress, checkpoints)
    with pytest.raises(TrainingInterrupted, match=r"^stopped in tree 0 level 1 after 5 of 16 batches"):
        trainer.run()
    assert int(checkpoints.state("tree 0 level 1")["numbers"][0]) == 5


@pytest.mark.parametrize("levels", [SECOND, BOTH], ids=["second", "both"])
def test_training_is_the_same_for_a_seed_and_another_for_another(levels):
    first, again = trained(PLAN, levels)[0], trained(PLAN, levels)[0]
    assert_same(first, again)
    other = trained(replace(PLAN, seed=(1, 0, 1)), levels)[0]
    assert not torch.equal(first["heads.0.first.weight"], other["heads.0.first.weight"])


@pytest.mark.usefixtures("two_parts")
def test_training_in_threads_is_the_same_every_time(monkeypatch):
    threads: set[int] = set()

    def watched(network: LabelAttentionNetwork, data: TrainingData, rows: np.ndarray, seed: int) -> Tensor:
        threads.add(threading.get_ident())
        assert torch.get_num_threads() == 1
        met.wait()
        return batch_loss(network, data, rows, seed)

    # Only batches that have two parts: each part waits for the other.
    met = threading.Barrier(2, timeout=60)
    monkeypatch.setattr(trainer_module, "batch_loss", watched)
    monkeypatch.setattr(trainer_module, "similar_length_batches", lambda *_: [np.arange(6), np.arange(6, 12)] * 2)
    first, again = trained(PLAN, BOTH)[0], trained(PLAN, BOTH)[0]
    assert_same(first, again)
    assert len(threads) >= 2
    assert threading.get_ident() not in threads
    assert torch.get_num_threads() == 2


def gradients_of_one_step(monkeypatch: pytest.MonkeyPatch, levels: range) -> tuple[int, list[Tensor]]:
    """Give the number of parts of a batch of all documents, and the sum of their gradients."""
    steps: list[list[list[Tensor | None]]] = []
    monkeypatch.setattr(Optimizer, "step", lambda self, gradients, *_: steps.append(list(gradients)))
    network = new_network(levels, dropout=0)
    plan = replace(PLAN, epochs=1, batch_size=N_DOCUMENTS)
    Trainer(network, new_data(levels, limit=1000), plan, None, "part").run()
    assert len(steps) == 1
    totals = [sum(part.to_dense() for part in parts if part is not None) for parts in zip(*steps[0], strict=True)]
    return len(steps[0]), totals


@pytest.mark.usefixtures("two_parts")
@pytest.mark.parametrize("levels", [FIRST, SECOND, BOTH], ids=["first", "second", "both"])
def test_the_parts_of_a_batch_have_the_gradient_of_the_whole(monkeypatch, levels):
    n, in_parts = gradients_of_one_step(monkeypatch, levels)
    assert n == 2
    monkeypatch.setattr(trainer_module, "LEAST_PART", N_DOCUMENTS)
    n, whole = gradients_of_one_step(monkeypatch, levels)
    assert n == 1
    for ours, expected in zip(in_parts, whole, strict=True):
        assert expected.any()
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("n_threads", "n_documents", "expected"), [
    (2, 64, 2), (2, 32, 2), (2, 31, 1), (2, 1, 1), (4, 64, 4), (4, 63, 3), (1, 64, 1),
])  # fmt: skip
def test_a_batch_has_a_part_for_each_thread_but_none_too_small(monkeypatch, n_threads, n_documents, expected):
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    assert n_parts(n_documents, torch.device("cpu")) == expected
    assert n_parts(n_documents, torch.device("cuda")) == 1


def test_the_random_numbers_of_others_are_left_alone():
    before = torch.get_rng_state()
    trained(PLAN, BOTH)
    assert torch.equal(torch.get_rng_state(), before)


@torch.no_grad()
def losses_of_levels(network: LabelAttentionNetwork, data: TrainingData) -> list[float]:
    """Give the mean loss of each level among the children of the true nodes above."""
    network.eval()
    rows = np.arange(N_DOCUMENTS)
    tokens, lengths = map(torch.from_numpy, data.tokens.padded(rows))
    states, losses = network.encode(tokens, lengths), []
    for index, level in enumerate(network.levels):
        batch = data.candidates(index, rows, np.zeros((N_DOCUMENTS, 0), np.int32), np.random.default_rng(0))
        logits = network.head(level)(states, lengths, torch.from_numpy(batch.padded_ids()))
        targets, present = torch.from_numpy(batch.targets), torch.from_numpy(batch.ids >= 0)
        losses.append(float(document_losses(logits, targets, present).mean()))
    return losses


@pytest.mark.parametrize("levels", [FIRST, BOTH], ids=["first", "both"])
def test_training_learns_every_level(levels):
    network, data = new_network(levels, dropout=0), new_data(levels)
    plan = replace(PLAN, epochs=100, learning_rate=0.03, averaging_start=1.0)
    before = losses_of_levels(network, data)
    Trainer(network, data, plan, None, "part").run()
    assert len(before) == len(levels)
    for start, end in zip(before, losses_of_levels(network, data), strict=True):
        assert end < 0.5 * start


@pytest.mark.parametrize("n_documents", [1, 5])
def test_fewer_documents_than_a_batch(n_documents):
    data = new_data(n_documents=n_documents)
    network = new_network()
    trainer = Trainer(network, data, PLAN, None, "part")
    assert trainer.run() == -1
    assert trainer.step == trainer.n_steps == PLAN.epochs
    assert not torch.equal(network.head(1).first.weight, new_network().head(1).first.weight)


class Script:
    """A validation with given scores, which remembers the weights it saw."""

    def __init__(self, network: LabelAttentionNetwork, scores: list[float]) -> None:
        self.network, self.scores = network, scores
        self.seen: list[dict[str, Tensor]] = []

    def __call__(self) -> float:
        self.seen.append(weights_of(self.network))
        return self.scores[len(self.seen) - 1]


@pytest.mark.parametrize("averaging_start", [0.0, 1.0])
def test_the_best_weights_are_kept(averaging_start):
    network = new_network()
    script = Script(network, [10, 30, 20, 30])
    plan = replace(PLAN, averaging_start=averaging_start)
    assert Trainer(network, new_data(), plan, script, "part").run() == 30
    assert len(script.seen) == 4
    assert_same(weights_of(network), script.seen[1])
    assert not torch.equal(script.seen[1]["heads.0.first.weight"], script.seen[3]["heads.0.first.weight"])


@pytest.mark.parametrize(
    ("patience", "scores", "n_validations"),
    [
        (1, [10, 9, 99, 99], 2),
        (2, [10, 9, 11, 10, 10, 99], 5),
        (1, [10, 10, 99], 2),
        (None, [10, 9, 8, 7, 6, 5], 6),
    ],
)
def test_patience_stops_after_so_many_validations_without_a_better_score(patience, scores, n_validations):
    network = new_network()
    script = Script(network, scores)
    plan = replace(PLAN, epochs=6, patience=patience)
    trainer = Trainer(network, new_data(), plan, script, "part")
    assert trainer.run() == max(scores[:n_validations])
    assert len(script.seen) == n_validations
    assert trainer.step == 4 * n_validations


def test_averaged_weights_are_the_mean_of_those_after_each_epoch():
    network = new_network()
    script = Script(network, [0, 0, 0, 0])
    Trainer(network, new_data(), replace(PLAN, averaging_start=1.0), script, "part").run()
    # 16 steps, averaging after more than 0.3 x 16: epochs 2, 3 and 4.
    averaged, _ = trained(PLAN, validated=False)
    for name, value in averaged.items():
        mean = torch.stack([weights[name] for weights in script.seen[1:]]).mean(dim=0)
        torch.testing.assert_close(value, mean, rtol=1e-5, atol=1e-6)


def test_without_validation_the_last_weights_are_kept():
    network = new_network()
    script = Script(network, [0, 0, 0, 0])
    plan = replace(PLAN, averaging_start=1.0)
    Trainer(network, new_data(), plan, script, "part").run()
    assert_same(trained(plan, validated=False)[0], script.seen[-1])


def test_progress_counts_every_batch():
    done: list[int] = []

    class Counting(Progress):
        @contextmanager
        def stage(self, name: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
            assert (name, total, unit) == ("part", N_STEPS, "batches")
            yield lambda n, note="": done.append(n)

    Trainer(new_network(), new_data(), PLAN, None, "part", Counting()).run()
    assert sum(done) == N_STEPS


def test_lazy_tables_are_those_with_sparse_gradients():
    network = new_network(BOTH)
    tables = [network.encoder.words, network.head(1).queries, network.head(1).outputs]
    assert {id(weight) for weight in lazy_tables(network)} == {id(table.weight) for table in tables}
    network = new_network(FIRST)
    assert [id(weight) for weight in lazy_tables(network)] == [id(network.encoder.words.weight)]


def test_frozen_words_stay_as_they_are():
    network = new_network()
    network.encoder.words.weight.requires_grad_(False)
    Trainer(network, new_data(), PLAN, None, "part").run()
    assert torch.equal(network.encoder.words.weight, new_network().encoder.words.weight)


def test_the_first_ctrl_c_is_a_flag_and_the_second_stops():
    before = signal.getsignal(signal.SIGINT)
    with deferred_interrupt() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_training_runs_outside_the_main_thread():
    results: list[float] = []
    thread = threading.Thread(target=lambda: results.append(trained(PLAN)[1]))
    thread.start()
    thread.join()
    assert results == [trained(PLAN)[1]]


def test_a_loss_that_is_not_a_number_stops_the_training():
    network = new_network()
    with torch.no_grad():
        network.head(1).last.bias.fill_(math.nan)
    with pytest.raises(HaxmlnetError, match=r"the loss is nan at batch 0\. Lower the learning rate"):
        Trainer(network, new_data(), PLAN, None, "level").run()


def test_ctrl_c_passes_through_those_who_catch_every_exception():
    assert not issubclass(TrainingInterrupted, Exception)
