from __future__ import annotations

import pytest
import torch
from torch import Tensor

from haxmlnet.network import attention
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.network import LabelAttentionNetwork

N_WORDS, WORD_SIZE, HIDDEN, N = 20, 5, 4, 9
LENGTHS = torch.tensor([6, 1, 3, 5])
TOKENS = torch.tensor([[3, 9, 4, 4, 12, 7], [5, 0, 0, 0, 0, 0], [19, 2, 8, 0, 0, 0], [6, 1, 11, 3, 3, 0]])

variants = pytest.mark.parametrize(
    ("mlp_sizes", "own_outputs", "attend_words"),
    [((8,), False, False), ((8, 6), True, True), ((8, 7, 6), False, True), ((8,), True, False)],
    ids=["paper", "deep, own, words", "deeper, words", "own"],
)


def new_network(
    mlp_sizes: tuple[int, ...] = (8, 6), own_outputs: bool = True, attend_words: bool = True, seed: int = 0
) -> LabelAttentionNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        encoder = BiLSTMEncoder(torch.randn(N_WORDS, WORD_SIZE), HIDDEN, 0.2, 0.5, attend_words, sparse_words=True)
        network = LabelAttentionNetwork(encoder, N, mlp_sizes, own_outputs, sparse_nodes=True)
        network.queries.weight.data.normal_()
        if network.outputs is not None:
            network.outputs.weight.data.normal_()
    return network.eval()


def textbook_logits(network: LabelAttentionNetwork, tokens: Tensor) -> Tensor:
    """One document without padding: m_j first, then the shared layers for each node."""
    states = network.encoder(tokens[None], torch.tensor([len(tokens)]))[0]  # (T, H)
    weights = torch.softmax(network.queries.weight @ states.T, dim=-1)  # (N, T)
    hidden = weights @ states  # m_j, (N, H)
    for layer in (network.first, *network.middle):
        hidden = layer(hidden)
    logits = network.last(hidden)[:, 0]
    if network.outputs is not None:
        own = network.outputs.weight
        logits = logits + (own[:, :-1] * hidden).sum(1) + own[:, -1]
    return logits


@variants
@torch.no_grad()
def test_the_first_layer_before_the_averaging_equals_the_textbook_order(mlp_sizes, own_outputs, attend_words):
    network = new_network(mlp_sizes, own_outputs, attend_words)
    logits = network(TOKENS, LENGTHS)
    assert logits.shape == (4, N)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(logits[row], textbook_logits(network, TOKENS[row, :length]), rtol=1e-5, atol=1e-5)


@variants
@pytest.mark.parametrize("max_plain", [2**23, 0], ids=["plain", "fused"])
@torch.no_grad()
def test_padding_never_changes_a_result(monkeypatch, mlp_sizes, own_outputs, attend_words, max_plain):
    monkeypatch.setattr(attention, "MAX_PLAIN_WEIGHTS", max_plain)
    network = new_network(mlp_sizes, own_outputs, attend_words)
    nodes = torch.arange(N).expand(4, N)
    for candidates in (None, nodes):
        batch = network(TOKENS, LENGTHS, candidates)
        wider = torch.cat([TOKENS, torch.zeros(4, 30, dtype=torch.long)], dim=1)
        torch.testing.assert_close(network(wider, LENGTHS, candidates), batch, rtol=0, atol=1e-5)
        for row, length in enumerate(LENGTHS):
            own = None if candidates is None else candidates[row : row + 1]
            alone = network(TOKENS[row : row + 1, :length], LENGTHS[row : row + 1], own)
            torch.testing.assert_close(alone[0], batch[row], rtol=0, atol=1e-5)


@variants
@pytest.mark.parametrize("max_plain", [2**23, 0], ids=["plain", "fused"])
@torch.no_grad()
def test_candidates_have_the_logits_of_their_columns(monkeypatch, mlp_sizes, own_outputs, attend_words, max_plain):
    network = new_network(mlp_sizes, own_outputs, attend_words)
    every = network(TOKENS, LENGTHS)
    monkeypatch.setattr(attention, "MAX_PLAIN_WEIGHTS", max_plain)
    candidates = torch.tensor([[3, 0, 8], [1, 1, 2], [7, 6, 5], [0, 4, 0]])
    torch.testing.assert_close(network(TOKENS, LENGTHS, candidates), every.gather(1, candidates), rtol=0, atol=1e-5)


@pytest.mark.parametrize("rate", [0.5, 0.02, 1e-4])
@torch.no_grad()
def test_start_bias_gives_the_mean_rate_at_the_start(rate):
    network = new_network()
    network.outputs.weight.zero_()
    network.last.weight.mul_(1e-4)
    network.start_bias(rate)
    probabilities = network(TOKENS, LENGTHS).sigmoid()
    torch.testing.assert_close(probabilities, torch.full((4, N), rate), rtol=0.01, atol=0)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_start_bias_is_finite_for_labels_of_none_or_all(rate):
    network = new_network()
    network.start_bias(rate)
    assert network.last.bias.isfinite().all()


def test_own_outputs_start_at_zero():
    encoder = new_network().encoder
    assert not LabelAttentionNetwork(encoder, N, (8,), own_outputs=True, sparse_nodes=False).outputs.weight.any()


@torch.no_grad()
def test_start_queries_make_nodes_attend_to_words_like_theirs():
    network = new_network()
    network.queries.weight.zero_()
    words = network.encoder.words.weight
    nodes = words[torch.arange(2, 2 + N)]
    network.start_queries(nodes / nodes.norm(dim=1, keepdim=True), 50.0)
    states = network.encoder(TOKENS[:1], LENGTHS[:1])
    weights = attention.attention_weights(network.queries.weight, states, LENGTHS[:1])[0]  # (N, T)
    for node in range(N):
        likest = (words[TOKENS[0]] @ nodes[node]).argmax()
        assert TOKENS[0, weights[node].argmax()] == TOKENS[0, likest]


def test_start_from_takes_all_but_what_nodes_own():
    above, network = new_network(seed=1), new_network(seed=2)
    queries, outputs = network.queries.weight.clone(), network.outputs.weight.clone()
    network.start_from(above)
    for name, value in network.state_dict().items():
        if name not in ("queries.weight", "outputs.weight"):
            assert torch.equal(value, above.state_dict()[name]), name
    assert torch.equal(network.queries.weight, queries)
    assert torch.equal(network.outputs.weight, outputs)
    above.first.weight.data.zero_()
    assert network.first.weight.any()


def test_only_the_rows_of_candidates_get_gradients():
    network = new_network()
    network(TOKENS, LENGTHS, torch.tensor([[3, 0], [3, 8], [0, 0], [8, 3]])).sum().backward()
    for table in (network.queries, network.outputs):
        assert sorted(set(table.weight.grad.coalesce().indices()[0].tolist())) == [0, 3, 8]
