from __future__ import annotations

import numpy as np
import pytest
import torch
from haxmlnet.network.products import has_short_products

from haxmlnet.network import reading
from haxmlnet.network.encoder import BiLSTMEncoder

N_WORDS, WORD_SIZE, HIDDEN = 30, 6, 12


kinds = pytest.mark.parametrize(
    ("kind", "tolerance"),
    [
        (torch.float32, {"rtol": 1e-5, "atol": 2e-6}),
        pytest.param(torch.bfloat16, {"rtol": 0.0, "atol": 0.01}, marks=pytest.mark.skipif(
            not has_short_products(), reason="this processor does not multiply numbers of 16 bits"
        )),
    ],
    ids=["32 bits", "16 bits"],
)  # fmt: skip


def new_encoder(attend_words: bool, kind: torch.dtype = torch.float32) -> BiLSTMEncoder:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        words = torch.randn(N_WORDS, WORD_SIZE)
        return BiLSTMEncoder(words, HIDDEN, 0.2, 0.5, attend_words, sparse_words=False, kind=kind).eval()


def documents(n_documents: int, longest: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n_documents)
    lengths = torch.randint(1, longest + 1, (n_documents,), generator=generator)
    lengths[0] = longest
    tokens = torch.randint(2, N_WORDS, (n_documents, longest), generator=generator)
    return tokens * (torch.arange(longest) < lengths[:, None]), lengths


@kinds
@pytest.mark.parametrize("attend_words", [False, True])
@pytest.mark.parametrize("n_documents", [1, 3, reading.LEAST_AT_ONCE, 2 * reading.LEAST_AT_ONCE + 1])
def test_states_are_those_of_the_network_that_learns(n_documents, attend_words, kind, tolerance):
    encoder, (tokens, lengths) = new_encoder(attend_words, kind), documents(n_documents)
    expected = encoder(tokens, lengths)
    assert expected.requires_grad
    with torch.inference_mode():
        states = encoder(tokens, lengths)
    assert states.shape == expected.shape
    for row, length in enumerate(lengths):
        own = states[row, :length].float()
        torch.testing.assert_close(own, expected[row, :length].detach().float(), **tolerance)


@kinds
def test_states_are_of_the_kind_that_is_multiplied_and_near_those_of_32_bits(kind, tolerance):
    tokens, lengths = documents(2 * reading.LEAST_AT_ONCE)
    with torch.inference_mode():
        states, expected = (new_encoder(True, own)(tokens, lengths) for own in (kind, torch.float32))
    assert states.dtype == kind
    few = (x[: reading.LEAST_AT_ONCE - 1] for x in (tokens, lengths))
    with torch.inference_mode():
        assert new_encoder(True, kind)(*few).dtype == torch.float32
    torch.testing.assert_close(states.float(), expected, rtol=0.01, atol=0.02)


@pytest.mark.parametrize("n_documents", [2, reading.LEAST_AT_ONCE])
def test_states_of_padding_are_numbers(n_documents, monkeypatch):
    def full_of_noise(*shape, dtype=torch.float32):
        return torch.full(shape[0] if isinstance(shape[0], tuple) else shape, torch.nan, dtype=dtype)

    encoder, (tokens, lengths) = new_encoder(attend_words=True), documents(n_documents)
    lengths[1] = 4
    monkeypatch.setattr(torch, "empty", full_of_noise)
    with torch.inference_mode():
        states = encoder(tokens, lengths)
    assert torch.isfinite(states).all()
    assert not states[1, 4:, : 2 * HIDDEN].any()


@kinds
def test_a_document_has_the_same_states_alone_and_among_others(kind, tolerance):
    encoder, (tokens, lengths) = new_encoder(True, kind), documents(2 * reading.LEAST_AT_ONCE)
    with torch.inference_mode():
        together = encoder(tokens, lengths)
        for row, length in enumerate(lengths):
            alone = encoder(tokens[row : row + 1, :length], lengths[row : row + 1])
            torch.testing.assert_close(alone[0], together[row, :length].float(), **tolerance)


def test_a_network_that_learns_reads_with_dropout_where_no_gradient_is_asked_for():
    encoder, (tokens, lengths) = new_encoder(attend_words=False).train(), documents(3)
    with torch.no_grad():
        assert not torch.equal(encoder(tokens, lengths), encoder(tokens, lengths))


def test_activations_are_as_exact_as_their_type():
    # Of one unit with weights of zero, everything follows from what the word brings.
    values = np.linspace(-12, 12, 4801, dtype=np.float32)
    brought = np.stack([np.full_like(values, 30), np.zeros_like(values), values, np.full_like(values, 30)], axis=1)
    for row, value in zip(brought, values.astype(np.float64), strict=True):
        states = np.zeros((1, 1), np.float32)
        reading._read_document(row[None], np.zeros((4, 1), np.float32), np.zeros(1, np.int32), False, states, 0)
        assert states[0, 0] == pytest.approx(np.tanh(np.tanh(value)), abs=1e-6)
