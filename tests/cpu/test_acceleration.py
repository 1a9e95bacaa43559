from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor

from haxmlnet import cpu
from haxmlnet.cpu import document_attention
from haxmlnet.cpu.acceleration import accelerate, plain_form
from haxmlnet.cpu.fast_encoder import FastEncoder
from haxmlnet.cpu.fast_head import FastHead, _OwnLogits
from haxmlnet.cpu.lstm_inference import MIN_BATCH
from haxmlnet.cpu.matmul import has_bfloat16_matmul
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork

N_WORDS, WORD_SIZE, HIDDEN, N, C = 40, 6, 12, 30, 11
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
variants = pytest.mark.parametrize(
    ("mlp_sizes", "own_outputs", "attend_words"),
    [((8,), False, False), ((8, 6), True, True), ((8, 7, 6), False, True), ((8,), True, False)],
    ids=["paper", "deep, own, words", "deeper, words", "own"],
)
sizes = pytest.mark.parametrize("large", [True, False], ids=["large documents", "small documents"])


@pytest.fixture(autouse=True)
def seeded():
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        yield


def new_network(
    mlp_sizes: tuple[int, ...] = (8, 6), own_outputs: bool = True, attend_words: bool = True, dropout: float = 0.0
) -> LabelAttentionNetwork:
    encoder = BiLSTMEncoder(torch.randn(N_WORDS, WORD_SIZE), HIDDEN, dropout, dropout, attend_words, True)
    heads = [LabelHead(encoder.state_size, n, mlp_sizes, own_outputs, n == N) for n in (5, N)]
    for head in heads:
        head.queries.weight.data.normal_()
        if head.outputs is not None:
            head.outputs.weight.data.normal_()
    return LabelAttentionNetwork(encoder, heads)


