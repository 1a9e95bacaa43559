"""Memory is that of what is held."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from planned import large_shape, shape_of

from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.evidence.attention_tree import STATES_OF_BLOCK
from haxmlnet.planning.batch_memory import findings_bytes
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.planning.training_memory import PROGRAM, Memory


def test_memory_holds_weights_moments_and_the_best_weights() -> None:
    shape = large_shape(linear=False)
    parts, weights = Memory(shape).parts, 4 * shape.parameters
    assert parts["weights"]["networks"] == weights
    of_labels = 670_000 * (shape.state_size + shape.network.mlp_sizes[-1] + 1)
    assert parts["optimizer"]["networks"] == 2 * weights - 4 * of_labels  # moments of large tables have 16 bits
    on_cuda = Memory(shape.with_settings(device="cuda")).parts
    assert on_cuda["optimizer"]["networks"] == 2 * weights  # only a processor has such moments
    small = shape_of(DataSizes.of_numbers(50_000, 67_000), linear=False)
    assert Memory(small).parts["optimizer"]["networks"] == 2 * 4 * small.parameters
    assert "copies of weights" not in parts  # they are on disk, with the checkpoints
    averaged = shape.with_settings(averaging_start=0.5)
    assert Memory(averaged).parts["copies of weights"]["networks"] == weights
    without_checkpoints = replace(averaged, has_checkpoints=False)
    assert Memory(without_checkpoints).parts["copies of weights"]["networks"] == 2 * weights
    lean = Memory(shape.with_settings(row_moments=True)).parts
    assert 0.5 * weights < lean["optimizer"]["networks"] < 0.7 * weights
    trees = Memory(shape.with_settings(n_trees=3)).parts
    assert trees["finished trees"]["networks"] == 2 * weights
    assert trees["optimizer"] == parts["optimizer"]
    assert trees["weights"]["prediction"] == 3 * weights


def test_totals_are_the_sums_of_the_parts_and_the_peak_is_the_largest_stage_of_training() -> None:
    memory = Memory(large_shape())
    for stage, total in memory.totals.items():
        assert total == sum(part.get(stage, 0) for part in memory.parts.values())
    assert memory.training_peak == max(memory.totals[stage] for stage in ("preparing", "networks", "linear tree"))
    assert "linear tree" not in Memory(large_shape(linear=False)).totals


def test_documents_count_as_memory_only_where_they_are_in_memory(corpus: PreparedCorpus, tmp_path: Path) -> None:
    in_memory = Memory(shape_of(DataSizes.of_corpus(corpus)))
    assert in_memory.mapped == 0
    assert in_memory.present > PROGRAM
    mapped = Memory(shape_of(DataSizes.of_numbers(150, 24)))
    assert mapped.present == PROGRAM
    assert mapped.mapped > 0


def test_prediction_holds_the_states_of_the_documents_examined_at_once() -> None:
    shape = large_shape(n_jobs=2, linear=False)
    held = findings_bytes(shape, 10**6)
    assert held == pytest.approx(2 * 4 * STATES_OF_BLOCK, rel=0.1)
    assert findings_bytes(shape.with_settings(n_jobs=4), 10**6) == 2 * held
    assert findings_bytes(shape, 1) == pytest.approx(4 * 200 * shape.state_size, rel=0.1)
    assert Memory(shape).parts["a batch, or an epoch's end"]["prediction"] > held
