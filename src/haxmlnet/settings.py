"""Every setting once: name, type, default, one sentence of help and range.

The constructor of `HAXMLNet`, the flags of `haxmlnet fit`, the keys of a configuration file and the
reference page are all made from these fields.
"""

# Without `from __future__ import annotations`, the type of a field is the type itself and not a string.
import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from haxmlnet.errors import SettingError


def setting(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a setting: its default, a sentence of help and the values it accepts.

    The minimum of a list is the number of entries it needs.
    """
    metadata = {"help": help, "minimum": minimum, "maximum": maximum, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(kw_only=True, eq=False, repr=False)
class Settings:
    """The settings of HAXMLNet; most that default to None are chosen by the size of the data in `fit`."""

    max_length: int = setting(200, "Maximum number of words read from the start of a document.", minimum=1)
    vocabulary_size: int = setting(
        500_000, "Maximum size of the vocabulary; the words in the most documents are kept.", minimum=1
    )
    min_document_frequency: int = setting(1, "Words in fewer training documents than this count as unknown.", minimum=1)
    vectors: str | None = setting(
        None,
        "File of pretrained word vectors (GloVe, word2vec or fastText text format, plain or .gz); without one they "
        "are computed from the corpus.",
    )
    word_size: int | None = setting(None, "Dimension of word vectors computed from the corpus.", minimum=1)
    train_word_vectors: bool = setting(True, "Fine-tune the word vectors during training.")

    group_size: int | None = setting(None, "Maximum number of labels in a group of the label tree.", minimum=2)
    max_first_level: int = setting(
        512,
        "Maximum number of nodes in the first level, where every node is scored; levels are added to stay within it.",
        minimum=2,
    )
    level_sizes: tuple[int, ...] | None = setting(
        None, "Number of nodes in each level above the labels, powers of two, coarsest first; () for one flat level."
    )
    n_trees: int = setting(1, "Trees trained with different seeds, whose scores are averaged.", minimum=1)
    beam: int | None = setting(None, "Beam width: best nodes of each level whose children are scored.", minimum=1)
    n_candidates: int = setting(
        32,
        "Candidates scored by the fusion, whatever k is: this many of the best labels of the linear tree, twice as "
        "many of the networks, half as many that the text mentions and a quarter as many of its nearest neighbors.",
        minimum=4,
    )

    hidden_size: int | None = setting(None, "Hidden size of the BiLSTM in each direction.", minimum=1)
    mlp_sizes: tuple[int, ...] | None = setting(None, "Hidden layer sizes of the MLP shared by all labels.", minimum=1)
    attend_words: bool = setting(True, "Attend to [BiLSTM state; word vector] instead of the state alone.")
    own_outputs: bool = setting(True, "Give each label an output vector of its own besides the shared MLP.")
    query_start: float = setting(
        2.0,
        "How strongly the initial attention query of a label points at the words of its documents; 0 is random.",
        minimum=0,
    )
    word_dropout: float = setting(0.1, "Dropout on the word vectors.", minimum=0, maximum=0.95)
    state_dropout: float = setting(0.2, "Dropout on the BiLSTM states.", minimum=0, maximum=0.95)

    epochs: int | None = setting(None, "Passes over the training documents for each network.", minimum=1)
    max_steps: int | None = setting(None, "Stop a network after this many batches, for a quick trial.", minimum=1)
    batch_size: int | None = setting(None, "Documents per training step.", minimum=1)
    learning_rate: float = setting(6e-3, "Learning rate of Adam.", minimum=0)
    lr_final_ratio: float = setting(
        0.02, "The learning rate decays linearly to this fraction of itself; 1 keeps it constant.", minimum=0, maximum=1
    )
    warmup: float = setting(
        0.05, "Fraction of the training over which the learning rate rises from zero.", minimum=0, maximum=0.9
    )
    adaptive_clip: float = setting(
        5.0, "Clip gradients at this multiple of the running mean of their norm; 0 turns clipping off.", minimum=0
    )
    row_moments: bool = setting(
        False,
        "Keep one second moment of Adam for each row and column of an embedding table, and first moments in bfloat16: "
        "a quarter to half of the memory, at a cost in accuracy.",
    )
    candidates: int = setting(1000, "Maximum candidate nodes per document in training (c in the paper).", minimum=1)
    hard_negatives: int | None = setting(
        None, "Number of wrong parents, those the level above ranks best, whose children become candidates.", minimum=0
    )
    linear: bool = setting(
        True,
        "Also train a linear tree: linear classifiers over the same label tree, fused with the networks. The fusion is "
        "fitted on the validation documents.",
    )
    names: bool = setting(
        True,
        "Also use the words of label names, where names are words: labels that a document mentions become candidates.",
    )
    neighbours: bool = setting(
        True,
        "Also use nearest neighbors: labels of similar training documents become candidates, and their votes are "
        "features of the fusion.",
    )
    shared_encoder: bool = setting(
        True,
        "Train all levels at once on one encoder; otherwise each level has its own and is trained after the one above.",
    )
    start_from_above: bool = setting(
        True, "Without a shared encoder, initialize the encoder and MLP of each level from the level above."
    )
    averaging_start: float = setting(
        1.0, "Average the weights from this fraction of the training on; 1 turns averaging off.", minimum=0, maximum=1
    )
    patience: int | None = setting(None, "Stop a level after this many validations without a better nDCG@5.", minimum=1)
    validation_fraction: float = setting(
        0.05,
        "Fraction of the training documents held out for validation when no validation data is given.",
        minimum=0,
        maximum=0.5,
    )
    max_validation: int = setting(2000, "Maximum number of validation documents.", minimum=1)

    device: str = setting("auto", "Device that runs the networks.", choices=("auto", "cpu", "cuda", "mps"))
    precision: str = setting(
        "auto",
        "Precision of matmuls: float32, or bfloat16 where the hardware makes it twice as fast (auto).",
        choices=("auto", "float32"),
    )
    n_jobs: int | None = setting(None, "Number of CPU threads; without it, one per core.", minimum=1)
    random_state: int = setting(0, "Random seed: same seed, data and threads give the same model.", minimum=0)
    checkpoint_seconds: float = setting(60.0, "Minimum number of seconds between two checkpoints.", minimum=0)
    check_memory: bool = setting(True, "Refuse to start a training that would not fit into memory.")


def _reuse(of: type[Any], name: str, default: Any = dataclasses.MISSING) -> Any:
    """Declare a setting that another method has, too, perhaps with another default."""
    field = setting_fields(of)[name]
    return dataclasses.field(
        default=field.default if default is dataclasses.MISSING else default, metadata=field.metadata
    )


def setting_fields(of: type[Any] = Settings) -> dict[str, dataclasses.Field[Any]]:
    """Map the names of all settings to their fields, in the order of their declaration."""
    return {field.name: field for field in dataclasses.fields(of)}


@dataclass(kw_only=True, eq=False, repr=False)
class LinearTreeSettings:
    """The settings of LinearTree."""

    vocabulary_size: int = _reuse(Settings, "vocabulary_size")
    min_document_frequency: int = _reuse(Settings, "min_document_frequency")
    group_size: int = _reuse(Settings, "group_size", 32)
    n_trees: int = _reuse(Settings, "n_trees")
    beam: int = _reuse(Settings, "beam", 10)
    n_candidates: int = _reuse(Settings, "n_candidates")
    C: float = setting(1.0, "Weight of the errors against regularization in a linear classifier.", minimum=1e-6)
    prune: float = setting(0.1, "Drop weights of linear classifiers that are smaller than this.", minimum=0)
    hard_negatives: int | None = setting(
        None,
        "Train a node also on documents that rank its parent among this many best nodes; 0 takes only the documents "
        "of the parent.",
        minimum=0,
    )
    fusion: bool = setting(
        True, "Fit on held-out documents how level scores, similarity and label frequency are fused into a probability."
    )
    names: bool = _reuse(Settings, "names")
    neighbours: bool = _reuse(Settings, "neighbours")
    validation_fraction: float = _reuse(Settings, "validation_fraction")
    max_validation: int = _reuse(Settings, "max_validation")
    n_jobs: int | None = _reuse(Settings, "n_jobs")
    random_state: int = _reuse(Settings, "random_state")


@dataclass(kw_only=True, eq=False, repr=False)
class OneVsRestSettings:
    """The settings of OneVsRestSVM."""

    vocabulary_size: int = _reuse(Settings, "vocabulary_size")
    min_document_frequency: int = _reuse(Settings, "min_document_frequency")
    C: float = _reuse(LinearTreeSettings, "C")
    prune: float = _reuse(LinearTreeSettings, "prune", 0.01)
    n_jobs: int | None = _reuse(Settings, "n_jobs")
    random_state: int = _reuse(Settings, "random_state")


METHOD_SETTINGS: dict[str, type[Any]] = {
    "HAXMLNet": Settings,
    "LinearTree": LinearTreeSettings,
    "OneVsRestSVM": OneVsRestSettings,
}

# The network as published: attention to states alone, one output shared by all labels, a constant learning rate.
_PLAIN_NETWORK = {
    "attend_words": False, "own_outputs": False, "linear": False, "shared_encoder": False, "learning_rate": 1e-3,
    "lr_final_ratio": 1.0, "warmup": 0.0, "max_length": 500, "word_dropout": 0.2, "state_dropout": 0.5,
}  # fmt: skip
_LARGE_NETWORK = {
    **_PLAIN_NETWORK, "hidden_size": 512, "mlp_sizes": (512, 256), "word_size": 300, "batch_size": 200, "n_trees": 3,
}  # fmt: skip

PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # HAXMLNet as published: two levels, candidates from the true groups alone, one tree.
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


def preset(name: str) -> dict[str, Any]:
    """Return the settings in which a preset differs from the defaults."""
    if name not in PRESETS:
        raise SettingError(f"preset: there is no {name!r}. Use one of {', '.join(PRESETS)}.")
    return dict(PRESETS[name])


def setting_type(name: str, of: type[Any] = Settings) -> tuple[type, bool]:
    """Return the plain type of a setting (int, float, bool, str or tuple) and whether it may be None."""
    hint: Any = setting_fields(of)[name].type
    members = get_args(hint)
    optional = type(None) in members
    if optional:
        hint = next(member for member in members if member is not type(None))
    return get_origin(hint) or hint, optional


def settings_of(estimator: Any, of: type[Any] = Settings) -> dict[str, Any]:
    """Read the current values of all settings."""
    return {name: getattr(estimator, name) for name in setting_fields(of)}


def check_settings(values: Mapping[str, Any], of: type[Any] = Settings) -> dict[str, Any]:
    """Check names, types and ranges; integers may come as floats, and tuples as lists."""
    fields, checked = setting_fields(of), {}
    for name in values:
        if name not in fields:
            raise SettingError(f"{name}: there is no such setting. See 'haxmlnet fit --help' for all of them.")
    for name, value in values.items():
        wanted, optional = setting_type(name, of)
        if value is not None or not optional:
            value = _convert(name, wanted, value)
            _check_range(fields[name], value)
        checked[name] = value
    return checked


def _convert(name: str, wanted: type, value: Any) -> Any:
    """Convert without loss what comes from TOML, from numpy (a grid search) and from people."""
    if getattr(value, "shape", None) == ():
        value = value.item()
    if wanted is tuple and isinstance(value, list | tuple):
        if all(_is_whole(item) and item > 0 for item in value):
            return tuple(int(item) for item in value)
        raise SettingError(f"{name} must be a list of positive integers, got {value!r}.")
    if wanted is int and _is_whole(value):
        return int(value)
    if wanted is float and _is_finite(value):
        return float(value)
    if wanted in (bool, str) and isinstance(value, wanted):
        return value
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string", tuple: "a list"}
    raise SettingError(f"{name} must be {names[wanted]}, got {value!r}.")


def _is_finite(value: Any) -> bool:
    try:
        return not isinstance(value, bool | str) and math.isfinite(value)
    except (TypeError, OverflowError):
        return False


def _is_whole(value: Any) -> bool:
    return _is_finite(value) and value == int(value)


def _check_range(field: dataclasses.Field[Any], value: Any) -> None:
    low, high, choices = (field.metadata[key] for key in ("minimum", "maximum", "choices"))
    if low is not None and isinstance(value, tuple):
        if len(value) < low:
            raise SettingError(f"{field.name} must hold {low} or more numbers, got {value!r}.")
    elif low is not None and value < low:
        raise SettingError(f"{field.name} must be at least {low}, got {value!r}.")
    if high is not None and value > high:
        raise SettingError(f"{field.name} must be at most {high}, got {value!r}.")
    if choices and value not in choices:
        raise SettingError(f"{field.name} must be one of {', '.join(choices)}, got {value!r}.")


def resolve_settings(values: Mapping[str, Any], n_documents: int, n_labels: int) -> dict[str, Any]:
    """Replace every None that means "by the size of the data" with the choice for this size."""
    choices = {
        "word_size": 100,
        "hidden_size": 128,
        "mlp_sizes": (128,),
        "group_size": 32,
        # With a linear tree, its proposals are scored besides.
        "beam": 8 if values["linear"] else 16,
        "hard_negatives": min(values["beam"] or 16, 8),
        "batch_size": 32 if n_documents < 100_000 else 64,
        # Small data needs more passes.
        "epochs": min(max(round(50_000 / n_documents), 5), 30),
    }
    kept_none = ("vectors", "max_steps", "patience", "n_jobs", "level_sizes")
    assert all(name in choices or name in kept_none for name, value in values.items() if value is None)
    return {name: choices.get(name) if value is None else value for name, value in values.items()}
