from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from frames import config_of, frame_of
from toy_networks import TREE

from haxmlnet.errors import ModelError
from haxmlnet.evidence.level_networks import (
    average_word_vectors,
    get_weights,
    group_levels,
    load_network,
    new_network,
    restore_network,
)
from haxmlnet.evidence.protocol import Run
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.tree import LabelTree

SMALL = {"hidden_size": 3, "mlp_sizes": (5,), "device": "cpu", "precision": "float32"}


def small_network(levels: range, number: int = 0) -> LabelAttentionNetwork:
    return new_network(torch.ones(30, 4), TREE, levels, Run(config_of(100, 11, **SMALL), number))


@pytest.mark.parametrize("labels_at_once", [3, 100])
def test_a_node_starts_from_the_words_of_the_labels_below_it(labels_at_once, monkeypatch):
    monkeypatch.setattr("haxmlnet.evidence.level_networks.BLOCK_LABELS", labels_at_once)
    features = sp.csr_array(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 2]], np.float32))
    words = np.array([[4, 0], [0, 4], [-2, -2]], np.float32)
    tree = LabelTree((np.array([0, 0, 1], np.int32), np.array([0, 1, 2, 2], np.int32)), 4)
    fold = SimpleNamespace(label_features=features, word_vectors=words)
    sums = {
        2: [[4, 0], [0, 4], [-2, -2], [-4, -4]],
        1: [[4, 0], [0, 4], [-6, -6]],
        0: [[4, 4], [-6, -6]],
    }
    for levels in (range(3), range(1, 2), range(2, 3)):
        vectors = average_word_vectors(fold, tree, levels)
        assert sorted(vectors) == list(levels)
        for level, found in vectors.items():
            centred = np.array(sums[level]) - np.mean(sums[level], axis=0)
            np.testing.assert_allclose(found, centred / np.linalg.norm(centred, axis=1, keepdims=True), atol=1e-6)
            assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("level_sizes", "shared", "levels"),
    [([24], True, [[0]]), ([24], False, [[0]]), ([2, 8, 24], True, [[0, 1, 2]]), ([2, 8, 24], False, [[0], [1], [2]])],
)
def test_networks_have_all_levels_or_one_each(level_sizes, shared, levels):
    parents = [np.arange(below, dtype=np.int32) % size for size, below in pairwise(level_sizes)]
    config = config_of(100, 24, shared_encoder=shared).network
    assert [list(own) for own in group_levels(LabelTree(tuple(parents), 24), config)] == levels


def test_new_networks_follow_the_seed_and_own_their_word_vectors():
    run, vectors = Run(config_of(100, 11, **SMALL)), torch.ones(30, 4)
    first, again = (new_network(vectors, TREE, range(3), run) for _ in range(2))
    other = small_network(range(3), number=1)
    assert [first.head(level).n_nodes for level in first.levels] == TREE.level_sizes
    for name, value in get_weights(first).items():
        np.testing.assert_array_equal(value, get_weights(again)[name])
    assert not torch.equal(first.head(1).queries.weight, other.head(1).queries.weight)
    with torch.no_grad():
        first.encoder.words.weight.zero_()
    assert vectors.all()
    assert again.encoder.words.weight.all()


@pytest.mark.parametrize("levels", [range(3), range(1, 2)])
def test_a_saved_network_has_the_weights_it_was_saved_with(levels):
    arrays = get_weights(small_network(levels))
    loaded = restore_network(arrays, levels, frame_of(TREE, 30, **SMALL))
    assert list(loaded.levels) == list(levels)
    assert not loaded.training
    for name, value in get_weights(loaded).items():
        np.testing.assert_array_equal(value, arrays[name])


def test_the_weights_of_another_sharing_are_refused():
    arrays, frame = get_weights(small_network(range(1))), frame_of(TREE, 30, **SMALL)
    with pytest.raises(ModelError, match=r"^some file: expected heads\.1\.first\.bias of shape \(5,\), got None"):
        restore_network(arrays, range(3), frame)


def test_a_weight_too_many_is_refused():
    network = small_network(range(1))
    arrays = {**get_weights(network), "what": np.zeros(3)}
    with pytest.raises(ModelError, match=r"^some file: expected what of shape None, got \(3,\)"):
        load_network(network, arrays, "some file")


@pytest.mark.parametrize("shape", [None, (30,), (29, 4), (30, 0)])
def test_word_vectors_of_another_vocabulary_are_refused(shape):
    arrays = get_weights(small_network(range(3)))
    del arrays["encoder.words.weight"]
    if shape is not None:
        arrays["encoder.words.weight"] = np.zeros(shape, np.float32)
    with pytest.raises(ModelError, match=r"^some file: expected the vectors of 30 words"):
        restore_network(arrays, range(3), frame_of(TREE, 30, **SMALL))


@pytest.mark.parametrize("offset", [0, 1, 13])
def test_weights_of_a_file_begin_on_cache_lines_as_new_ones_do(offset):
    arrays = get_weights(small_network(range(3)))
    for name, array in arrays.items():
        memory = np.empty(array.size + 32, np.float32)
        start = -memory.ctypes.data // 4 % 16 + offset
        arrays[name] = memory[start : start + array.size].reshape(array.shape)
        arrays[name][...] = 1
    for weight in restore_network(arrays, range(3), frame_of(TREE, 30, **SMALL)).parameters():
        assert weight.data_ptr() % 64 == 0
        assert (weight == 1).all()
