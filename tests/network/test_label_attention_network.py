from __future__ import annotations

import pytest
import torch
from torch import Tensor

from haxmlnet.network.attention import attention_weights
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
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
    mlp_sizes: tuple[int, ...] = (8, 6),
    own_outputs: bool = True,
    attend_words: bool = True,
    seed: int = 0,
    sizes: tuple[int, ...] = (N,),
    first_level: int = 0,
) -> LabelAttentionNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        encoder = BiLSTMEncoder(torch.randn(N_WORDS, WORD_SIZE), HIDDEN, 0.2, 0.5, attend_words, sparse_words=True)
        heads = [LabelHead(encoder.state_size, size, mlp_sizes, own_outputs, sparse_nodes=True) for size in sizes]
        for head in heads:
            head.queries.weight.data.normal_()
            if head.outputs is not None:
                head.outputs.weight.data.normal_()
    return LabelAttentionNetwork(encoder, heads, first_level).eval()


def logits_of(
    network: LabelAttentionNetwork, tokens: Tensor, lengths: Tensor, candidates: Tensor | None = None, level: int = 0
) -> Tensor:
    return network.head(level)(network.encode(tokens, lengths), lengths, candidates)


def textbook_logits(network: LabelAttentionNetwork, tokens: Tensor) -> Tensor:
    """One document without padding: m_j first, then the shared layers for each node."""
    head = network.head(0)
    states = network.encoder(tokens[None], torch.tensor([len(tokens)]))[0]  # (T, H)
    weights = torch.softmax(head.queries.weight @ states.T, dim=-1)  # (N, T)
    hidden = weights @ states  # m_j, (N, H)
    for layer in (head.first, *head.middle):
        hidden = layer(hidden)
    logits = head.last(hidden)[:, 0]
    if head.outputs is not None:
        own = head.outputs.weight
        logits = logits + (own[:, :-1] * hidden).sum(1) + own[:, -1]
    return logits


@variants
@torch.no_grad()
def test_the_first_layer_before_the_averaging_equals_the_textbook_order(mlp_sizes, own_outputs, attend_words):
    network = new_network(mlp_sizes, own_outputs, attend_words)
    logits = logits_of(network, TOKENS, LENGTHS)
    assert logits.shape == (4, N)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(logits[row], textbook_logits(network, TOKENS[row, :length]), rtol=1e-5, atol=1e-5)


@variants
@torch.no_grad()
def test_padding_never_changes_a_result(mlp_sizes, own_outputs, attend_words):
    network = new_network(mlp_sizes, own_outputs, attend_words)
    nodes = torch.arange(N).expand(4, N)
    for candidates in (None, nodes):
        batch = logits_of(network, TOKENS, LENGTHS, candidates)
        wider = torch.cat([TOKENS, torch.zeros(4, 30, dtype=torch.long)], dim=1)
        torch.testing.assert_close(logits_of(network, wider, LENGTHS, candidates), batch, rtol=0, atol=1e-5)
        for row, length in enumerate(LENGTHS):
            own = None if candidates is None else candidates[row : row + 1]
            alone = logits_of(network, TOKENS[row : row + 1, :length], LENGTHS[row : row + 1], own)
            torch.testing.assert_close(alone[0], batch[row], rtol=0, atol=1e-5)


@variants
@torch.no_grad()
def test_candidates_have_the_logits_of_their_columns(mlp_sizes, own_outputs, attend_words):
    network = new_network(mlp_sizes, own_outputs, attend_words)
    every = logits_of(network, TOKENS, LENGTHS)
    torch.testing.assert_close(
        logits_of(network, TOKENS, LENGTHS, CANDIDATES), every.gather(1, CANDIDATES), rtol=0, atol=1e-5
    )


CANDIDATES = torch.tensor([[3, 0, 8], [1, 1, 2], [7, 6, 5], [0, 4, 0]])


def test_absent_candidates_change_nothing_and_touch_no_other_node():
    network = new_network()
    candidates = torch.tensor([[3, 0, -1], [1, -1, -1], [7, 6, 5], [-1, -1, -1]])
    present = candidates >= 0
    logits = logits_of(network, TOKENS, LENGTHS, candidates)
    every = logits_of(network, TOKENS, LENGTHS).detach()
    torch.testing.assert_close(logits[present], every.gather(1, candidates.clamp(min=0))[present], rtol=0, atol=1e-5)
    (logits * present).sum().backward()
    for table in (network.head(0).queries, network.head(0).outputs):
        assert sorted(set(table.weight.grad.coalesce().indices()[0].tolist())) == [0, 1, 3, 5, 6, 7]


