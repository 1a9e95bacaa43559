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
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.training.candidates import CandidateSource
from haxmlnet.training.checkpoints import Checkpoints
from haxmlnet.training.trainer import (
    LevelData,
    LevelTrainer,
    TrainingPlan,
    deferred_interrupt,
    lazy_tables,
    mean_document_loss,
)
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


def new_network(seed: int = 0, all_nodes: bool = False) -> LabelAttentionNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        encoder = BiLSTMEncoder(torch.randn(12, 4), 3, 0.2, 0.5, attend_words=True, sparse_words=True)
        return LabelAttentionNetwork(encoder, N_LABELS, (5,), own_outputs=True, sparse_nodes=not all_nodes)


def new_data(with_candidates: bool = True, n_documents: int = N_DOCUMENTS) -> LevelData:
    """A document has one to five words; its label is the remainder of its first word."""
    rng = np.random.default_rng(0)
    documents = [rng.integers(2, 12, rng.integers(1, 6)).astype(np.int32) for _ in range(n_documents)]
    labels = np.array([document[0] % N_LABELS for document in documents])
    parts = (np.ones(n_documents, np.float32), labels, np.arange(n_documents + 1))
    tree = LabelTree((np.arange(N_LABELS, dtype=np.int32) // 2,), N_LABELS)
    parents, targets = tree.lift(sp.csr_array(parts, shape=(n_documents, N_LABELS)))
    predicted = Ranking(rng.integers(0, 4, (n_documents, 1)).astype(np.int32), np.ones((n_documents, 1), np.float32))
    source = CandidateSource(targets, parents, predicted, tree, 1, 3) if with_candidates else None
    return LevelData(TokenArray.from_lists(documents), targets, source)


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


def trained(plan: TrainingPlan, data: LevelData, validated: bool = True) -> tuple[dict[str, Tensor], float]:
    network = new_network(all_nodes=data.candidates is None)
    validate = (lambda: weight_score(network)) if validated else None
    score = LevelTrainer(network, data, plan, validate, "part").run()
    return weights_of(network), score


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
    directory: Path, plan: TrainingPlan, data: LevelData, stops: list[int], act: Callable[[], object], validated: bool
) -> tuple[dict[str, Tensor], float]:
    expected = RuntimeError if act is crash else TrainingInterrupted
    for attempt, stop in enumerate([*stops, None]):
        # Every attempt starts with another network: what counts comes from the checkpoint.
        network = new_network(seed=attempt, all_nodes=data.candidates is None)
        progress = Progress() if stop is None else Interrupting(stop, act)
        checkpoints = Checkpoints.start(directory, IDENTITY, 0, resume=attempt > 0)
        validate = (lambda network=network: weight_score(network)) if validated else None
        trainer = LevelTrainer(network, data, plan, validate, "part", progress, checkpoints)
        if stop is not None:
            with pytest.raises(expected):
                trainer.run()
    score = trainer.run()
    return weights_of(network), score


@pytest.mark.parametrize("validated", [True, False])
@pytest.mark.parametrize("with_candidates", [True, False])
@pytest.mark.parametrize(
    "changes",
    [{}, {"averaging_start": 1.0}, {"gradient_clip": 0.0}, {"patience": 1}],
    ids=["averaging and clipping", "no averaging", "no clipping", "patience"],
)
@pytest.mark.parametrize(("act", "stops"), [(crash, [3, 6]), (press_ctrl_c, [1, 4, 5])], ids=["crash", "ctrl-c"])
def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path, act, stops, changes, with_candidates, validated):
    plan, data = replace(PLAN, **changes), new_data(with_candidates)
    expected, expected_score = trained(plan, data, validated)
    result, score = interrupted_and_resumed(tmp_path, plan, data, stops, act, validated)
    assert score == expected_score
    assert_same(result, expected)


def test_ctrl_c_says_where_training_stopped(tmp_path):
    checkpoints = Checkpoints.start(tmp_path, IDENTITY, 1000, resume=False)
    progress = Interrupting(5, press_ctrl_c)
    trainer = LevelTrainer(new_network(), new_data(), PLAN, None, "tree 0 level 1", progress, checkpoints)
    with pytest.raises(TrainingInterrupted, match=r"^stopped in tree 0 level 1 after 5 of 16 batches"):
        trainer.run()
    assert int(checkpoints.state("tree 0 level 1")["numbers"][0]) == 5


def test_training_is_the_same_for_a_seed_and_another_for_another():
    first, again = trained(PLAN, new_data())[0], trained(PLAN, new_data())[0]
    assert_same(first, again)
    other = trained(replace(PLAN, seed=(1, 0, 1)), new_data())[0]
    assert not torch.equal(first["first.weight"], other["first.weight"])


def test_the_random_numbers_of_others_are_left_alone():
    before = torch.get_rng_state()
    trained(PLAN, new_data())
    assert torch.equal(torch.get_rng_state(), before)


