from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from toy_training import (
    BOTH,
    CONFIG,
    FIRST,
    SECOND,
    SEED,
    assert_same,
    new_data,
    new_network,
    train,
    weight_score,
    weights_of,
)

from haxmlnet.config import TrainingConfig
from haxmlnet.errors import TrainingInterrupted
from haxmlnet.progress import Progress
from haxmlnet.training.checkpoints import Checkpoints
from haxmlnet.training.trainer import Trainer, deferred_interrupt

IDENTITY = {"settings": "{}", "data": ""}


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


def interrupt_and_resume(
    directory: Path, config: TrainingConfig, levels: range, stops: list[int], act: Callable[[], object], validated: bool
) -> tuple[dict[str, Tensor], float]:
    expected = RuntimeError if act is crash else TrainingInterrupted
    for attempt, stop in enumerate([*stops, None]):
        # Every attempt starts with another network: what counts comes from the checkpoint.
        network = new_network(levels, seed=attempt)
        progress = Progress() if stop is None else Interrupting(stop, act)
        checkpoints = Checkpoints.start(directory, IDENTITY, 0, resume=attempt > 0)
        validate = (lambda network=network: weight_score(network)) if validated else None
        trainer = Trainer(network, new_data(levels), config, SEED, validate, "part", progress, checkpoints)
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
        (BOTH, {"averaging_start": 1.0, "patience": 1}, True),
        (FIRST, {"averaging_start": 1.0}, False),
        (SECOND, {}, True),
        (SECOND, {"adaptive_clip": 0.0}, False),
    ],
    ids=["both", "both, not validated", "both, patience", "first, no averaging", "second", "second, no clipping"],
)
@pytest.mark.parametrize(("act", "stops"), [(crash, [3, 6]), (press_ctrl_c, [1, 4, 5])], ids=["crash", "ctrl-c"])
def test_a_resumed_run_ends_as_an_uninterrupted_one(tmp_path, act, stops, levels, changes, validated):
    config = replace(CONFIG, **changes)
    expected, expected_score = train(config, levels, validated)
    result, score = interrupt_and_resume(tmp_path, config, levels, stops, act, validated)
    assert score == expected_score
    assert_same(result, expected)


@pytest.mark.usefixtures("two_parts")
def test_a_resumed_run_in_threads_ends_as_an_uninterrupted_one(tmp_path):
    expected, expected_score = train(CONFIG, BOTH)
    result, score = interrupt_and_resume(tmp_path, CONFIG, BOTH, [3, 6], crash, validated=True)
    assert score == expected_score
    assert_same(result, expected)
    assert torch.get_num_threads() == 2


def test_ctrl_c_says_where_training_stopped(tmp_path):
    checkpoints = Checkpoints.start(tmp_path, IDENTITY, 1000, resume=False)
    progress = Interrupting(5, press_ctrl_c)
    trainer = Trainer(new_network(), new_data(), CONFIG, SEED, None, "tree 0 level 1", progress, checkpoints)
    with pytest.raises(TrainingInterrupted, match=r"^stopped in tree 0 level 1 after 5 of 16 batches"):
        trainer.run()
    assert int(checkpoints.state("tree 0 level 1")["numbers"][0]) == 5


@pytest.fixture
def python_handles_ctrl_c():
    """A process in the background may have been started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_ctrl_c_is_a_flag_and_the_second_stops(python_handles_ctrl_c):
    before = signal.getsignal(signal.SIGINT)
    with deferred_interrupt() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_passes_through_those_who_catch_every_exception():
    assert not issubclass(TrainingInterrupted, Exception)