def documents(n_documents: int, longest: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, lengths and candidates, absent ones among them."""
    lengths = torch.randint(1, longest + 1, (n_documents,))
    lengths[0] = longest
    tokens = torch.randint(2, N_WORDS, (n_documents, longest)) * (torch.arange(longest) < lengths[:, None])
    candidates = torch.stack([torch.randperm(N)[:C] for _ in range(n_documents)])
    counts = torch.randint(1, C + 1, (n_documents,))
    counts[0] = C
    return tokens, lengths, candidates.masked_fill(torch.arange(C) >= counts[:, None], -1)


def logits_of(network: LabelAttentionNetwork, tokens: Tensor, lengths: Tensor, candidates: Tensor) -> list[Tensor]:
    """Logits of all nodes, and those of the candidates that are there."""
    states = network.encode(tokens, lengths, torch.Generator().manual_seed(0))
    return [
        network.head(0)(states, lengths).float(),
        network.head(1)(states, lengths).float(),
        network.head(1)(states, lengths, candidates).float()[candidates >= 0],
    ]


def make_large(monkeypatch: pytest.MonkeyPatch, large: bool) -> None:
    monkeypatch.setattr(document_attention, "MIN_OPERATIONS", 0 if large else 2**60)


@variants
@sizes
@pytest.mark.parametrize("n_documents", [3, MIN_BATCH])
def test_training_has_the_logits_and_gradients_of_the_plain_form(
    monkeypatch, n_documents, large, mlp_sizes, own_outputs, attend_words
):
    make_large(monkeypatch, large)
    plain = new_network(mlp_sizes, own_outputs, attend_words)
    fast, batch = accelerate(copy.deepcopy(plain), torch.float32), documents(n_documents)
    expected, own = logits_of(plain, *batch), logits_of(fast, *batch)
    torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-5)
    gradients = []
    for network, logits in ((fast, own), (plain, expected)):
        loss = sum(x.sigmoid().square().sum() for x in logits)
        found = torch.autograd.grad(loss, list(network.parameters()))
        gradients.append([gradient.to_dense() for gradient in found])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not has_bfloat16_matmul(), reason="this processor has no bfloat16")
@sizes
def test_training_in_bfloat16_is_near_and_gradients_are_float32(monkeypatch, large):
    make_large(monkeypatch, large)
    plain = new_network()
    fast, batch = accelerate(copy.deepcopy(plain), torch.bfloat16), documents(2 * MIN_BATCH)
    assert fast.encode(*batch[:2]).dtype == torch.bfloat16
    gradients = []
    for network in (fast, plain):
        loss = sum(x.sigmoid().sum() for x in logits_of(network, *batch))
        found = torch.autograd.grad(loss, list(network.parameters()))
        assert {gradient.dtype for gradient in found} == {torch.float32}
        gradients.append(torch.cat([gradient.to_dense().flatten() for gradient in found]))
    assert (gradients[0] - gradients[1]).norm() < 0.05 * gradients[1].norm()


@variants
@sizes
@dtypes
@pytest.mark.parametrize("n_documents", [1, 3, MIN_BATCH])
def test_eval_mode_has_the_logits_of_the_plain_form(
    monkeypatch, n_documents, dtype, large, mlp_sizes, own_outputs, attend_words
):
    make_large(monkeypatch, large)
    plain = new_network(mlp_sizes, own_outputs, attend_words).eval()
    fast, batch = accelerate(copy.deepcopy(plain), dtype), documents(n_documents)
    expected, own = logits_of(plain, *batch), logits_of(fast, *batch)
    assert not any(logits.requires_grad for logits in own)
    if dtype == torch.float32:
        torch.testing.assert_close(own, expected, rtol=1e-5, atol=1e-5)
    else:
        probabilities = [[x.sigmoid() for x in logits] for logits in (own, expected)]
        torch.testing.assert_close(*probabilities, rtol=0, atol=0.1)


@sizes
@dtypes
def test_a_document_has_the_same_logits_alone_and_in_a_batch(monkeypatch, dtype, large):
    make_large(monkeypatch, large)
    network = new_network(mlp_sizes=(32,)).eval()
    with torch.no_grad():  # strong weights: in bfloat16 alone and float32 in a batch, probabilities would differ by 0.1
        for weight in network.parameters():
            weight.mul_(2)
    accelerate(network, dtype)
    tokens, lengths, candidates = documents(40, longest=60)
    candidates = candidates.where(candidates >= 0, candidates[:, :1])
    together = network.encode(tokens, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = network.encode(tokens[row : row + 1, :length], lengths[row : row + 1])
        assert alone.dtype == together.dtype == dtype
        for level, own in ((0, None), (1, None), (1, candidates)):
            batch = network.head(level)(together, lengths, own)[row]
            logits = network.head(level)(alone, lengths[row : row + 1], None if own is None else own[row : row + 1])[0]
            if dtype == torch.float32:
                torch.testing.assert_close(logits, batch, rtol=0, atol=1e-5 * max(1, float(batch.abs().max())))
            else:
                torch.testing.assert_close(logits.sigmoid(), batch.sigmoid(), rtol=0, atol=0.01)


def test_a_generator_decides_what_is_dropped_in_training_alone():
    network, (tokens, lengths, _) = accelerate(new_network(dropout=0.5), torch.float32), documents(4)
    before = torch.get_rng_state()
    encoded = [network.encode(tokens, lengths, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(encoded[0], encoded[1])
    assert not torch.equal(encoded[0], encoded[2])
    assert torch.equal(torch.get_rng_state(), before)
    with torch.no_grad():
        assert torch.equal(network.encode(tokens, lengths, torch.Generator().manual_seed(1)), encoded[0])
    network.eval()
    assert torch.equal(network.encode(tokens, lengths), network.encode(tokens, lengths))


@pytest.mark.parametrize("attend_words", [False, True])
def test_dropout_drops_states_and_words_before_the_lstm(attend_words):
    network = accelerate(new_network(attend_words=attend_words, dropout=0.5), torch.float32)
    tokens, lengths, _ = documents(30)
    states = network.encode(tokens, lengths)
    assert (states[..., : 2 * HIDDEN] == 0).float().mean() == pytest.approx(0.5, abs=0.03)
    states.square().sum().backward()
    assert all(weight.grad is not None for weight in network.encoder.parameters())


def test_only_the_rows_of_candidates_get_gradients():
    network, (tokens, lengths, _) = accelerate(new_network(), torch.float32), documents(4)
    candidates = torch.tensor([[3, 0, -1], [3, 8, 1], [0, -1, -1], [-1, -1, -1]])
    logits = network.head(1)(network.encode(tokens, lengths), lengths, candidates)
    (logits * (candidates >= 0)).sum().backward()
    for table in (network.head(1).queries, network.head(1).outputs):
        assert sorted(set(table.weight.grad.coalesce().indices()[0].tolist())) == [0, 1, 3, 8]


@pytest.mark.parametrize("shape", [(3, 6), (2, 3, 6)], ids=["all nodes", "candidates"])
def test_gradients_of_own_outputs_are_those_of_the_formula(shape):
    hidden = torch.randn((2, 3, 5), dtype=torch.float64, requires_grad=True)
    own = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(_OwnLogits.apply, (hidden, own))


def test_weights_keep_their_names_and_copies_are_as_fast():
    plain = new_network()
    before = plain.state_dict()
    fast = accelerate(plain, torch.bfloat16)
    assert fast is plain
    assert list(fast.state_dict()) == list(before)
    for network in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)), accelerate(fast, torch.bfloat16)):
        assert isinstance(network.encoder, FastEncoder)
        assert all(isinstance(head, FastHead) for head in network.heads)
        assert network.dtype == network.encoder.dtype == torch.bfloat16


def test_gradients_pass_through_the_plain_form_in_eval_mode():
    network, batch = accelerate(new_network(), torch.float32).eval(), documents(3)
    plain = plain_form(network)
    assert {type(plain.encoder), *map(type, plain.heads)} == {BiLSTMEncoder, LabelHead}
    assert isinstance(network.encoder, FastEncoder)
    for own, shared in zip(plain.parameters(), network.parameters(), strict=True):
        assert own is shared
    logits = logits_of(plain, *batch)
    torch.testing.assert_close([x.detach() for x in logits], logits_of(network, *batch), rtol=1e-5, atol=1e-5)
    states = plain.encode(*batch[:2]).detach().requires_grad_()
    plain.head(0)(states, batch[1]).sum().backward()
    assert states.grad.any()


def test_one_document_is_encoded_in_two_threads_as_in_one():
    network, (tokens, lengths, _) = accelerate(new_network(), torch.float32).eval(), documents(1)
    expected = network.encode(tokens, lengths)
    torch.set_num_threads(2)
    assert torch.equal(network.encode(tokens, lengths), expected)
    both = cpu.side_by_side([lambda: network.encode(tokens, lengths)] * 2)
    assert all(torch.equal(states, expected) for states in both)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("training", [True, False])
def test_no_documents(training):
    network = accelerate(new_network(), torch.float32).train(training)
    tokens, lengths, candidates = (x[:0] for x in documents(1))
    states = network.encode(tokens, lengths)
    assert network.head(0)(states, lengths).shape == (0, 5)
    assert network.head(1)(states, lengths, candidates).shape == (0, C)
