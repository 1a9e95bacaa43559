"""Which fast form stands for which module of a network."""

from __future__ import annotations

import copy

import torch
from torch import nn

from haxmlnet.cpu.fast_encoder import FastEncoder
from haxmlnet.cpu.fast_head import FastHead
from haxmlnet.cpu.matmul import FastLinear
from haxmlnet.network.encoder import BiLSTMEncoder
from haxmlnet.network.head import LabelHead
from haxmlnet.network.network import LabelAttentionNetwork

ALIGNMENT = 64


def accelerate(network: LabelAttentionNetwork, dtype: torch.dtype) -> LabelAttentionNetwork:
    """Give the modules of a network on a CPU their fast forms, which multiply in float32 or bfloat16.

    Weights and their names stay. In eval mode no gradients pass through the fast forms: see `plain_form`.
    """
    tables = {id(m.weight) for m in network.modules() if isinstance(m, nn.Embedding) and m.sparse}
    for weight in network.parameters():
        # Weights of a mapped file may lie askew in memory, where matmul adds up in another order: a model would not
        # predict to the last bit what it did before it was saved. Of tables, only rows are taken.
        if weight.data_ptr() % ALIGNMENT and id(weight) not in tables:
            weight.data = weight.data.clone()

    network.dtype = dtype
    encoder = network.encoder
    encoder.__class__ = FastEncoder
    assert isinstance(encoder, FastEncoder)
    encoder.dtype = dtype
    for head in network.heads:
        assert isinstance(head, LabelHead)
        head.__class__ = FastHead
        for layer in head.middle:
            if isinstance(layer, nn.Linear):
                layer.__class__ = FastLinear
    return network


def plain_form(network: LabelAttentionNetwork) -> LabelAttentionNetwork:
    """Return a network of plain modules that shares all weights: in eval mode, too, gradients pass through it."""
    weights = {id(weight): weight for weight in network.parameters()}
    plain = copy.deepcopy(network, weights)
    plain.dtype = torch.float32
    for module in plain.modules():
        for form in (BiLSTMEncoder, LabelHead, nn.Linear):
            if isinstance(module, form):
                module.__class__ = form
    return plain
