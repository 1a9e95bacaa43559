"""Every setting once: name, type, default, one sentence of help and range.

The constructor of `HAXMLNet`, the flags of `haxmlnet fit`, the keys of a configuration file and the
reference page are all made from these fields.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin, get_type_hints

from haxmlnet.errors import SettingError


def setting(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare one setting: its default, a sentence for people, and the values it may have.

    The minimum of a list is the least number of its entries.
    """
    metadata = {"help": help, "minimum": minimum, "maximum": maximum, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(kw_only=True, eq=False, repr=False)
class Settings:
    """The settings of HAXMLNet; None means: chosen by the size of the data when `fit` sees it."""

    max_length: int = setting(200, "Words of a document that the network reads, from the start.", minimum=1)
    vocabulary_size: int = setting(500_000, "Most words kept; those that occur in the most documents win.", minimum=1)
    min_document_frequency: int = setting(
        1, "Words in fewer training documents than this are unknown words.", minimum=1
    )
    vectors: str | None = setting(
        None,
        "File of word vectors (GloVe, word2vec or fastText text, plain or .gz); none: made from the corpus.",
    )
    word_size: int | None = setting(None, "Width of the word vectors when they are made from the corpus.", minimum=1)
    train_word_vectors: bool = setting(True, "Go on training the word vectors.")

    group_size: int | None = setting(None, "Most labels in one group of the label tree.", minimum=2)
    max_first_level: int = setting(
        512, "Most nodes of the first level, which scores them all; more levels are made to keep to it.", minimum=2
    )
    level_sizes: tuple[int, ...] | None = setting(
        None, "Nodes of each level above the labels, powers of two, coarsest first; () is one flat level."
    )
    n_trees: int = setting(1, "Trees trained with different seeds, whose scores are averaged.", minimum=1)
    beam: int | None = setting(None, "Best nodes of each level whose children are scored.", minimum=1)
    n_candidates: int = setting(
        32,
        "Best labels of the networks, and of the linear tree, that the fusion judges, whatever k is; besides them half "
        "as many that the text mentions and a quarter as many of similar documents.",
        minimum=4,
    )

    hidden_size: int | None = setting(None, "States of the BiLSTM per direction.", minimum=1)
    mlp_sizes: tuple[int, ...] | None = setting(
        None, "Widths of the hidden layers of the network shared by all labels.", minimum=1
    )
    attend_words: bool = setting(True, "Attend to [BiLSTM state ; word vector] instead of the state alone.")
    own_outputs: bool = setting(True, "Give each label an output vector of its own beside the shared layers.")
    query_start: float = setting(
        2.0,
        "How strongly a label attends from the start to the words of its documents; 0 is random.",
        minimum=0,
    )
    word_dropout: float = setting(0.1, "Dropout on the word vectors.", minimum=0, maximum=0.95)
    state_dropout: float = setting(0.2, "Dropout on the states of the BiLSTM.", minimum=0, maximum=0.95)

    epochs: int | None = setting(None, "Passes over the training documents for each network.", minimum=1)
    max_steps: int | None = setting(
        None, "Stop a network after so many batches, for a quick try; none: after all passes.", minimum=1
    )
    batch_size: int | None = setting(None, "Documents in one training step.", minimum=1)
    learning_rate: float = setting(6e-3, "Step size of Adam.", minimum=0)
    lr_final_ratio: float = setting(
        0.02,
        "The learning rate falls linearly to this fraction of itself; 1 keeps it constant.",
        minimum=0,
        maximum=1,
    )
    warmup: float = setting(
        0.05, "Fraction of the training over which the step size rises from zero.", minimum=0, maximum=0.9
    )
    adaptive_clip: float = setting(
        5.0, "Clip gradients to this many times the running mean of their norm; 0 is off.", minimum=0
    )
    row_moments: bool = setting(
        False,
        "Let Adam keep one second moment for each row and column of a table of labels or words, and first moments of "
        "16 bits: a quarter of the memory, or half of what it takes for a large table; it costs accuracy.",
    )
    candidates: int = setting(1000, "Most candidate nodes per document in training (c of the paper).", minimum=1)
    hard_negatives: int | None = setting(
        None,
        "Best wrong parents, as the level above predicts them, whose children are candidates too.",
        minimum=0,
    )
    linear: bool = setting(
        True,
        "Train linear classifiers over the same tree, too, and fuse their scores with those of the networks by a rule "
        "fitted on the validation documents.",
    )
    names: bool = setting(
        True,
        "Know labels by the words of their names, too, where names are words: a label that a document mentions is a "
        "candidate of the linear part.",
    )
    neighbours: bool = setting(
        True,
        "Compare a document with those of the training, too: the labels of similar documents are candidates of the "
        "linear part, and how these documents vote counts in the rule.",
    )
    shared_encoder: bool = setting(
        True,
        "Train all levels at once on one encoder; otherwise each level has its own and is trained after the one above.",
    )
    start_from_above: bool = setting(
        True, "Without a shared encoder, start each level from the encoder and shared layers of the one above."
    )
    averaging_start: float = setting(
        1.0, "Average the weights from this fraction of the training on; 1 is never.", minimum=0, maximum=1
    )
    patience: int | None = setting(
        None,
        "Stop a level after so many validations without a better nDCG@5; none: train to the end.",
        minimum=1,
    )
    validation_fraction: float = setting(
        0.05,
        "Part of the training documents held out for validation where no validation data is given.",
        minimum=0,
        maximum=0.5,
    )
    max_validation: int = setting(2000, "Most documents used for validation.", minimum=1)

    device: str = setting("auto", "Where the network runs.", choices=("auto", "cpu", "cuda", "mps"))
    precision: str = setting(
        "auto",
        "Numbers that the network multiplies: of 32 bits; or, by auto, of 16 (bfloat16) where the device has the means "
        "to do that at twice the speed.",
        choices=("auto", "float32"),
    )
    n_jobs: int | None = setting(None, "Processor threads; none: as many as there are cores.", minimum=1)
    random_state: int = setting(0, "Seed: the same seed, data and threads give the same model.", minimum=0)
    checkpoint_seconds: float = setting(60.0, "Least time between two checkpoints.", minimum=0)
    check_memory: bool = setting(True, "Refuse to train what would not fit into this machine's memory.")


def _as_in(of: type[Any], name: str, default: Any = dataclasses.MISSING) -> Any:
    """Declare a setting that another method has, too, perhaps with another default."""
    field = next(field for field in dataclasses.fields(of) if field.name == name)
    return dataclasses.field(
        default=field.default if default is dataclasses.MISSING else default, metadata=field.metadata
    )


@dataclass(kw_only=True, eq=False, repr=False)
class LinearTreeSettings:
    """The settings of LinearTree."""

    vocabulary_size: int = _as_in(Settings, "vocabulary_size")
    min_document_frequency: int = _as_in(Settings, "min_document_frequency")
    group_size: int = _as_in(Settings, "group_size", 32)
    n_trees: int = _as_in(Settings, "n_trees")
    beam: int = _as_in(Settings, "beam", 10)
    n_candidates: int = _as_in(Settings, "n_candidates")
    C: float = setting(1.0, "Weight of the errors against large weights in a linear classifier.", minimum=1e-6)
    prune: float = setting(0.1, "Weights of linear classifiers that are smaller than this are dropped.", minimum=0)
    hard_negatives: int | None = setting(
        None,
        "A node also learns from documents for which its parent is among so many best ones; 0: from those of its "
        "parent alone.",
        minimum=0,
    )
    fusion: bool = setting(
        True, "Fit on held-out documents how the scores of the levels, likeness and frequency make a probability."
    )
    names: bool = _as_in(Settings, "names")
    neighbours: bool = _as_in(Settings, "neighbours")
    validation_fraction: float = _as_in(Settings, "validation_fraction")
    max_validation: int = _as_in(Settings, "max_validation")
    n_jobs: int | None = _as_in(Settings, "n_jobs")
    random_state: int = _as_in(Settings, "random_state")


@dataclass(kw_only=True, eq=False, repr=False)
class OneVsRestSettings:
    """The settings of OneVsRestSVM."""

    vocabulary_size: int = _as_in(Settings, "vocabulary_size")
    min_document_frequency: int = _as_in(Settings, "min_document_frequency")
    C: float = _as_in(LinearTreeSettings, "C")
    prune: float = _as_in(LinearTreeSettings, "prune", 0.01)
    n_jobs: int | None = _as_in(Settings, "n_jobs")
    random_state: int = _as_in(Settings, "random_state")


# The paper's network: states alone are attended to, all labels share one output, the step size is constant.
_PLAIN_NETWORK = {
    "attend_words": False, "own_outputs": False, "linear": False, "shared_encoder": False, "learning_rate": 1e-3,
    "lr_final_ratio": 1.0, "warmup": 0.0, "max_length": 500, "word_dropout": 0.2, "state_dropout": 0.5,
}  # fmt: skip
_LARGE_NETWORK = {
    **_PLAIN_NETWORK, "hidden_size": 512, "mlp_sizes": (512, 256), "word_size": 300, "batch_size": 200, "n_trees": 3,
}  # fmt: skip

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # Two levels, candidates of the true groups alone, one tree.
    "paper": {
        **_PLAIN_NETWORK, "hidden_size": 256, "mlp_sizes": (256,), "epochs": 30, "batch_size": 40, "n_trees": 1,
        "group_size": 64, "max_first_level": 2**20, "candidates": 1000, "hard_negatives": 0, "beam": 10,
        "averaging_start": 1.0, "start_from_above": False, "patience": 10,
    },
    "amazon-670k": {
        **_LARGE_NETWORK, "level_sizes": (2**11, 2**14, 2**17), "beam": 160, "hard_negatives": 160,
        "candidates": 2000, "epochs": 10, "averaging_start": 0.4,
    },
    "wiki-500k": {
        **_LARGE_NETWORK, "level_sizes": (2**13,), "beam": 15, "hard_negatives": 15, "epochs": 10,
        "averaging_start": 0.2,
    },
    "amazon-3m": {
        **_LARGE_NETWORK, "level_sizes": (2**13, 2**16, 2**19), "beam": 160, "hard_negatives": 160,
        "candidates": 2000, "epochs": 5, "averaging_start": 0.4,
    },
}  # fmt: skip


