from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from haxmlnet.cpu import matmul as module
from haxmlnet.cpu.matmul import (
    add_matmul,
    has_bfloat16_matmul,
    linear,
    matmul,
    matmul_without_compiling,
    prepare_matmul,
    uses_onednn,
)

ways = pytest.mark.parametrize("library", ["oneDNN", "torch"], indirect=True)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def library(monkeypatch, request):
    is_onednn = request.param == "oneDNN"
    if is_onednn and not module._is_there():
        pytest.skip("this torch has no matmul of oneDNN")
    monkeypatch.setattr(module, "_is_faster", lambda: is_onednn)
    monkeypatch.setattr(module, "MIN_OPERATIONS", 0)
    monkeypatch.setattr(module, "MIN_ROWS", 0)


@ways
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 7, 3), (64, 33, 130), (1, 1, 1)])
def test_matmul_is_that_of_torch(library, turned, with_bias, m, n, k):
    a = random(k, m).T if turned[0] else random(m, k)
    b = random(k, n, seed=1).T if turned[1] else random(n, k, seed=1)
    bias = random(n, seed=2) if with_bias else None
    expected = a.double() @ b.double().T + (0 if bias is None else bias.double())
    torch.testing.assert_close(matmul(a, b, bias), expected.float(), rtol=1e-5, atol=1e-5)
    rows = torch.zeros(m + 2, n)
    matmul(a, b, bias, out=rows[1:-1])
    torch.testing.assert_close(rows[1:-1], expected.float(), rtol=1e-5, atol=1e-5)
    assert not rows[[0, -1]].any()


@ways
def test_a_matmul_is_added_in_place(library):
    a, b, target = random(6, 4), random(5, 4, seed=1), random(6, 5, seed=2)
    expected = target + a @ b.T
    add_matmul(target, a, b)
    torch.testing.assert_close(target, expected, rtol=1e-5, atol=1e-5)


@ways
def test_packed_weights_give_the_same(library):
    a, b = random(16, 24), random(32, 24, seed=1)
    multiply = prepare_matmul(b, len(a))
    for x in (a, 2 * a):
        torch.testing.assert_close(multiply(x), x @ b.T, rtol=1e-5, atol=1e-5)


@ways
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("shape", [(11, 6), (3, 5, 6)])
def test_a_linear_layer_has_the_results_and_gradients_of_torch(library, shape, with_bias):
    inputs = [random(*shape), random(4, 6, seed=1), *([random(4, seed=2)] if with_bias else [])]
    inputs = [x.requires_grad_() for x in inputs]
    wanted = random(*shape[:-1], 4, seed=3)
    own, expected = linear(*inputs), F.linear(*inputs)
    torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-5)
    own_gradients, gradients = (torch.autograd.grad((x * wanted).sum(), inputs) for x in (own, expected))
    torch.testing.assert_close(own_gradients, gradients, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not has_bfloat16_matmul(), reason="this processor has no bfloat16")
@pytest.mark.parametrize("least", [0, 2**60], ids=["oneDNN", "torch"])
def test_bfloat16_is_multiplied_with_sums_of_float32(monkeypatch, least):
    monkeypatch.setattr(module, "MIN_OPERATIONS", least)
    monkeypatch.setattr(module, "MIN_ROWS", least)
    a, b, bias = (random(*shape, seed=seed).bfloat16() for seed, shape in enumerate([(64, 300), (40, 300), (40,)]))
    expected = a.float() @ b.float().T
    for result in (matmul(a, b), prepare_matmul(b, len(a))(a)):
        assert result.dtype == torch.bfloat16
        torch.testing.assert_close(result.float(), expected, rtol=2**-8, atol=1e-3)
    torch.testing.assert_close(matmul(a, b, bias).float(), expected + bias.float(), rtol=2**-8, atol=0.1)
    torch.testing.assert_close(matmul_without_compiling(a, b, bias), matmul(a, b, bias), rtol=2**-7, atol=0)
    own = torch.zeros(64, 40)
    matmul(a, b, out=own)
    add_matmul(own, a, b)
    torch.testing.assert_close(own, 2 * expected, rtol=2**-8, atol=1e-3)
    # Weights of a layer are float32, and so are their gradients.
    weight, states = random(40, 300, seed=3).requires_grad_(), a.clone().requires_grad_()
    wanted = random(64, 40, seed=4).bfloat16()
    out = linear(states, weight)
    of_states, of_weight = torch.autograd.grad((out * wanted).sum(), [states, weight])
    assert (out.dtype, of_states.dtype, of_weight.dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    torch.testing.assert_close(of_weight, wanted.float().T @ a.float(), rtol=2**-8, atol=0.1)
    torch.testing.assert_close(of_states.float(), wanted.float() @ weight.detach(), rtol=2**-6, atol=0.2)


@pytest.mark.parametrize(("is_faster", "known", "expected"), [
    (True, {"avx512_bf16": True}, True), (True, {}, False), (False, {"avx512_bf16": True}, False),
])  # fmt: skip
def test_bfloat16_is_multiplied_where_the_processor_does_so(monkeypatch, is_faster, known, expected):
    monkeypatch.setattr(module, "_is_faster", lambda: is_faster)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known, raising=False)
    assert has_bfloat16_matmul.__wrapped__() is expected


def test_without_compiling_float32_is_multiplied_by_torch():
    a, b, bias = random(5, 3), random(7, 3), random(7)
    assert torch.equal(matmul_without_compiling(a, b, bias), F.linear(a, b, bias))


@pytest.mark.parametrize("library", ["oneDNN"], indirect=True)
def test_other_dtypes_are_left_to_torch(library):
    a, b = random(3, 4).double(), random(5, 4).double()
    assert matmul(a, b).dtype == prepare_matmul(b, 3)(a).dtype == torch.float64


@pytest.mark.parametrize(
    ("is_there", "is_intel", "expected"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_onednn_multiplies_where_it_is_there_and_the_processor_is_not_intels(monkeypatch, is_there, is_intel, expected):
    monkeypatch.setattr(module, "_is_there", lambda: is_there)
    monkeypatch.setattr(module, "_is_intel", lambda: is_intel)
    assert module._is_faster.__wrapped__() is expected
    monkeypatch.setattr(module, "_is_faster", module._is_faster.__wrapped__)
    assert uses_onednn(random(2, 2), random(2, 2)) is expected
    assert not uses_onednn(random(2, 2).double(), random(2, 2).double())
