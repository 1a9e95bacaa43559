from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from toy_training import (
    BOTH,
    CONFIG,
    FIRST,
    N_DOCUMENTS,
    N_STEPS,
    SECOND,
    SEED,
    assert_same,
    new_data,
    new_network,
    train,
    weights_of,
)

from haxmlnet.errors import HaxmlnetError
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.progress import Progress
from haxmlnet.training import trainer as trainer_module
from haxmlnet.training.loss import TrainingData, batch_loss, document_losses
from haxmlnet.training.optimizer import Optimizer
from haxmlnet.training.trainer import Trainer, find_sparse_tables, n_parts


@pytest.mark.parametrize("levels", [SECOND, BOTH], ids=["second", "both"])
def test_training_is_the_same_for_a_seed_and_another_for_another(levels):
    first, again = train(CONFIG, levels)[0], train(CONFIG, levels)[0]
    assert_same(first, again)
    other = train(CONFIG, levels, seed=(1, 0, 1))[0]
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
    first, again = train(CONFIG, BOTH)[0], train(CONFIG, BOTH)[0]
    assert_same(first, again)
    assert len(threads) >= 2
    assert threading.get_ident() not in threads
    assert torch.get_num_threads() == 2


def gradients_of_one_step(monkeypatch: pytest.MonkeyPatch, levels: range) -> tuple[int, list[Tensor]]:
    """Give the number of parts of a batch of all documents, and the sum of their gradients."""
    steps: list[list[list[Tensor | None]]] = []
    monkeypatch.setattr(Optimizer, "step", lambda self, gradients, *_: steps.append(list(gradients)))
    network = new_network(levels, dropout=0)
    config = replace(CONFIG, epochs=1, batch_size=N_DOCUMENTS)
    Trainer(network, new_data(levels, limit=1000), config, SEED, None, "part").run()
    assert len(steps) == 1
    totals = [sum(part.to_dense() for part in parts if part is not None) for parts in zip(*steps[0], strict=True)]
    return len(steps[0]), totals


@pytest.mark.usefixtures("two_parts")
@pytest.mark.parametrize("levels", [FIRST, SECOND, BOTH], ids=["first", "second", "both"])
def test_the_parts_of_a_batch_have_the_gradient_of_the_whole(monkeypatch, levels):
    n, in_parts = gradients_of_one_step(monkeypatch, levels)
    assert n == 2
    monkeypatch.setattr(trainer_module, "MIN_PART", N_DOCUMENTS)
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
    train(CONFIG, BOTH)
    assert torch.equal(torch.get_rng_state(), before)


@torch.no_grad()
def losses_of_levels(network: LabelAttentionNetwork, data: TrainingData) -> list[float]:
    """Give the mean loss of each level among the children of the true nodes above."""
    network.eval()
    rows = np.arange(N_DOCUMENTS)
    tokens, lengths = map(torch.from_numpy, data.tokens.pad(rows))
    states, losses = network.encode(tokens, lengths), []
    for index, level in enumerate(network.levels):
        batch = data.candidates(index, rows, np.zeros((N_DOCUMENTS, 0), np.int32), np.random.default_rng(0))
        candidates = None if data.sources[index] is None else torch.from_numpy(batch.ids)
        logits = network.head(level)(states, lengths, candidates)
        targets, present = torch.from_numpy(batch.targets), torch.from_numpy(batch.ids >= 0)
        losses.append(float(document_losses(logits, targets, present).mean()))
    return losses


@pytest.mark.parametrize("levels", [FIRST, BOTH], ids=["first", "both"])
def test_training_learns_every_level(levels):
    network, data = new_network(levels, seed=1, dropout=0), new_data(levels)
    config = replace(CONFIG, epochs=40, learning_rate=0.03, averaging_start=1.0)
    before = losses_of_levels(network, data)
    Trainer(network, data, config, SEED, None, "part").run()
    assert len(before) == len(levels)
    for start, end in zip(before, losses_of_levels(network, data), strict=True):
        assert end < 0.5 * start


