"""Times are measured and scaled up."""

from __future__ import annotations

import pytest
import torch
from planned import NARROW, shape_of

from haxmlnet.planning import network_times
from haxmlnet.planning.network_times import NetworkTimes
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.planning.times import Times, measure_times


@pytest.mark.parametrize("shared_encoder", [True, False])
def test_times_are_measured_for_every_kind_of_network(shared_encoder: bool) -> None:
    sizes = DataSizes.of_numbers(2000, 300).replace(words=8, labels_per_document=2.5, vocabulary=500)
    shape = shape_of(sizes, **NARROW, group_size=8, shared_encoder=shared_encoder, n_jobs=1, epochs=3)
    threads = torch.get_num_threads()
    times = measure_times(shape)
    assert min(times.tree, times.networks, times.validation, times.linear, times.prediction) > 0
    assert times.networks == pytest.approx(3 * times.epoch)
    assert times.training == pytest.approx(sum((times.tree, times.networks, times.validation, times.linear)))
    assert torch.get_num_threads() == threads


def test_times_grow_with_documents_and_epochs() -> None:
    sizes, steps = DataSizes.of_numbers(10_000, 300), NetworkTimes([0.5], [0.001])
    shape = shape_of(sizes, epochs=3, batch_size=10, validation_fraction=0.1)
    times = Times.of(shape, 7.0, steps, 8.0)
    assert (times.tree, times.networks, times.epoch, times.linear) == (7, 3 * 900 * 0.5, 900 * 0.5, 8)
    assert times.validation == pytest.approx(3 * 1000 * 0.001)
    assert Times.of(shape.with_settings(n_trees=2), 7.0, steps, 8.0).networks == 2 * 3 * 900 * 0.5


def test_all_networks_but_the_last_search_for_what_the_next_one_learns_from() -> None:
    sizes, steps = DataSizes.of_numbers(10_000, 300), NetworkTimes([0.5, 0.5], [1.0, 1.0])
    shape = shape_of(sizes, epochs=3, validation_fraction=0.1, shared_encoder=False)
    assert Times.of(shape, 0, steps, 0).validation == 2 * 3 * 1000 + 10_000
    assert Times.of(shape.with_settings(hard_negatives=0), 0, steps, 0).validation == 2 * 3 * 1000 + 1000


@pytest.mark.parametrize("shared_encoder", [True, False])
def test_tables_are_cut_and_nodes_share_their_rows(shared_encoder: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_times, "MAX_ROWS", 70)
    sizes = DataSizes.of_numbers(2000, 3000).replace(words=50, labels_per_document=2.5, vocabulary=500)
    wide = {"word_size": 64, "hidden_size": 64, "mlp_sizes": (16,), "hard_negatives": 16, "beam": 16}
    shape = shape_of(sizes, **wide, level_sizes=(64,), shared_encoder=shared_encoder, n_jobs=1, epochs=1)
    networks = [network_times.make_network(shape, levels) for levels in shape.networks]
    assert [head.n_nodes for network in networks for head in network.heads] == [64, 70]
    head = networks[-1].head(1)
    states, lengths = torch.randn(2, 5, head.queries.embedding_dim), torch.full((2,), 5)
    candidates = torch.tensor([[1, 2999, 70], [7, 8, 77]])
    assert torch.equal(head(states, lengths, candidates), head(states, lengths, candidates % 70))
    # As many candidates and words that each document is scored by itself.
    assert min(time for times in network_times.time_networks(shape) for time in times) > 0
