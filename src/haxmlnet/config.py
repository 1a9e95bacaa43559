"""Typed configs: resolved settings as small frozen dataclasses, so that no other module looks up a setting by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class _Part:
    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Pick the settings of this part; those that are not given keep their defaults."""
        return cls(**{field.name: values[field.name] for field in fields(cls) if field.name in values})


@dataclass(frozen=True)
class TextConfig(_Part):
    """The vocabulary and the word vectors."""

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
    """Maximum number of children of a node above the groups."""
    level_sizes: tuple[int, ...] | None = None
    label_words: int = 500
    """Words kept in the features of a label; more add nothing."""


@dataclass(frozen=True)
class NetworkConfig(_Part):
    """The encoder and the heads of the networks."""

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
    """How many nodes and labels are scored for a document."""

    beam: int
    n_candidates: int

    @property
    def n_searched(self) -> int:
        """Labels proposed by the networks: the fusion is fitted on few documents, and learns from wrong candidates."""
        return 2 * self.n_candidates

    @property
    def n_names(self) -> int:
        """Labels proposed because the text mentions them."""
        return self.n_candidates // 2

    @property
    def n_neighbors(self) -> int:
        """Labels proposed because similar documents have them."""
        return self.n_candidates // 4


@dataclass(frozen=True)
class LinearConfig(_Part):
    """Linear classifiers over the label tree."""

    hard_negatives: int = 0
    """Chosen by the number of labels in a tree; one-vs-rest has none."""
    C: float = 1.0
    prune: float = 0.1
    beam: int = 10


@dataclass(frozen=True)
class FusionConfig(_Part):
    """The evidence that is fused, and the documents held out to fit the fusion."""

    enabled: bool
    """Without fusion, the first evidence of a model ranks alone."""
    names: bool
    neighbours: bool
    validation_fraction: float
    max_validation: int


@dataclass(frozen=True)
class MachineConfig(_Part):
    """Device, threads and seed."""

    n_jobs: int | None
    random_state: int
    device: str = "cpu"
    """Linear models have no such setting: they run on the CPU."""
    precision: str = "auto"
    check_memory: bool = False
    """Linear models have no such setting: they are trained unchecked."""


@dataclass(frozen=True)
class Config:
    """Everything a training depends on; models without networks have no `network` and no `training`."""

    text: TextConfig
    tree: TreeConfig
    search: SearchConfig
    linear: LinearConfig
    fusion: FusionConfig
    machine: MachineConfig
    network: NetworkConfig | None = None
    training: TrainingConfig | None = None


def haxmlnet_config(values: Mapping[str, Any], n_labels: int) -> Config:
    """Make the config of HAXMLNet from settings that `resolve_settings` has resolved."""
    return Config(
        text=TextConfig.of(values),
        tree=TreeConfig.of({"max_fan_out": 16, "label_words": 1000, **values}),
        search=SearchConfig.of(values),
        linear=LinearConfig(hard_negatives=linear_hard_negatives(n_labels)),
        fusion=FusionConfig.of({**values, "enabled": values["linear"]}),
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
        fusion=FusionConfig.of({**values, "enabled": values["fusion"], "validation_fraction": held_out}),
        machine=MachineConfig.of(values),
    )


def linear_hard_negatives(n_labels: int) -> int:
    """Choose the hard negatives of linear classifiers: with many labels, more of them cost time and gain little."""
    return 25 if n_labels <= 10_000 else 10