METHOD_SETTINGS: dict[str, type[Any]] = {
    "HAXMLNet": Settings,
    "LinearTree": LinearTreeSettings,
    "OneVsRestSVM": OneVsRestSettings,
}


def preset(name: str) -> dict[str, Any]:
    """Give the settings in which a preset differs from the defaults."""
    if name not in PRESETS:
        raise SettingError(f"preset: there is no {name!r}. Use one of {', '.join(PRESETS)}.")
    return dict(PRESETS[name])


def setting_fields(of: type[Any] = Settings) -> dict[str, dataclasses.Field[Any]]:
    """Give the fields by name, in the order of their declaration."""
    return {field.name: field for field in dataclasses.fields(of)}


def setting_type(name: str, of: type[Any] = Settings) -> tuple[type, bool]:
    """Give the plain type of a setting (int, float, bool, str or tuple) and whether it may be None."""
    hint = get_type_hints(of)[name]
    members = get_args(hint)
    optional = type(None) in members
    if optional:
        hint = next(member for member in members if member is not type(None))
    return get_origin(hint) or hint, optional


def settings_of(estimator: Any, of: type[Any] = Settings) -> dict[str, Any]:
    """Read the current values of all settings."""
    return {name: getattr(estimator, name) for name in setting_fields(of)}