@pytest.mark.parametrize(("max_steps", "n_validations"), [(1, 1), (4, 1), (6, 2), (99, 4)])
def test_training_stops_after_so_many_steps_and_is_validated_then(max_steps, n_validations):
    network = new_network()
    script = Script(network, [10, 20, 30, 40])
    trainer = Trainer(network, new_data(), replace(CONFIG, max_steps=max_steps), SEED, script, "part")
    assert trainer.run() == 10 * n_validations
    assert len(script.seen) == n_validations
    assert trainer.step == min(max_steps, N_STEPS)


@pytest.mark.parametrize("n_documents", [1, 5])
def test_fewer_documents_than_a_batch(n_documents):
    data = new_data(n_documents=n_documents)
    network = new_network()
    trainer = Trainer(network, data, CONFIG, SEED, None, "part")
    assert trainer.run() == -1
    assert trainer.step == trainer.n_steps == CONFIG.epochs
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
@pytest.mark.parametrize(("scores", "best"), [([10, 30, 20, 30], 1), ([10, 20, 15, 30], 3), ([30, 20, 15, 10], 0)])
def test_the_best_weights_are_kept(averaging_start, scores, best):
    network = new_network()
    script = Script(network, scores)
    config = replace(CONFIG, averaging_start=averaging_start)
    assert Trainer(network, new_data(), config, SEED, script, "part").run() == 30
    assert len(script.seen) == 4
    assert_same(weights_of(network), script.seen[best])
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
    config = replace(CONFIG, epochs=6, patience=patience)
    trainer = Trainer(network, new_data(), config, SEED, script, "part")
    assert trainer.run() == max(scores[:n_validations])
    assert len(script.seen) == n_validations
    assert trainer.step == 4 * n_validations


def test_averaged_weights_are_the_mean_of_those_after_each_epoch():
    network = new_network()
    script = Script(network, [0, 0, 0, 0])
    Trainer(network, new_data(), replace(CONFIG, averaging_start=1.0), SEED, script, "part").run()
    # 16 steps, averaging after more than 0.3 x 16: epochs 2, 3 and 4.
    averaged, _ = train(CONFIG, validated=False)
    for name, value in averaged.items():
        mean = torch.stack([weights[name] for weights in script.seen[1:]]).mean(dim=0)
        torch.testing.assert_close(value, mean, rtol=1e-5, atol=1e-6)


def test_without_validation_the_last_weights_are_kept():
    network = new_network()
    script = Script(network, [0, 0, 0, 0])
    config = replace(CONFIG, averaging_start=1.0)
    Trainer(network, new_data(), config, SEED, script, "part").run()
    assert_same(train(config, validated=False)[0], script.seen[-1])


def test_progress_counts_every_batch():
    done: list[int] = []

    class Counting(Progress):
        @contextmanager
        def stage(self, name: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
            assert (name, total, unit) == ("part", N_STEPS, "batches")
            yield lambda n, note="": done.append(n)

    Trainer(new_network(), new_data(), CONFIG, SEED, None, "part", Counting()).run()
    assert sum(done) == N_STEPS


def test_lazy_tables_are_those_with_sparse_gradients():
    network = new_network(BOTH)
    tables = [network.encoder.words, network.head(1).queries, network.head(1).outputs]
    assert {id(weight) for weight in find_sparse_tables(network)} == {id(table.weight) for table in tables}
    network = new_network(FIRST)
    assert [id(weight) for weight in find_sparse_tables(network)] == [id(network.encoder.words.weight)]


def test_frozen_words_stay_as_they_are():
    network = new_network()
    network.encoder.words.weight.requires_grad_(False)
    Trainer(network, new_data(), CONFIG, SEED, None, "part").run()
    assert torch.equal(network.encoder.words.weight, new_network().encoder.words.weight)


def test_training_runs_outside_the_main_thread():
    results: list[float] = []
    thread = threading.Thread(target=lambda: results.append(train(CONFIG)[1]))
    thread.start()
    thread.join()
    assert results == [train(CONFIG)[1]]


def test_a_loss_that_is_not_a_number_stops_the_training():
    network = new_network()
    with torch.no_grad():
        network.head(1).last.bias.fill_(math.nan)
    with pytest.raises(HaxmlnetError, match=r"the loss is nan at batch 0\. Lower the learning rate"):
        Trainer(network, new_data(), CONFIG, SEED, None, "level").run()
