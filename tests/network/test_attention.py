from __future__ import annotations

import pytest
import torch
from torch import Tensor

from haxmlnet.network import attention
from haxmlnet.network.attention import attention_weights, label_attention, padding_mask

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
@pytest.mark.parametrize("max_plain", [2**23, 0], ids=["plain", "fused"])
@pytest.mark.parametrize("shape", [(B, C, H), (C, H)], ids=["own queries", "shared queries"])
def test_attention_equals_the_formula(monkeypatch, shape, max_plain, n_values):
    monkeypatch.setattr(attention, "MAX_PLAIN_WEIGHTS", max_plain)
    queries, states, values = random(*shape), random(B, T, H, seed=1), random(B, T, n_values, seed=2)
    result = label_attention(queries, states, values, LENGTHS)
    torch.testing.assert_close(result, reference(queries, states, values, LENGTHS), rtol=1e-5, atol=1e-5)


def test_the_fused_path_is_taken_only_where_the_weights_are_many(monkeypatch):
    taken: list[str] = []
    monkeypatch.setattr(attention, "_fused_attention", lambda *parts: taken.append("fused"))
    parts = random(B, C, H), random(B, T, H), random(B, T, V), LENGTHS
    monkeypatch.setattr(attention, "MAX_PLAIN_WEIGHTS", B * C * T)
    label_attention(*parts)
    assert taken == []
    monkeypatch.setattr(attention, "MAX_PLAIN_WEIGHTS", B * C * T - 1)
    label_attention(*parts)
    assert taken == ["fused"]


@pytest.mark.parametrize("max_plain", [2**23, 0], ids=["plain", "fused"])
def test_gradients_are_finite_and_those_of_padding_zero(monkeypatch, max_plain):
    monkeypatch.setattr(attention, "MAX_PLAIN_WEIGHTS", max_plain)
    queries, states, values = (
        x.requires_grad_() for x in (random(B, C, H), random(B, T, H, seed=1), random(B, T, V, seed=2))
    )
    label_attention(queries, states, values, LENGTHS).square().sum().backward()
    padding = ~padding_mask(LENGTHS, T)
    for gradient in (states.grad, values.grad):
        assert gradient.isfinite().all()
        assert not gradient[padding].any()
        assert gradient[~padding].any()
    assert queries.grad.isfinite().all()


@pytest.mark.parametrize("shape", [(B, C, H), (C, H)])
def test_weights_are_a_distribution_over_the_words(shape):
    weights = attention_weights(random(*shape), random(B, T, H, seed=1), LENGTHS)
    assert weights.shape == (B, C, T)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, C))
    assert not weights.transpose(1, 2)[~padding_mask(LENGTHS, T)].any()
    # A document of one word has no choice.
    torch.testing.assert_close(weights[1, :, 0], torch.ones(C))


def test_padding_mask():
    assert padding_mask(torch.tensor([2, 3, 1]), 3).tolist() == [
        [True, True, False],
        [True, True, True],
        [True, False, False],
    ]
