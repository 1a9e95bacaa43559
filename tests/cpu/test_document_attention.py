from __future__ import annotations

import pytest
import torch
from haxmlnet.network.products import has_short_products
from torch import Tensor, nn

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


N = 9
CANDIDATES = torch.tensor([[0, 1, 2, 3, 4], [8, 7, 6, 5, 4], [3, 1, 4, 1, 5], [2, 2, 2, 2, 2]])
"""Of a table of nine queries."""
ways = pytest.mark.parametrize(
    ("max_plain", "least_of_a_document"),
    [(2**23, 2**60), (0, 2**60), (2**23, 0), (0, 0)],
    ids=["plain", "fused", "by document", "by document, weights not kept"],
)
who = pytest.mark.parametrize("candidates", [CANDIDATES, None], ids=["own queries", "shared queries"])


@pytest.fixture
def table() -> nn.Embedding:
    return nn.Embedding(N, H, _weight=random(N, H))


def take_way(monkeypatch: pytest.MonkeyPatch, max_plain: int, least_of_a_document: int) -> None:
    monkeypatch.setattr(attention, "MAX_PLAIN_WEIGHTS", max_plain)
    monkeypatch.setattr(attention, "LEAST_OF_A_DOCUMENT", least_of_a_document)
    monkeypatch.setattr(attention, "LEAST_DOCUMENTS", B)


@pytest.mark.parametrize("n_values", [V, H, 2 * H], ids=["narrower", "as wide", "wider"])
@ways
@who
@pytest.mark.parametrize("with_gradients", [True, False])
def test_attention_equals_the_formula(
    monkeypatch, table, with_gradients, candidates, max_plain, least_of_a_document, n_values
):
    take_way(monkeypatch, max_plain, least_of_a_document)
    states, values = random(B, T, H, seed=1), random(B, T, n_values, seed=2)
    with torch.set_grad_enabled(with_gradients):
        result = label_attention(table, candidates, states, values, LENGTHS)
    queries = table.weight.detach() if candidates is None else table.weight.detach()[candidates]
    torch.testing.assert_close(result.detach(), reference(queries, states, values, LENGTHS), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not has_short_products(), reason="this processor does not multiply numbers of 16 bits")
@ways
@who
@pytest.mark.parametrize("with_gradients", [True, False])
def test_sums_and_gradients_of_numbers_of_16_bits_are_near(
    monkeypatch, table, with_gradients, candidates, max_plain, least_of_a_document
):
    take_way(monkeypatch, max_plain, least_of_a_document)
    states, values = random(B, T, H, seed=1).bfloat16(), random(B, T, V, seed=2).bfloat16()

    def of_kind(kind: torch.dtype) -> tuple[Tensor, ...]:
        inputs = [x.to(kind).requires_grad_(with_gradients) for x in (states, values)]
        with torch.set_grad_enabled(with_gradients):
            sums = label_attention(table, candidates, *inputs, LENGTHS)
        assert sums.dtype == torch.float32
        gradients = torch.autograd.grad(sums.square().sum(), [table.weight, *inputs]) if with_gradients else ()
        assert [gradient.dtype for gradient in gradients] == [torch.float32, kind, kind][: len(gradients)]
        return sums.detach(), *(gradient.float() for gradient in gradients)

    torch.testing.assert_close(of_kind(torch.bfloat16), of_kind(torch.float32), rtol=0.05, atol=0.06)


@ways
def test_absent_candidates_change_nothing_for_the_others(monkeypatch, table, max_plain, least_of_a_document):
    take_way(monkeypatch, max_plain, least_of_a_document)
    present = [5, 3, 1, 2]
    states, values = random(B, T, H, seed=1).requires_grad_(), random(B, T, V, seed=2)
    kept = torch.arange(C) < torch.tensor(present)[:, None]

    def of_present(n_present: list[int] | None) -> tuple[Tensor, ...]:
        sums = label_attention(table, CANDIDATES, states, values, LENGTHS, n_present)[kept]
        with torch.no_grad():
            without_gradients = label_attention(table, CANDIDATES, states, values, LENGTHS, n_present)[kept]
        return sums, without_gradients, *torch.autograd.grad(sums.square().sum(), [table.weight, states])

    torch.testing.assert_close(of_present(present), of_present(None), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("max_plain", "least_of_a_document", "expected"),
    [
        (B * C * T, 2 * C * T * H + 1, []),
        (B * C * T - 1, 2 * C * T * H + 1, ["fused"]),
        (B * C * T, 2 * C * T * H, ["by document"]),
    ],
    ids=["small", "many weights", "large documents"],
)
def test_the_way_depends_on_the_size(monkeypatch, table, max_plain, least_of_a_document, expected):
    taken: list[str] = []
    take_way(monkeypatch, max_plain, least_of_a_document)
    monkeypatch.setattr(attention, "_fused_attention", lambda *parts: taken.append("fused") or torch.zeros(1))
    monkeypatch.setattr(attention._ByDocument, "apply", lambda *parts: taken.append("by document"))
    label_attention(table, CANDIDATES, random(B, T, H), random(B, T, V), LENGTHS)
    assert taken == expected


@ways
@who
def test_gradients_are_those_of_the_plain_formula_and_those_of_padding_zero(
    monkeypatch, table, candidates, max_plain, least_of_a_document
):
    states, values, wanted = random(B, T, H, seed=1), random(B, T, V, seed=2), random(B, 1, V, seed=3)

    def gradients() -> list[Tensor]:
        inputs = [table.weight, states.clone().requires_grad_(), values.clone().requires_grad_()]
        sums = label_attention(table, candidates, *inputs[1:], LENGTHS)
        return list(torch.autograd.grad((sums * wanted).sum(), inputs))

    take_way(monkeypatch, 2**23, 2**60)
    expected = gradients()
    take_way(monkeypatch, max_plain, least_of_a_document)
    found = gradients()
    for own, plain in zip(found, expected, strict=True):
        torch.testing.assert_close(own, plain, rtol=1e-4, atol=1e-6)
    padding = ~padding_mask(LENGTHS, T)
    for gradient in found[1:]:
        assert not gradient[padding].any()
        assert gradient[~padding].any()


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