def test_training_learns():
    data = new_data(with_candidates=False)
    network = new_network(all_nodes=True)
    plan = replace(PLAN, epochs=40, learning_rate=0.03, averaging_start=1.0)

    def loss() -> float:
        network.eval()
        tokens, lengths = map(torch.from_numpy, data.tokens.padded(np.arange(N_DOCUMENTS)))
        targets = torch.from_numpy(data.targets.toarray())
        with torch.no_grad():
            return float(mean_document_loss(network(tokens, lengths), targets, torch.ones_like(targets)))

    before = loss()
    LevelTrainer(network, data, plan, None, "part").run()
    assert loss() < 0.5 * before


@pytest.mark.parametrize("n_documents", [1, 5])
def test_fewer_documents_than_a_batch(n_documents):
    data = new_data(n_documents=n_documents)
    network = new_network()
    trainer = LevelTrainer(network, data, PLAN, None, "part")
    assert trainer.run() == -1
    assert trainer.step == trainer.n_steps == PLAN.epochs
    assert not torch.equal(network.first.weight, new_network().first.weight)


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
    assert LevelTrainer(network, new_data(), plan, script, "part").run() == 30
    assert len(script.seen) == 4
    assert_same(weights_of(network), script.seen[1])
    assert not torch.equal(script.seen[1]["first.weight"], script.seen[3]["first.weight"])


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
    trainer = LevelTrainer(network, new_data(), plan, script, "part")
    assert trainer.run() == max(scores[:n_validations])
    assert len(script.seen) == n_validations
    assert trainer.step == 4 * n_validations


def test_averaged_weights_are_the_mean_of_those_after_each_epoch():
    network = new_network()
    script = Script(network, [0, 0, 0, 0])
    LevelTrainer(network, new_data(), replace(PLAN, averaging_start=1.0), script, "part").run()
    # 16 steps, averaging after more than 0.3 x 16: epochs 2, 3 and 4.
    averaged, _ = trained(PLAN, new_data(), validated=False)
    for name, value in averaged.items():
        mean = torch.stack([weights[name] for weights in script.seen[1:]]).mean(dim=0)
        torch.testing.assert_close(value, mean, rtol=1e-5, atol=1e-6)


def test_without_validation_the_last_weights_are_kept():
    network = new_network()
    script = Script(network, [0, 0, 0, 0])
    plan = replace(PLAN, averaging_start=1.0)
    LevelTrainer(network, new_data(), plan, script, "part").run()
    assert_same(trained(plan, new_data(), validated=False)[0], script.seen[-1])


def test_progress_counts_every_batch():
    done: list[int] = []

    class Counting(Progress):
        @contextmanager
        def stage(self, name: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
            assert (name, total, unit) == ("part", N_STEPS, "batches")
            yield lambda n, note="": done.append(n)

    LevelTrainer(new_network(), new_data(), PLAN, None, "part", Counting()).run()
    assert sum(done) == N_STEPS


def test_mean_document_loss_by_hand():
    logits = torch.tensor([[0.0, math.log(3), 7.0], [math.log(3), 7.0, 7.0], [7.0, 7.0, 7.0]])
    targets = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    present = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    # Sigmoids 1/2 and 3/4, both right; 3/4 where 0 is right; and a document without candidates.
    expected = ((math.log(2) + math.log(4 / 3)) / 2 + math.log(4) + 0) / 3
    assert mean_document_loss(logits, targets, present).item() == pytest.approx(expected)


def test_all_nodes_are_candidates_where_there_is_no_source():
    data = new_data(with_candidates=False)
    batch = data.batch(np.array([3, 0]), np.random.default_rng(0))
    assert batch.ids.tolist() == [list(range(N_LABELS))] * 2
    assert batch.targets.tolist() == data.targets.toarray()[[3, 0]].tolist()


def test_lazy_tables_are_those_with_sparse_gradients():
    network = new_network()
    tables = [network.encoder.words, network.queries, network.outputs]
    assert {id(weight) for weight in lazy_tables(network)} == {id(table.weight) for table in tables}
    network = new_network(all_nodes=True)
    assert [id(weight) for weight in lazy_tables(network)] == [id(network.encoder.words.weight)]


def test_frozen_words_stay_as_they_are():
    network = new_network()
    network.encoder.words.weight.requires_grad_(False)
    LevelTrainer(network, new_data(), PLAN, None, "part").run()
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
    thread = threading.Thread(target=lambda: results.append(trained(PLAN, new_data())[1]))
    thread.start()
    thread.join()
    assert results == [trained(PLAN, new_data())[1]]


def test_a_loss_that_is_not_a_number_stops_the_training():
    network = new_network()
    with torch.no_grad():
        network.last.bias.fill_(math.nan)
    with pytest.raises(HaxmlnetError, match=r"the loss is nan at batch 0\. Lower the learning rate"):
        LevelTrainer(network, new_data(), PLAN, None, "level").run()


def test_ctrl_c_passes_through_those_who_catch_every_exception():
    assert not issubclass(TrainingInterrupted, Exception)
