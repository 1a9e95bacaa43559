from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from haxmlnet.network import products
from haxmlnet.network.products import linear, multiplier, product

ways = pytest.mark.parametrize("least_operations", [0, 2**60], ids=["oneDNN", "torch"])


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def small_ones_too(monkeypatch):
    monkeypatch.setattr(products, "LEAST_OPERATIONS", 0)
    monkeypatch.setattr(products, "LEAST_ROWS", 0)


@ways
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 7, 3), (64, 33, 130), (1, 1, 1)])
def test_a_product_is_a_product(monkeypatch, least_operations, turned, with_bias, m, n, k):
    monkeypatch.setattr(products, "LEAST_OPERATIONS", least_operations)
    a = random(k, m).T if turned[0] else random(m, k)
    b = random(k, n, seed=1).T if turned[1] else random(n, k, seed=1)
    bias = random(n, seed=2) if with_bias else None
    expected = a.double() @ b.double().T + (0 if bias is None else bias.double())
    torch.testing.assert_close(product(a, b, bias), expected.float(), rtol=1e-5, atol=1e-5)


@ways
def test_weights_that_are_laid_out_give_the_same(monkeypatch, least_operations):
    monkeypatch.setattr(products, "LEAST_OPERATIONS", least_operations)
    a, b = random(16, 24), random(32, 24, seed=1)
    torch.testing.assert_close(multiplier(b, len(a))(a), a @ b.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("shape", [(11, 6), (3, 5, 6)])
def test_a_linear_layer_has_the_results_and_gradients_of_torch(small_ones_too, shape, with_bias):
    inputs = [random(*shape), random(4, 6, seed=1), *([random(4, seed=2)] if with_bias else [])]
    inputs = [x.requires_grad_() for x in inputs]
    wanted = random(*shape[:-1], 4, seed=3)
    own, expected = linear(*inputs), F.linear(*inputs)
    torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-5)
    own_gradients, gradients = (torch.autograd.grad((x * wanted).sum(), inputs) for x in (own, expected))
    torch.testing.assert_close(own_gradients, gradients, rtol=1e-5, atol=1e-5)


def test_other_numbers_and_versions_without_the_operators_are_left_to_torch(monkeypatch, small_ones_too):
    a, b = random(3, 4).double(), random(5, 4).double()
    assert product(a, b).dtype == torch.float64
    monkeypatch.setattr(products, "_is_there", lambda: False)
    monkeypatch.setattr(products, "_operator", lambda: None)
    for result in (product(a.float(), b.float()), multiplier(b.float(), 3)(a.float())):
        torch.testing.assert_close(result, (a @ b.T).float())
