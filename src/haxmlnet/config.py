"""Settings, decided: small frozen configs by what they are about, so that nothing below looks a setting up by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class _Part:
    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Take from all settings those of this part; one that is not given keeps its default."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})


@dataclass(frozen=True)
class TextConfig(_Part):
    """How texts become word ids and word vectors."""

    vocabulary_size: int
    min_document_frequency: int
    max_length: int = 200
    vectors: str | None = None
    word_size: int = 100


@dataclass(frozen=True)
class TreeConfig(_Part):
    """The shape of the label trees."""

    n_trees: int
    group_size: int
    max_first_level: int = 512
    max_fan_out: int = 32
    level_sizes: tuple[int, ...] | None = None
    label_words: int = 500
    """Words of a label's features that are kept; more say nothing new."""


@dataclass(frozen=True)
class NetworkConfig(_Part):
    """The encoder and the heads."""

    hidden_size: int
    mlp_sizes: tuple[int, ...]
    attend_words: bool
    own_outputs: bool
    query_start: float
    word_dropout: float
    state_dropout: float
    train_word_vectors: bool
    shared_encoder: bool
    start_from_above: bool


@dataclass(frozen=True)
class TrainingConfig(_Part):
    """How a network is trained."""

    epochs: int
    batch_size: int
    learning_rate: float
    lr_final_ratio: float
    warmup: float
    adaptive_clip: float
    candidates: int
    hard_negatives: int
    averaging_start: float = 1.0
    patience: int | None = None
    max_steps: int | None = None
    row_moments: bool = False
    checkpoint_seconds: float = 60.0


@dataclass(frozen=True)
class SearchConfig(_Part):
    """How many nodes and labels of a document are looked at."""

    beam: int
    n_candidates: int


@dataclass(frozen=True)
class LinearConfig(_Part):
    """Linear classifiers over the label tree."""

    hard_negatives: int = 0
    C: float = 1.0
    prune: float = 0.1
    beam: int = 10


@dataclass(frozen=True)
class FusionConfig(_Part):
    """What is fused with the first evidence, and the documents held out for it."""

    linear: bool
    names: bool
    neighbours: bool
    validation_fraction: float
    max_validation: int


@dataclass(frozen=True)
class MachineConfig(_Part):
    """Where the work runs, and from which seed."""

    n_jobs: int | None
    random_state: int
    device: str = "cpu"
    precision: str = "auto"
    check_memory: bool = False


@dataclass(frozen=True)
class Config:
    """Everything that decides a training; a model without networks has no `network` and no `training`."""

    text: TextConfig
    tree: TreeConfig
    search: SearchConfig
    linear: LinearConfig
    fusion: FusionConfig
    machine: MachineConfig
    network: NetworkConfig | None = None
    training: TrainingConfig | None = None


def haxmlnet_config(values: Mapping[str, Any], n_labels: int) -> Config:
    """Make the config of HAXMLNet from its settings, all of them decided by `resolve_settings`."""
    return Config(
        text=TextConfig.of(values),
        tree=TreeConfig.of({"max_fan_out": 16, "label_words": 1000, **values}),
        search=SearchConfig.of(values),
        linear=LinearConfig(hard_negatives=linear_hard_negatives(n_labels)),
        fusion=FusionConfig.of(values),
        machine=MachineConfig.of(values),
        network=NetworkConfig.of(values),
        training=TrainingConfig.of(values),
    )


def linear_tree_config(values: Mapping[str, Any], n_labels: int) -> Config:
    """Make the config of LinearTree from its settings."""
    hard_negatives = values["hard_negatives"]
    hard_negatives = linear_hard_negatives(n_labels) if hard_negatives is None else hard_negatives
    held_out = values["validation_fraction"] if values["fusion"] else 0.0
    return Config(
        text=TextConfig.of(values),
        tree=TreeConfig.of(values),
        search=SearchConfig.of(values),
        linear=LinearConfig.of({**values, "hard_negatives": hard_negatives}),
        fusion=FusionConfig.of({**values, "linear": values["fusion"], "validation_fraction": held_out}),
        machine=MachineConfig.of(values),
    )


def linear_hard_negatives(n_labels: int) -> int:
    """Choose the hard negatives of linear classifiers: with many labels, more take long and gain little."""
    return 25 if n_labels <= 10_000 else 10
