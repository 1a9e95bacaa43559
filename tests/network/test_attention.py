from __future__ import annotations

import pytest
import torch
from torch import Tensor

from haxmlnet.network.attention import attention_weights, label_attention

B, T, H, V, C = 4, 7, 6, 3, 5
LENGTHS = torch.tensor([7, 1, 4, 6])


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def reference(queries: Tensor, states: Tensor, values: Tensor, lengths: Tensor) -> Tensor:
    result = torch.zeros(len(states), queries.shape[-2], values.shape[-1], dtype=torch.float64)
    for b, length in enumerate(lengths.tolist()):
        own = queries if queries.dim() == 2 else queries[b]
        for c, query in enumerate(own.double()):
            weights = [torch.exp(query @ states[b, t].double()) for t in range(length)]
            for t, weight in enumerate(weights):
                result[b, c] += weight / sum(weights) * values[b, t].double()
    return result.float()


@pytest.mark.parametrize("n_values", [V, H, 2 * H], ids=["narrower", "as wide", "wider"])
@pytest.mark.parametrize("shape", [(B, C, H), (C, H)], ids=["own queries", "shared queries"])
def test_attention_equals_the_formula(shape, n_values):
    queries, states, values = random(*shape), random(B, T, H, seed=1), random(B, T, n_values, seed=2)
    result = label_attention(queries, states, values, LENGTHS)
    torch.testing.assert_close(result, reference(queries, states, values, LENGTHS), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(B, C, H), (C, H)], ids=["own queries", "shared queries"])
def test_gradients_are_those_of_the_formula_and_those_of_padding_zero(shape):
    inputs = [x.double().requires_grad_() for x in (random(*shape), random(B, T, H, seed=1), random(B, T, V, seed=2))]
    assert torch.autograd.gradcheck(lambda *x: label_attention(*x, LENGTHS), inputs)
    padding = torch.arange(T) >= LENGTHS[:, None]
    for gradient in torch.autograd.grad(label_attention(*inputs, LENGTHS).square().sum(), inputs[1:]):
        assert not gradient[padding].any()
        assert gradient[~padding].any()


@pytest.mark.parametrize("shape", [(B, C, H), (C, H)])
def test_weights_are_a_distribution_over_the_words(shape):
    weights = attention_weights(random(*shape), random(B, T, H, seed=1), LENGTHS)
    assert weights.shape == (B, C, T)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, C))
    assert not weights.transpose(1, 2)[torch.arange(T) >= LENGTHS[:, None]].any()
    # A document of one word has no choice.
    torch.testing.assert_close(weights[1, :, 0], torch.ones(C))
