"""Levels, parameters and candidates are those that training then makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from planned import NARROW, shape_of

from haxmlnet.errors import DataError
from haxmlnet.evidence.level_networks import new_network
from haxmlnet.evidence.protocol import Run
from haxmlnet.planning.model_shape import make_even_tree
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.text.word_vectors import vector_width


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"own_outputs": False, "mlp_sizes": (7, 5)},
        {"attend_words": False, "shared_encoder": False},
        {"level_sizes": (2, 8), "hidden_size": 3},
        {"level_sizes": ()},
    ],
)
def test_levels_and_parameters_are_those_of_the_networks(changes: dict[str, Any]) -> None:
    shape = shape_of(DataSizes.of_numbers(1000, 50), **{**NARROW, **changes})
    networks = [
        new_network(
            torch.zeros(shape.vocabulary, shape.word_size), shape.tree, range(first, last + 1), Run(shape.config)
        )
        for first, last in ((levels[0].level, levels[-1].level) for levels in shape.networks)
    ]
    assert shape.parameters == sum(weight.numel() for network in networks for weight in network.parameters())
    heads = [network.head(level) for network in networks for level in network.levels]
    assert [level.nodes for level in shape.levels] == [head.n_nodes for head in heads]
    own = [head.queries.weight.numel() + (head.outputs.weight.numel() if head.outputs else 0) for head in heads]
    assert [level.table_parameters for level in shape.levels] == own


def test_candidates_follow_the_settings() -> None:
    sizes = DataSizes.of_numbers(1000, 320).replace(labels_per_document=2)
    shape = shape_of(sizes, level_sizes=(32,), hard_negatives=3, beam=4, linear=False)
    assert [level.training_candidates for level in shape.levels] == [32, (2 + 3) * 10]
    assert [level.prediction_candidates for level in shape.levels] == [32, 4 * 10]
    assert shape_of(sizes, level_sizes=(32,), candidates=20).levels[1].training_candidates == 20


def test_an_even_tree_is_a_label_tree() -> None:
    tree = make_even_tree([4, 16, 103])
    tree.check()
    assert tree.level_sizes == [4, 16, 103]


def test_width_of_vectors_is_read_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("2 3\na 1 2 3\nb 4 5 6\n")
    assert vector_width(file) == 3
    shape = shape_of(DataSizes.of_numbers(1000, 50), vectors=str(file))
    assert shape.word_size == 3
    file.write_text("")
    with pytest.raises(DataError, match="holds no vectors"):
        vector_width(file)
