from __future__ import annotations

import pytest
import torch
from haxmlnet.network.products import has_short_products
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from haxmlnet.network.encoder import BiLSTMEncoder, reversed_rows, turned

N_WORDS, WORD_SIZE, HIDDEN = 20, 5, 4
LENGTHS = torch.tensor([6, 1, 3, 5])


def new_encoder(attend_words: bool = False) -> BiLSTMEncoder:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        vectors = torch.randn(N_WORDS, WORD_SIZE)
        return BiLSTMEncoder(vectors, HIDDEN, 0.2, 0.5, attend_words, sparse_words=False).eval()


def tokens_of(lengths: Tensor) -> Tensor:
    tokens = torch.randint(2, N_WORDS, (len(lengths), int(lengths.max())), generator=torch.Generator().manual_seed(1))
    return tokens * (torch.arange(tokens.shape[1]) < lengths[:, None])


def packed_bilstm(encoder: BiLSTMEncoder) -> nn.LSTM:
    lstm = nn.LSTM(WORD_SIZE, HIDDEN, batch_first=True, bidirectional=True)
    weights = dict(encoder.forward_lstm.state_dict())
    weights |= {f"{name}_reverse": value for name, value in encoder.backward_lstm.state_dict().items()}
    lstm.load_state_dict(weights)
    return lstm


def test_states_equal_those_of_a_packed_bilstm():
    encoder, tokens = new_encoder(), tokens_of(LENGTHS)
    packed = pack_padded_sequence(encoder.words(tokens), LENGTHS, batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(packed_bilstm(encoder)(packed)[0], batch_first=True)
    states = encoder(tokens, LENGTHS)
    assert states.shape == (4, 6, 2 * HIDDEN)
    assert encoder.state_size == 2 * HIDDEN
    for document, length in enumerate(LENGTHS):
        torch.testing.assert_close(states[document, :length], expected[document, :length], rtol=1e-5, atol=1e-6)


def test_attended_words_follow_the_states():
    encoder, tokens = new_encoder(attend_words=True), tokens_of(LENGTHS)
    states = encoder(tokens, LENGTHS)
    assert encoder.state_size == states.shape[-1] == 2 * HIDDEN + WORD_SIZE
    torch.testing.assert_close(states[..., : 2 * HIDDEN], new_encoder()(tokens, LENGTHS))
    torch.testing.assert_close(states[..., 2 * HIDDEN :], encoder.words(tokens))


def test_dropout_is_on_in_training_alone():
    encoder, tokens = new_encoder(), tokens_of(LENGTHS)
    assert torch.equal(encoder(tokens, LENGTHS), encoder(tokens, LENGTHS))
    encoder.train()
    assert not torch.equal(encoder(tokens, LENGTHS), encoder(tokens, LENGTHS))


@pytest.mark.parametrize(("word_dropout", "state_dropout"), [(0.5, 0), (0, 0.5)], ids=["words", "states"])
def test_a_generator_decides_every_dropout(word_dropout, state_dropout):
    encoder = BiLSTMEncoder(torch.ones(N_WORDS, WORD_SIZE), HIDDEN, word_dropout, state_dropout, False, False)
    before = torch.get_rng_state()
    states = [encoder(tokens_of(LENGTHS), LENGTHS, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_rows_turn_the_words_around_and_leave_padding():
    rows = reversed_rows(torch.tensor([3, 1, 4]), 4)
    letters = torch.arange(12.0).reshape(3, 4).T[..., None]  # (T, B, 1)
    around = turned(letters, rows)
    assert around[..., 0].T.tolist() == [[2, 1, 0, 3], [4, 5, 6, 7], [11, 10, 9, 8]]
    assert torch.equal(turned(around, rows), letters)


@pytest.mark.parametrize("attend_words", [False, True])
@pytest.mark.parametrize("dropout", [0, 0.5])
def test_gradients_are_those_of_the_formula(attend_words, dropout):
    encoder = BiLSTMEncoder(torch.randn(N_WORDS, WORD_SIZE), HIDDEN, dropout, dropout, attend_words, False).double()
    tokens, weights = tokens_of(LENGTHS), list(encoder.parameters())

    def states(*_: Tensor) -> Tensor:
        return encoder(tokens, LENGTHS, torch.Generator().manual_seed(0))

    assert torch.autograd.gradcheck(states, weights)


@pytest.mark.skipif(not has_short_products(), reason="this processor does not multiply numbers of 16 bits")
@pytest.mark.parametrize("attend_words", [False, True])
def test_gradients_of_numbers_of_16_bits_are_near_and_have_32(attend_words):
    encoder, wanted = new_encoder(attend_words), torch.randn(4, 6, 1, generator=torch.Generator().manual_seed(2))

    def gradients(kind: torch.dtype) -> list[Tensor]:
        encoder.kind = kind
        states = encoder(tokens_of(LENGTHS), LENGTHS)
        assert states.dtype == kind
        return list(torch.autograd.grad((states * wanted).sum(), list(encoder.parameters())))

    short = gradients(torch.bfloat16)
    assert {gradient.dtype for gradient in short} == {torch.float32}
    for own, expected in zip(short, gradients(torch.float32), strict=True):
        torch.testing.assert_close(own, expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("sparse", [True, False])
def test_gradients_of_words_are_sparse_if_asked(sparse):
    encoder = BiLSTMEncoder(torch.randn(N_WORDS, WORD_SIZE), HIDDEN, 0, 0, False, sparse_words=sparse)
    encoder(tokens_of(LENGTHS), LENGTHS).sum().backward()
    assert encoder.words.weight.grad.is_sparse == sparse