def check_settings(values: Mapping[str, Any], of: type[Any] = Settings) -> dict[str, Any]:
    """Check names, types and ranges; whole numbers are welcome as floats, and lists as tuples."""
    fields = setting_fields(of)
    unknown = [name for name in values if name not in fields]
    if unknown:
        raise SettingError(f"{unknown[0]}: there is no such setting. See 'haxmlnet fit --help' for all of them.")
    return {name: _checked(fields[name], value, of) for name, value in values.items()}


def _checked(field: dataclasses.Field[Any], value: Any, of: type[Any]) -> Any:
    kind, optional = setting_type(field.name, of)
    if value is None and optional:
        return None
    value = _converted(field.name, kind, value)
    low, high = field.metadata["minimum"], field.metadata["maximum"]
    if kind is tuple and low is not None and len(value) < low:
        raise SettingError(f"{field.name} must hold {low} or more numbers, got {value!r}.")
    if kind is not tuple and low is not None and not value >= low:
        raise SettingError(f"{field.name} must be at least {low}, got {value!r}.")
    if high is not None and not value <= high:
        raise SettingError(f"{field.name} must be at most {high}, got {value!r}.")
    if field.metadata["choices"] and value not in field.metadata["choices"]:
        raise SettingError(f"{field.name} must be one of {', '.join(field.metadata['choices'])}, got {value!r}.")
    return value


def _converted(name: str, kind: type, value: Any) -> Any:
    # Values come from TOML, from numpy (a grid search) and from people: only lossless conversions are made.
    if getattr(value, "shape", None) == ():
        value = value.item()
    if kind is tuple and isinstance(value, list | tuple):
        if all(_is_whole(item) and item > 0 for item in value):
            return tuple(int(item) for item in value)
        raise SettingError(f"{name} must be a list of positive whole numbers, got {value!r}.")
    if kind is int and _is_whole(value):
        return int(value)
    if kind is float and not isinstance(value, bool | str) and _is_number(value):
        return float(value)
    if kind in (bool, str) and isinstance(value, kind):
        return value
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list"}
    raise SettingError(f"{name} must be {names[kind]}, got {value!r}.")


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except (TypeError, OverflowError):
        return False


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool | str) and _is_number(value) and value == int(value)


def resolve_settings(values: Mapping[str, Any], n_documents: int, n_labels: int) -> dict[str, Any]:
    """Replace every None that means "by the size of the data" with the choice for this size."""
    choices = {
        "word_size": 100,
        "hidden_size": 128,
        "mlp_sizes": (128,),
        "group_size": 32,
        # What the linear part proposes is scored besides.
        "beam": 8 if values["linear"] else 16,
        "hard_negatives": min(values["beam"] or 16, 8),
        "batch_size": 32 if n_documents < 100_000 else 64,
        # Small data needs more passes.
        "epochs": min(max(round(50_000 / n_documents), 5), 30),
    }
    kept_none = ("vectors", "max_steps", "patience", "n_jobs", "level_sizes")
    assert all(name in choices or name in kept_none for name, value in values.items() if value is None)
    return {name: choices.get(name) if value is None else value for name, value in values.items()}
