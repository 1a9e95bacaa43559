from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from haxmlnet.cpu import document_attention
from haxmlnet.cpu.document_attention import attend_at_once, attend_by_document, goes_by_document, sums_of_documents
from haxmlnet.cpu.lstm_inference import MIN_BATCH
from haxmlnet.cpu.matmul import has_bfloat16_matmul
from haxmlnet.network.attention import label_attention

B, T, H, V, C, N = 4, 7, 6, 3, 5, 9
LENGTHS = torch.tensor([7, 1, 4, 6])
COUNTS = [5, 3, 1, 2]
PRESENT = torch.arange(C) < torch.tensor(COUNTS)[:, None]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def at_once(queries: Tensor, states: Tensor, values: Tensor) -> Tensor:
    return attend_at_once(queries, states, values, LENGTHS)


def by_document(queries: Tensor, states: Tensor, values: Tensor) -> Tensor:
    return attend_by_document(queries, states, values, LENGTHS, [C] * B)


forms = pytest.mark.parametrize(
    ("form", "max_held"),
    [(at_once, 2**23), (by_document, 2**23), (by_document, 0)],
    ids=["at once", "by document", "by document, weights not held"],
)
shapes = pytest.mark.parametrize("shape", [(B, C, H), (C, H)], ids=["own queries", "shared queries"])
Form = Callable[[Tensor, Tensor, Tensor], Tensor]


@shapes
@forms
def test_sums_and_gradients_are_those_of_the_plain_form(monkeypatch, form: Form, max_held, shape):
    monkeypatch.setattr(document_attention, "MAX_HELD_WEIGHTS", max_held)
    inputs = [x.requires_grad_() for x in (random(*shape), random(B, T, H, seed=1), random(B, T, V, seed=2))]
    wanted = random(B, 1, V, seed=3)
    own, expected = form(*inputs), label_attention(*inputs, LENGTHS)
    torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-5)
    gradients, expected_gradients = (torch.autograd.grad((x * wanted).sum(), inputs) for x in (own, expected))
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-4, atol=1e-6)
    for gradient in gradients[1:]:
        assert not gradient[torch.arange(T) >= LENGTHS[:, None]].any()


@pytest.mark.skipif(not has_bfloat16_matmul(), reason="this processor has no bfloat16")
@shapes
@forms
def test_bfloat16_is_near(monkeypatch, form: Form, max_held, shape):
    monkeypatch.setattr(document_attention, "MAX_HELD_WEIGHTS", max_held)
    queries, states, values = random(*shape), random(B, T, H, seed=1), random(B, T, V, seed=2)

    def of_dtype(dtype: torch.dtype) -> tuple[Tensor, ...]:
        inputs = [
            x.requires_grad_() for x in (queries.clone(), states.bfloat16().to(dtype), values.bfloat16().to(dtype))
        ]
        sums = form(*inputs)
        assert sums.dtype == torch.float32
        gradients = torch.autograd.grad(sums.square().sum(), inputs)
        assert [gradient.dtype for gradient in gradients] == [torch.float32, dtype, dtype]
        return sums.detach(), *(gradient.float() for gradient in gradients)

    torch.testing.assert_close(of_dtype(torch.bfloat16), of_dtype(torch.float32), rtol=0.05, atol=0.06)


def test_candidates_that_are_not_looked_at_change_nothing_for_the_others():
    inputs = [x.requires_grad_() for x in (random(B, C, H), random(B, T, H, seed=1), random(B, T, V, seed=2))]
    own = attend_by_document(*inputs, LENGTHS, COUNTS)
    assert not own[~PRESENT].any()
    expected = label_attention(*inputs, LENGTHS)
    gradients = [torch.autograd.grad(x[PRESENT].square().sum(), inputs) for x in (own, expected)]
    torch.testing.assert_close(own[PRESENT], expected[PRESENT], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("has_candidates", [True, False])
@pytest.mark.parametrize("n_documents", [B, MIN_BATCH])
def test_sums_of_one_document_after_the_other(n_documents, has_candidates, dtype):
    if dtype == torch.bfloat16 and not has_bfloat16_matmul():
        pytest.skip("this processor has no bfloat16")
    lengths, counts = LENGTHS.repeat(2)[:n_documents], (COUNTS * 2)[:n_documents]
    table, states, values = nn.Embedding(N, H), random(n_documents, T, H), random(n_documents, T, V, seed=1)
    candidates = torch.randint(N, (n_documents, C)) if has_candidates else None
    counts = counts if has_candidates else [N] * n_documents
    queries = table.weight if candidates is None else table(candidates)
    expected = label_attention(queries, states, values, lengths)
    found = sums_of_documents(table, candidates, states.to(dtype), values.to(dtype), lengths, counts)
    close = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0.03, "atol": 0.05}
    for sums, row, count in zip(found, expected, counts, strict=True):
        torch.testing.assert_close(sums, row[:count], **close)


@pytest.mark.parametrize(
    ("n_documents", "max_held", "min_operations", "expected"),
    [
        (MIN_BATCH, MIN_BATCH * C * T, 2 * C * T * H + 1, False),
        (MIN_BATCH, MIN_BATCH * C * T - 1, 2 * C * T * H + 1, True),
        (MIN_BATCH, MIN_BATCH * C * T, 2 * C * T * H, True),
        (MIN_BATCH - 1, MIN_BATCH * C * T, 2 * C * T * H, False),
    ],
    ids=["small", "many weights", "large documents", "few documents"],
)
def test_the_size_decides(monkeypatch, n_documents, max_held, min_operations, expected):
    monkeypatch.setattr(document_attention, "MAX_HELD_WEIGHTS", max_held)
    monkeypatch.setattr(document_attention, "MIN_OPERATIONS", min_operations)
    assert goes_by_document(random(n_documents, T, H), C) == expected
