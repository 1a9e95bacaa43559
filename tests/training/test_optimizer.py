from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from haxmlnet.training.optimizer import Optimizer, step_scale


def test_the_step_size_rises_and_falls():
    scales = [step_scale(step, 10, warmup=0.2, final=0.2) for step in range(10)]
    assert scales == pytest.approx([1 / 3, 2 / 3, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3])


def test_the_step_size_is_constant_if_asked():
    assert {step_scale(step, 7, warmup=0, final=1) for step in range(7)} == {1.0}


@pytest.mark.parametrize("n_steps", [1, 2, 100])
@pytest.mark.parametrize("warmup", [0, 0.05, 0.9])
@pytest.mark.parametrize("final", [0, 0.02, 1])
def test_the_step_size_is_never_zero_nor_above_one(n_steps, warmup, final):
    scales = [step_scale(step, n_steps, warmup, final) for step in range(n_steps)]
    assert all(0 < scale <= 1 for scale in scales)


class Tables(nn.Module):
    """Dense weights, and a table with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.dense = nn.Parameter(torch.randn(3, generator=generator))
        self.frozen = nn.Parameter(torch.randn(2, generator=generator), requires_grad=False)
        self.table = nn.Parameter(torch.randn(6, 2, generator=generator))

    def optimizer(self) -> Optimizer:
        return Optimizer(self, [self.table], 0.1)

    def set_gradients(self, seed: int, factor: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randint(6, (1, 4), generator=generator)  # a row may come twice: its gradients add up
        values = torch.randn(4, 2, generator=generator)
        self.dense.grad = factor * torch.randn(3, generator=generator)
        self.table.grad = torch.sparse_coo_tensor(rows, factor * values, (6, 2), check_invariants=True)

    def norm(self) -> float:
        return float(torch.cat([self.dense.grad, self.table.grad.to_dense().ravel()]).norm())

    def values(self) -> list[Tensor]:
        return [self.dense.detach().clone(), self.table.detach().clone()]


def assert_same(first: list[Tensor], second: list[Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_steps_are_those_of_adam_and_sparse_adam():
    ours, theirs = Tables(), Tables()
    optimizer = ours.optimizer()
    adam = torch.optim.Adam([theirs.dense], lr=0.05)
    sparse_adam = torch.optim.SparseAdam([theirs.table], lr=0.05)
    for seed in range(5):
        ours.set_gradients(seed)
        optimizer.step(0.5, clip=0)
        theirs.set_gradients(seed)
        adam.step()
        sparse_adam.step()
    assert_same(ours.values(), theirs.values())
    assert torch.equal(ours.frozen, Tables().frozen)
    assert ours.dense.grad is None
    assert ours.table.grad is None


def test_rows_without_gradient_do_not_move():
    tables = Tables()
    optimizer = tables.optimizer()
    for rows in ([0, 1], [4], [4]):
        tables.dense.grad = torch.ones(3)
        values = torch.ones(len(rows), 2)
        tables.table.grad = torch.sparse_coo_tensor([rows], values, (6, 2), check_invariants=True)
        before = tables.table.detach().clone()
        optimizer.step(1, clip=0)
        moved = (tables.table != before).any(dim=1)
        assert moved.nonzero().ravel().tolist() == rows


def test_clipping_shortens_outliers_to_a_multiple_of_the_mean_and_nothing_else():
    clipped, plain = Tables(), Tables()
    with_clip, without = clipped.optimizer(), plain.optimizer()
    mean = 0.0
    for seed, factor in enumerate([1, 1, 1.5, 1, 100, 1, 0.1]):
        clipped.set_gradients(seed, factor)
        norm = clipped.norm()
        is_outlier = mean > 0 and norm > 3 * mean
        assert is_outlier == (factor == 100)
        shortened = 3 * mean / norm if is_outlier else 1.0
        mean = norm if mean == 0 else 0.95 * mean + 0.05 * norm * shortened
        with_clip.step(1, clip=3)
        plain.set_gradients(seed, factor * shortened)
        without.step(1, clip=0)
        assert with_clip.mean_norm == pytest.approx(mean, rel=1e-5)
        for ours, expected in zip(clipped.values(), plain.values(), strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_further_steps_after_a_reload_are_the_same_to_the_bit():
    straight = Tables()
    optimizer = straight.optimizer()
    for seed in range(4):
        straight.set_gradients(seed)
        optimizer.step(1, clip=2)
    state = {name: value.clone() for name, value in optimizer.tensors().items()}
    resumed = Tables()
    resumed.load_state_dict(straight.state_dict())
    reloaded = resumed.optimizer()
    reloaded.load_tensors(state)
    for seed, factor in [(4, 1), (5, 50), (6, 1)]:
        for tables, part in ((straight, optimizer), (resumed, reloaded)):
            tables.set_gradients(seed, factor)
            part.step(0.7, clip=2)
    assert_same(straight.values(), resumed.values())
    assert reloaded.mean_norm == optimizer.mean_norm


def test_a_network_without_sparse_tables():
    layer = nn.Linear(2, 1)
    before = layer.weight.detach().clone()
    optimizer = Optimizer(layer, [], 0.1)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step(1, clip=5)
    torch.testing.assert_close(layer.weight, before - 0.1)
