"""What is advised helps."""

from __future__ import annotations

import pytest
from planned import large_shape, shape_of

from haxmlnet.planning.advice import VALUES
from haxmlnet.planning.forecast import Plan
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.planning.training_memory import PROGRAM, Memory


@pytest.mark.parametrize("setting", VALUES)
def test_every_change_that_can_be_advised_saves_memory_of_training(setting: str) -> None:
    given = {
        "averaging_start": 0.5,
        "n_trees": 2,
        "max_length": 400,
        "vocabulary_size": 2_000_000,
        "max_first_level": 4096,
    }
    sizes = DataSizes.of_numbers(2_000_000, 100_000).replace(vocabulary=2_000_000, words=500)
    # With small tables a batch dominates, with large ones the linear tree, and without it the networks.
    for hidden, batch, linear in ((512, 32, True), (64, 4000, True), (512, 32, False)):
        shape = shape_of(sizes, hidden_size=hidden, batch_size=batch, linear=linear, **given)
        value = list(VALUES[setting](shape.settings[setting]))[-1]
        if Memory(shape.with_settings(**{setting: value})).training_peak < Memory(shape).training_peak:
            return
    pytest.fail(f"{setting} saves nothing")


def test_what_fits_gets_no_advice() -> None:
    shape = large_shape(linear=False)
    needed = Memory(shape).training_peak - PROGRAM
    assert Plan(shape, needed).fits
    assert Plan(shape, needed).advice == []
    assert Plan(shape, needed).is_tight
    assert not Plan(shape, 2 * needed).is_tight
    assert not Plan(shape, needed - 1).fits
    assert Plan(shape, None).fits


def test_each_advised_change_makes_it_fit_and_saves_what_it_says() -> None:
    shape = large_shape()
    available = round(0.9 * Memory(shape).training_peak)
    advised = Plan(shape, available).advice
    assert len(advised) > 1
    for change in advised:
        other = shape.with_settings(**{change.setting: change.value})
        assert Memory(other).needed <= available
        assert Memory(shape).training_peak - Memory(other).training_peak == change.saved
    assert [change.setting for change in advised] == [name for name in VALUES if name in {c.setting for c in advised}]


def test_changes_are_joined_where_none_is_enough() -> None:
    shape = large_shape(hidden_size=512)
    available = 4_000_000_000
    advised = Plan(shape, available).advice
    assert [change.fits for change in advised] == [False] * (len(advised) - 1) + [True]
    other = shape.with_settings(**{change.setting: change.value for change in advised})
    assert Memory(other).needed <= available
    assert not Plan(shape, 1_000_000).advice[-1].fits


def test_flags_of_switches() -> None:
    shape = large_shape()
    (change,) = [c for c in Plan(shape, round(0.7 * Memory(shape).training_peak)).advice if c.setting == "linear"]
    assert (change.flag, change.argument) == ("--no-linear", "linear=False")