@pytest.mark.parametrize("rate", [0.5, 0.02, 1e-4])
@torch.no_grad()
def test_start_bias_gives_the_mean_rate_at_the_start(rate):
    network = new_network()
    head = network.head(0)
    head.outputs.weight.zero_()
    head.last.weight.mul_(1e-4)
    head.start_bias(rate)
    probabilities = logits_of(network, TOKENS, LENGTHS).sigmoid()
    torch.testing.assert_close(probabilities, torch.full((4, N), rate), rtol=0.01, atol=0)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_start_bias_is_finite_for_labels_of_none_or_all(rate):
    head = new_network().head(0)
    head.start_bias(rate)
    assert head.last.bias.isfinite().all()


def test_own_outputs_start_at_zero():
    assert not LabelHead(8, N, (8,), own_outputs=True, sparse_nodes=False).outputs.weight.any()


@torch.no_grad()
def test_start_queries_make_nodes_attend_to_words_like_theirs():
    network = new_network()
    head = network.head(0)
    head.queries.weight.zero_()
    words = network.encoder.words.weight
    nodes = words[torch.arange(2, 2 + N)]
    head.start_queries(nodes / nodes.norm(dim=1, keepdim=True), 50.0)
    states = network.encoder(TOKENS[:1], LENGTHS[:1])
    weights = attention_weights(head.queries.weight, states, LENGTHS[:1])[0]  # (N, T)
    for node in range(N):
        likest = (words[TOKENS[0]] @ nodes[node]).argmax()
        assert TOKENS[0, weights[node].argmax()] == TOKENS[0, likest]


def test_start_from_takes_all_but_what_nodes_own():
    above, network = new_network(seed=1), new_network(seed=2, first_level=1)
    owned = {"heads.0.queries.weight", "heads.0.outputs.weight"}
    before = {name: value.clone() for name, value in network.state_dict().items()}
    network.start_from(above)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name] if name in owned else above.state_dict()[name]), name
        assert not torch.equal(before[name], above.state_dict()[name]), name
    above.head(0).first.weight.data.zero_()
    assert network.head(1).first.weight.any()


def test_start_from_takes_the_shared_layers_of_the_last_level_above():
    above, network = new_network(seed=1, sizes=(2, 4)), new_network(seed=2, sizes=(N, 2 * N), first_level=2)
    network.start_from(above)
    for level in network.levels:
        assert torch.equal(network.head(level).last.weight, above.head(1).last.weight)
        assert not torch.equal(network.head(level).last.weight, above.head(0).last.weight)


def test_only_the_rows_of_candidates_get_gradients():
    network = new_network()
    logits_of(network, TOKENS, LENGTHS, torch.tensor([[3, 0], [3, 8], [0, 0], [8, 3]])).sum().backward()
    for table in (network.head(0).queries, network.head(0).outputs):
        assert sorted(set(table.weight.grad.coalesce().indices()[0].tolist())) == [0, 3, 8]


def test_levels_are_counted_from_the_top_of_the_tree():
    network = new_network(sizes=(4, N), first_level=2)
    assert list(network.levels) == [2, 3]
    assert [network.head(level).n_nodes for level in network.levels] == [4, N]
    assert network.head(3) is network.heads[1]
    assert network.device == torch.device("cpu")


def copy_of_level(network: LabelAttentionNetwork, level: int) -> LabelAttentionNetwork:
    """Make a network of one level with the same weights, but an encoder of its own."""
    copy = new_network(seed=9, sizes=(network.head(level).n_nodes,), first_level=level)
    copy.encoder.load_state_dict(network.encoder.state_dict())
    copy.head(level).load_state_dict(network.head(level).state_dict())
    return copy


@torch.no_grad()
def test_two_levels_on_one_encoder_are_two_networks_with_the_same_weights():
    network = new_network(sizes=(4, N), first_level=1)
    candidates = torch.tensor([[3, 0, 8], [1, 1, 2], [7, 6, 5], [0, 4, 0]])
    for level, chosen in [(1, None), (2, None), (2, candidates)]:
        alone = logits_of(copy_of_level(network, level), TOKENS, LENGTHS, chosen, level)
        assert torch.equal(logits_of(network, TOKENS, LENGTHS, chosen, level), alone)


def test_the_gradient_of_a_shared_encoder_is_the_sum_of_those_of_its_levels():
    network = new_network(sizes=(4, N))
    copies = [copy_of_level(network, level) for level in network.levels]
    states = network.encode(TOKENS, LENGTHS)
    sum(network.head(level)(states, LENGTHS).square().sum() for level in network.levels).backward()
    for level, copy in enumerate(copies):
        logits_of(copy, TOKENS, LENGTHS, level=level).square().sum().backward()
    for shared, *own in zip(network.encoder.parameters(), *(copy.encoder.parameters() for copy in copies), strict=True):
        expected = sum(weight.grad.to_dense() for weight in own)
        torch.testing.assert_close(shared.grad.to_dense(), expected, rtol=1e-4, atol=1e-4)


def test_a_generator_decides_what_is_dropped():
    network = new_network().train()
    encoded = [network.encode(TOKENS, LENGTHS, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(encoded[0], encoded[1])
    assert not torch.equal(encoded[0], encoded[2])
