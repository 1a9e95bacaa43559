from __future__ import annotations

import numpy as np
import pytest
import torch

from haxmlnet.cpu import lstm_inference
from haxmlnet.cpu.lstm_inference import MIN_BATCH, encode_documents
from haxmlnet.cpu.matmul import has_bfloat16_matmul
from haxmlnet.network.encoder import BiLSTMEncoder

N_WORDS, WORD_SIZE, HIDDEN = 30, 6, 12

dtypes = pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        pytest.param(torch.bfloat16, marks=pytest.mark.skipif(
            not has_bfloat16_matmul(), reason="this processor has no bfloat16"
        )),
    ],
    ids=["float32", "bfloat16"],
)  # fmt: skip
CLOSE = {torch.float32: {"rtol": 1e-5, "atol": 2e-6}, torch.bfloat16: {"rtol": 0.01, "atol": 0.02}}


def new_encoder(attend_words: bool) -> BiLSTMEncoder:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        words = torch.randn(N_WORDS, WORD_SIZE)
        return BiLSTMEncoder(words, HIDDEN, 0.2, 0.5, attend_words, sparse_words=False).eval()


def documents(n_documents: int, longest: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n_documents)
    lengths = torch.randint(1, longest + 1, (n_documents,), generator=generator)
    lengths[0] = longest
    tokens = torch.randint(2, N_WORDS, (n_documents, longest), generator=generator)
    return tokens * (torch.arange(longest) < lengths[:, None]), lengths


@dtypes
@pytest.mark.parametrize("attend_words", [False, True])
@pytest.mark.parametrize("n_documents", [1, 3, MIN_BATCH, 2 * MIN_BATCH + 1])
def test_states_are_those_of_the_plain_encoder(n_documents, attend_words, dtype):
    encoder, (tokens, lengths) = new_encoder(attend_words), documents(n_documents)
    expected = encoder(tokens, lengths).detach()
    states = encode_documents(encoder, tokens, lengths, dtype)
    assert (states.shape, states.dtype, states.requires_grad) == (expected.shape, dtype, False)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(states[row, :length].float(), expected[row, :length], **CLOSE[dtype])


@pytest.mark.parametrize("n_documents", [2, MIN_BATCH])
def test_states_of_padding_are_numbers(n_documents, monkeypatch):
    def full_of_noise(*shape, dtype=torch.float32):
        return torch.full(shape[0] if isinstance(shape[0], tuple) else shape, torch.nan, dtype=dtype)

    encoder, (tokens, lengths) = new_encoder(attend_words=True), documents(n_documents)
    lengths[1] = 4
    monkeypatch.setattr(torch, "empty", full_of_noise)
    states = encode_documents(encoder, tokens, lengths, torch.float32)
    assert torch.isfinite(states).all()
    assert not states[1, 4:, : 2 * HIDDEN].any()


@dtypes
def test_a_document_has_the_same_states_alone_and_among_others(dtype):
    encoder, (tokens, lengths) = new_encoder(True), documents(2 * MIN_BATCH)
    with torch.no_grad():
        for lstm in (encoder.forward_lstm, encoder.backward_lstm):
            lstm.weight_hh_l0.mul_(6)  # what is rounded in one step is felt in the next ones
    together = encode_documents(encoder, tokens, lengths, dtype)
    for row, length in enumerate(lengths):
        alone = encode_documents(encoder, tokens[row : row + 1, :length], lengths[row : row + 1], dtype)
        atol = 1e-5 if dtype == torch.float32 else 2**-7  # bfloat16 has steps of 2**-8 below 1
        torch.testing.assert_close(alone[0], together[row, :length], rtol=0, atol=atol)


def test_weights_that_change_are_noticed():
    encoder, (tokens, lengths) = new_encoder(attend_words=False), documents(1)
    before = encode_documents(encoder, tokens, lengths, torch.bfloat16)
    encoder.load_state_dict({name: 2 * value for name, value in encoder.state_dict().items()})
    after = encode_documents(encoder, tokens, lengths, torch.bfloat16)
    assert (before != after).float().mean() > 0.9


def test_activations_are_as_exact_as_their_type():
    # Of one unit with weights of zero, everything follows from what comes from the word.
    values = np.linspace(-12, 12, 4801, dtype=np.float32)
    from_word = np.stack([np.full_like(values, 30), np.zeros_like(values), values, np.full_like(values, 30)], axis=1)
    for row, value in zip(from_word, values.astype(np.float64), strict=True):
        states = np.zeros((1, 1), np.float32)
        lstm_inference.encode_document(row[None], np.zeros((4, 1), np.float32), np.zeros(1, np.int32), False, states, 0)
        assert states[0, 0] == pytest.approx(np.tanh(np.tanh(value)), abs=1e-6)
