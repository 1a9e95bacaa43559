from __future__ import annotations

import pytest
import torch

from haxmlnet.cpu.byte_dropout import byte_dropout, dropout_factors


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.95])
def test_the_share_of_zeros_is_p_and_the_mean_is_kept(p):
    n = 1_000_000
    dropped = byte_dropout(torch.ones(1000, 1000), p, None)
    # p is rounded to 1/256; five standard deviations of a share are 5 / sqrt(4 n) at most.
    assert (dropped == 0).double().mean().item() == pytest.approx(p, abs=1 / 512 + 2.5 * n**-0.5)
    assert dropped.double().mean().item() == pytest.approx(1, abs=5 * (p / (1 - p) / n) ** 0.5)
    assert len(dropped.unique()) == 2


def test_neighbours_are_dropped_independently():
    kept = (byte_dropout(torch.ones(100_000, 8), 0.5, None) != 0).double()
    correlations = torch.corrcoef(kept.T) - torch.eye(8)
    assert correlations.abs().max() < 0.02


def test_it_does_nothing_without_p():
    x = torch.randn(3, 5)
    assert byte_dropout(x, 0, None) is x
    assert dropout_factors(x.shape, 0.001, None) is None


def test_a_generator_decides_the_mask_and_leaves_the_numbers_of_others_alone():
    before = torch.get_rng_state()
    results = [byte_dropout(torch.ones(10, 10), 0.5, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_generator_goes_on_from_mask_to_mask():
    generator = torch.Generator().manual_seed(1)
    first, second = (byte_dropout(torch.ones(10, 10), 0.5, generator) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("shape", [(1,), (3, 5, 7), (0, 4)])
def test_any_shape(shape):
    x = torch.randn(shape)
    dropped = byte_dropout(x, 0.5, None)
    assert dropped.shape == x.shape
    torch.testing.assert_close(dropped[dropped != 0], 2 * x[dropped != 0])


def test_gradients_pass_where_numbers_are_kept():
    x = torch.ones(100, requires_grad=True)
    dropped = byte_dropout(x, 0.5, None)
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())
