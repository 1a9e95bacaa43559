from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from haxmlnet.cpu.fast_lazy_adam import COLUMNS, FastTableAdam
from haxmlnet.cpu.threads import workers
from haxmlnet.training import hardware
from haxmlnet.training.lazy_adam import TableAdam
from haxmlnet.training.optimizer import Optimizer, scale_learning_rate


def test_the_step_size_rises_and_falls():
    scales = [scale_learning_rate(step, 10, warmup=0.2, final=0.2) for step in range(10)]
    assert scales == pytest.approx([1 / 3, 2 / 3, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3])


def test_the_step_size_is_constant_if_asked():
    assert {scale_learning_rate(step, 7, warmup=0, final=1) for step in range(7)} == {1.0}


@pytest.mark.parametrize("n_steps", [1, 2, 100])
@pytest.mark.parametrize("warmup", [0, 0.05, 0.9])
@pytest.mark.parametrize("final", [0, 0.02, 1])
def test_the_step_size_is_never_zero_nor_above_one(n_steps, warmup, final):
    scales = [scale_learning_rate(step, n_steps, warmup, final) for step in range(n_steps)]
    assert all(0 < scale <= 1 for scale in scales)


class Tables(nn.Module):
    """Dense weights, and a table with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.dense = nn.Parameter(torch.randn(3, generator=generator))
        self.frozen = nn.Parameter(torch.randn(2, generator=generator), requires_grad=False)
        self.table = nn.Parameter(torch.randn(6, 2, generator=generator))

    def optimizer(self, row_moments: bool = False) -> Optimizer:
        return Optimizer(self, [self.table], 0.1, row_moments)

    def values(self) -> list[Tensor]:
        return [self.dense.detach().clone(), self.table.detach().clone()]

    def part(self, optimizer: Optimizer, dense: Tensor | None, table: Tensor | None) -> list[Tensor | None]:
        """Put gradients in the order of the weights of the optimizer."""
        assert len(optimizer.weights) == 2
        return [dense if weight is self.dense else table for weight in optimizer.weights]

    def random_part(self, optimizer: Optimizer, seed: int, factor: float = 1.0) -> list[Tensor | None]:
        return self.part(optimizer, *random_gradients(seed, factor))


def table_gradient(rows: Tensor | list[int], values: Tensor) -> Tensor:
    return torch.sparse_coo_tensor(torch.as_tensor(rows)[None], values, (6, 2), check_invariants=True)


def random_gradients(seed: int, factor: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(6, (4,), generator=generator)  # a row may come twice: its gradients add up
    values = torch.randn(4, 2, generator=generator)
    return factor * torch.randn(3, generator=generator), table_gradient(rows, factor * values)


def norm_of(dense: Tensor, table: Tensor) -> float:
    return float(torch.cat([dense, table.to_dense().ravel()]).norm())


def assert_same(first: list[Tensor], second: list[Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def assert_close(first: list[Tensor], second: list[Tensor]) -> None:
    for ours, expected in zip(first, second, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_steps_are_those_of_adam_and_sparse_adam():
    ours, theirs = Tables(), Tables()
    optimizer = ours.optimizer()
    adam = torch.optim.Adam([theirs.dense], lr=0.05)
    sparse_adam = torch.optim.SparseAdam([theirs.table], lr=0.05)
    for seed in range(5):
        optimizer.step([ours.random_part(optimizer, seed)], 0.5, clip=0)
        theirs.dense.grad, theirs.table.grad = random_gradients(seed)
        adam.step()
        sparse_adam.step()
    assert_close(ours.values(), theirs.values())
    assert torch.equal(ours.frozen, Tables().frozen)


def test_rows_and_columns_share_their_second_moments_if_asked():
    tables = Tables()
    optimizer = tables.optimizer(row_moments=True)
    expected = tables.table.detach().clone()
    means, of_rows, of_columns = torch.zeros(6, 2), torch.zeros(6), torch.zeros(2)
    for step in range(1, 6):
        _, gradient = random_gradients(step)
        optimizer.step([tables.part(optimizer, torch.ones(3), gradient)], 0.5, clip=0)
        dense, rows = gradient.to_dense(), gradient.coalesce().indices()[0]
        squares = dense[rows] ** 2
        of_columns = 0.999 * of_columns + 0.001 * (squares / squares.mean(dim=1, keepdim=True)).mean(dim=0)
        for row in rows.tolist():
            means[row] = 0.9 * means[row] + 0.1 * dense[row]
            of_rows[row] = 0.999 * of_rows[row] + 0.001 * (dense[row] ** 2).mean()
            size = (of_rows[row] * of_columns).sqrt() / (1 - 0.999**step)
            expected[row] -= 0.05 * means[row] / (1 - 0.9**step) / size
    torch.testing.assert_close(tables.table.detach(), expected, rtol=0, atol=3e-3)  # first moments have 8 bits


@pytest.fixture
def bfloat16_moments(monkeypatch):
    monkeypatch.setattr("haxmlnet.cpu.fast_lazy_adam.LARGE_TABLE", 1)


def test_moments_of_large_tables_are_bfloat16_with_nearly_the_same_steps(bfloat16_moments, monkeypatch):
    short = Tables()
    optimizer = short.optimizer()
    assert {optimizer.tables[0].means.dtype, optimizer.tables[0].squares.dtype} == {torch.bfloat16}
    monkeypatch.undo()
    usual = Tables()
    reference = usual.optimizer()
    assert reference.tables[0].means.dtype == torch.float32
    start = usual.table.detach().clone()
    for seed in range(30):
        optimizer.step([short.random_part(optimizer, seed)], 0.5, clip=0)
        reference.step([usual.random_part(reference, seed)], 0.5, clip=0)
    moved = (usual.table.detach() - start).norm()
    assert (short.table.detach() - usual.table.detach()).norm() < 0.01 * moved
    assert not torch.equal(short.table, usual.table)


def test_bfloat16_squares_follow_gradients_that_change_them_by_less_than_their_bits_can_tell(bfloat16_moments):
    table = nn.Embedding.from_pretrained(torch.zeros(2, 500), freeze=False)
    optimizer = Optimizer(nn.ModuleList([nn.Linear(1, 1, bias=False), table]), [table.weight], 0.1)
    gradient = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 500), (2, 500), check_invariants=True)
    for _ in range(2000):
        optimizer.step([[None, gradient]], 1, clip=0)
    squares = optimizer.tables[0].squares.float()
    assert squares[1].mean() == pytest.approx(1 - 0.999**2000, rel=0.01)
    assert squares[1].std() < 0.05
    assert not squares[0].any()


def test_bfloat16_moments_come_back_from_a_checkpoint_on_any_device(bfloat16_moments, monkeypatch):
    tables = Tables()
    optimizer = tables.optimizer()
    for seed in range(3):
        optimizer.step([tables.random_part(optimizer, seed)], 1, clip=0)
    state = optimizer.tensors()
    again = Tables().optimizer()
    again.load_tensors(state)
    monkeypatch.setattr(hardware, "USE_CPU_ROOM", False)
    elsewhere = Tables().optimizer()
    assert elsewhere.tables[0].means.dtype == torch.float32
    elsewhere.load_tensors(state)
    for loaded in (again, elsewhere):
        assert torch.equal(loaded.tables[0].means.float(), optimizer.tables[0].means.float())
        assert torch.equal(loaded.tables[0].squares.float(), optimizer.tables[0].squares.float())
        assert loaded.tables[0].n_steps == 3
    monkeypatch.undo()
    back = Tables().optimizer()
    back.load_tensors(elsewhere.tensors())
    assert torch.equal(back.tables[0].squares, elsewhere.tables[0].squares)


@pytest.mark.usefixtures("bfloat16_moments")
def test_steps_with_bfloat16_moments_in_threads_and_after_a_reload_are_the_same_to_the_bit():
    straight, threaded = Tables(), Tables()
    one_by_one, side_by_side = straight.optimizer(), threaded.optimizer()
    with workers(2) as run:
        for seed in range(4):
            one_by_one.step([straight.random_part(one_by_one, seed)], 1, 2)
            side_by_side.step([threaded.random_part(side_by_side, seed)], 1, 2, run)
            reloaded = threaded.optimizer()
            reloaded.load_tensors({name: value.clone() for name, value in side_by_side.tensors().items()})
            side_by_side = reloaded
    assert_same(straight.values(), threaded.values())


@pytest.mark.parametrize("row_moments", [False, True])
def test_the_fast_form_takes_the_steps_of_the_plain_one(monkeypatch, row_moments):
    fast, plain = Tables(), Tables()
    optimizers = [fast.optimizer(row_moments)]
    monkeypatch.setattr(hardware, "USE_CPU_ROOM", False)
    optimizers.append(plain.optimizer(row_moments))
    if not row_moments:
        assert [type(optimizer.tables[0]) for optimizer in optimizers] == [FastTableAdam, TableAdam]
    for seed, factor in enumerate([1, 1, 50, 1]):
        for tables, optimizer in zip((fast, plain), optimizers, strict=True):
            parts = [tables.random_part(optimizer, seed, factor), tables.random_part(optimizer, seed + 50, factor)]
            optimizer.step(parts, 1, clip=2)
    assert_close(fast.values(), plain.values())


@pytest.mark.parametrize("width", [1, COLUMNS, COLUMNS + 1, 3 * COLUMNS])
def test_tables_of_any_width(width):
    generator = torch.Generator().manual_seed(0)
    ours = nn.Embedding.from_pretrained(torch.randn(5, width, generator=generator), freeze=False)
    theirs = nn.Embedding.from_pretrained(ours.weight.detach().clone(), freeze=False)
    optimizer = Optimizer(nn.ModuleList([nn.Linear(1, 1, bias=False), ours]), [ours.weight], 0.1)
    sparse_adam = torch.optim.SparseAdam([theirs.weight], lr=0.1)
    for rows in ([0, 3, 3], [4], [3, 0, 0, 3]):
        values = torch.randn(len(rows), width, generator=generator)
        gradient = torch.sparse_coo_tensor(torch.tensor([rows]), values, (5, width), check_invariants=True)
        optimizer.step([[None, gradient]], 1, clip=0)
        theirs.weight.grad = gradient
        sparse_adam.step()
    # A step moves weights by 0.1; where gradients cancel out, their rounding decides the last digits of it.
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=0, atol=1e-5)


@pytest.mark.parametrize("clip", [0, 2])
def test_gradients_in_parts_are_added_up(clip):
    ours, whole = Tables(), Tables()
    in_parts, in_one = ours.optimizer(), whole.optimizer()
    for seed in (0, 10, 20):
        gradients = [random_gradients(seed + i) for i in range(3)]
        in_parts.step([ours.part(in_parts, *gradient) for gradient in gradients], 1, clip)
        dense = torch.stack([dense for dense, _ in gradients]).sum(dim=0)
        table = torch.stack([table.to_dense() for _, table in gradients]).sum(dim=0).to_sparse(1)
        in_one.step([whole.part(in_one, dense, table)], 1, clip)
    assert_close(ours.values(), whole.values())


def test_a_part_may_lack_a_gradient():
    ours, whole = Tables(), Tables()
    in_parts, in_one = ours.optimizer(), whole.optimizer()
    for seed in range(3):
        dense, table = random_gradients(seed)
        in_parts.step([ours.part(in_parts, dense.clone(), None), ours.part(in_parts, None, table.clone())], 1, clip=2)
        in_one.step([whole.part(in_one, dense, table)], 1, clip=2)
    assert_same(ours.values(), whole.values())


@pytest.mark.parametrize("clip", [0, 2])
def test_a_weight_without_any_gradient_stays(clip):
    tables = Tables()
    optimizer = tables.optimizer()
    dense, table = tables.values()
    optimizer.step([tables.part(optimizer, torch.ones(3), None)] * 2, 1, clip)
    assert torch.equal(tables.table, table)
    assert (tables.dense != dense).all()
    dense, table = tables.values()
    optimizer.step([tables.part(optimizer, None, table_gradient([2], torch.ones(1, 2)))] * 2, 1, clip)
    assert torch.equal(tables.dense, dense)
    assert (tables.table[2] != table[2]).all()


@pytest.mark.parametrize("row_moments", [False, True])
def test_rows_without_gradient_do_not_move(row_moments):
    tables = Tables()
    optimizer = tables.optimizer(row_moments)
    for parts in ([[0, 1]], [[4]], [[4], [2, 4]]):
        gradients = [
            tables.part(optimizer, torch.ones(3), table_gradient(rows, torch.ones(len(rows), 2))) for rows in parts
        ]
        before = tables.table.detach().clone()
        optimizer.step(gradients, 1, clip=0)
        moved = (tables.table != before).any(dim=1)
        assert moved.nonzero().ravel().tolist() == sorted({row for rows in parts for row in rows})


def test_clipping_shortens_outliers_to_a_multiple_of_the_mean_and_nothing_else():
    clipped, plain = Tables(), Tables()
    with_clip, without = clipped.optimizer(), plain.optimizer()
    mean = 0.0
    for seed, factor in enumerate([1, 1, 1.5, 1, 100, 1, 0.1, 100, 1]):
        norm = norm_of(*random_gradients(seed, factor))
        is_outlier = mean > 0 and norm > 3 * mean
        assert is_outlier == (factor == 100)
        shortened = 3 * mean / norm if is_outlier else 1.0
        mean = norm if mean == 0 else 0.95 * mean + 0.05 * norm * shortened
        with_clip.step([clipped.random_part(with_clip, seed, factor)], 1, clip=3)
        without.step([plain.random_part(without, seed, factor * shortened)], 1, clip=0)
        assert_close(clipped.values(), plain.values())


@pytest.mark.parametrize("row_moments", [False, True])
def test_steps_in_threads_are_the_same_to_the_bit(row_moments):
    straight, threaded = Tables(), Tables()
    one_by_one, side_by_side = straight.optimizer(row_moments), threaded.optimizer(row_moments)
    with workers(2) as run:
        for seed, factor in enumerate([1, 1, 50, 1]):
            one_by_one.step([straight.random_part(one_by_one, seed, factor)], 1, 2)
            side_by_side.step([threaded.random_part(side_by_side, seed, factor)], 1, 2, run)
    assert_same(straight.values(), threaded.values())


@pytest.mark.parametrize("row_moments", [False, True])
def test_further_steps_after_a_reload_are_the_same_to_the_bit(row_moments):
    straight = Tables()
    optimizer = straight.optimizer(row_moments)
    for seed in range(4):
        optimizer.step([straight.random_part(optimizer, seed), straight.random_part(optimizer, seed + 50)], 1, clip=2)
    state = {name: value.clone() for name, value in optimizer.tensors().items()}
    resumed = Tables()
    resumed.load_state_dict(straight.state_dict())
    reloaded = resumed.optimizer(row_moments)
    reloaded.load_tensors(state)
    for seed, factor in [(4, 1), (5, 50), (6, 1)]:
        for tables, part in ((straight, optimizer), (resumed, reloaded)):
            part.step([tables.random_part(part, seed, factor)], 0.7, clip=2)
    assert_same(straight.values(), resumed.values())


def test_a_network_without_sparse_tables():
    layer = nn.Linear(2, 1)
    before = layer.weight.detach().clone()
    optimizer = Optimizer(layer, [], 0.1)
    optimizer.step([[torch.ones_like(weight) for weight in optimizer.weights]], 1, clip=5)
    torch.testing.assert_close(layer.weight, before - 0.1)


def test_biases_that_share_a_gradient_are_shortened_once():
    shared, single = nn.Linear(2, 3), nn.Linear(2, 3)
    single.load_state_dict(shared.state_dict())
    first, second = Optimizer(shared, [], 0.1), Optimizer(single, [], 0.1)
    for factor in (1.0, 100.0):
        bias = factor * torch.ones(3)
        twice = [bias.expand(3, 3)[:, :2] if weight.dim() == 2 else bias for weight in first.weights]
        first.step([twice], 1, clip=2)
        second.step([[gradient.clone() for gradient in twice]], 1, clip=2)
    assert_close([shared.weight, shared.bias], [single.weight, single.bias])


def test_autograd_nodes_of_the_weights_live_as_long_as_the_optimizer():
    # Otherwise threads would make them anew, and could wait for each other forever.
    network = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2))
    optimizer = Optimizer(network, [network[0].weight], 0.1)
    for weight, node in zip(optimizer.weights, optimizer.nodes, strict=True):
        assert torch.autograd.graph.get_gradient_edge(weight).node is node
