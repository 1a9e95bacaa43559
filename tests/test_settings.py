from __future__ import annotations

import ast
import dataclasses
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from haxmlnet import config
from haxmlnet.config import Config, haxmlnet_config, linear_hard_negatives, linear_tree_config
from haxmlnet.errors import SettingError
from haxmlnet.settings import (
    PRESETS,
    LinearTreeSettings,
    Settings,
    check_settings,
    preset,
    resolve_settings,
    setting_fields,
    setting_type,
    settings_of,
)

FIELDS = setting_fields()
DEFAULTS = settings_of(Settings())
LINEAR_DEFAULTS = settings_of(LinearTreeSettings(), LinearTreeSettings)


def of_type(*kinds: type) -> list[str]:
    return [name for name in FIELDS if setting_type(name)[0] in kinds]


def checked(name: str, value: object) -> object:
    return check_settings({name: value})[name]


def refused(name: str, value: object) -> str:
    with pytest.raises(SettingError) as error:
        checked(name, value)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_defaults_are_valid_and_unchanged_by_the_check():
    assert check_settings(DEFAULTS) == DEFAULTS


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_has_a_sentence_of_help(name):
    text = FIELDS[name].metadata["help"]
    assert text[0].isupper()
    assert text.endswith(".")


def test_types():
    assert setting_type("epochs") == (int, True)
    assert setting_type("max_length") == (int, False)
    assert setting_type("warmup") == (float, False)
    assert setting_type("own_outputs") == (bool, False)
    assert setting_type("vectors") == (str, True)
    assert setting_type("mlp_sizes") == (tuple, True)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("epochs", np.int64(3), 3),
        ("epochs", np.uint8(3), 3),
        ("epochs", np.array(3), 3),
        ("epochs", 3.0, 3),
        ("epochs", np.float32(3), 3),
        ("warmup", 0, 0.0),
        ("warmup", np.float32(0.5), 0.5),
        ("warmup", np.int64(0), 0.0),
        ("warmup", Fraction(1, 2), 0.5),
        ("own_outputs", np.True_, True),
        ("device", np.str_("cpu"), "cpu"),
        ("mlp_sizes", [64, 32], (64, 32)),
        ("mlp_sizes", (np.int64(64), 32.0), (64, 32)),
        ("level_sizes", [], ()),
        ("random_state", 2**63, 2**63),
    ],
)
def test_lossless_conversions(name, value, expected):
    result = checked(name, value)
    assert result == expected
    items = result if isinstance(result, tuple) else [result]
    assert {type(item) for item in items} <= {int, float, bool, str, np.str_}


def test_values_from_toml():
    values = tomllib.loads('epochs = 3\nwarmup = 0\nmlp_sizes = [64, 32]\nown_outputs = false\nvectors = "v.gz"')
    expected = {"epochs": 3, "warmup": 0.0, "mlp_sizes": (64, 32), "own_outputs": False, "vectors": "v.gz"}
    assert check_settings(values) == expected


@pytest.mark.parametrize("value", ["3", 2.5, True, float("nan"), float("inf"), [3], object(), 10**400, 1j, b"3"])
@pytest.mark.parametrize("name", of_type(int))
def test_an_integer_is_nothing_else(name, value):
    assert refused(name, value).startswith(f"{name} must be an integer, got ")


@pytest.mark.parametrize("value", ["0.5", True, np.True_, float("nan"), float("-inf"), [0.5], 10**400])
@pytest.mark.parametrize("name", of_type(float))
def test_a_number_is_nothing_else(name, value):
    assert refused(name, value).startswith(f"{name} must be a number, got ")


@pytest.mark.parametrize("name", FIELDS)
def test_none_is_for_settings_that_are_chosen_later_or_left_out(name):
    if setting_type(name)[1]:
        assert checked(name, None) is None
    else:
        assert refused(name, None).startswith(f"{name} must be ")


@pytest.mark.parametrize("value", [0, 1, "true", None, np.int64(1)])
@pytest.mark.parametrize("name", of_type(bool))
def test_true_or_false_is_nothing_else(name, value):
    assert refused(name, value).startswith(f"{name} must be true or false, got ")


@pytest.mark.parametrize("value", [64, "64", {64}])
def test_a_list_is_nothing_else(value):
    assert refused("mlp_sizes", value).startswith("mlp_sizes must be a list, got ")


@pytest.mark.parametrize("value", [[0], [-1], [64, 2.5], ["64"], [True], [[64]], [None]])
def test_lists_hold_positive_integers(value):
    assert refused("level_sizes", value).startswith("level_sizes must be a list of positive integers, got ")


def test_the_shared_network_has_a_hidden_layer():
    assert refused("mlp_sizes", []) == "mlp_sizes must hold 1 or more numbers, got ()."


@pytest.mark.parametrize("name", of_type(int, float))
def test_values_at_the_bounds_pass_and_beyond_them_fail(name):
    low, high = FIELDS[name].metadata["minimum"], FIELDS[name].metadata["maximum"]
    assert low is not None
    assert checked(name, low) == low
    assert refused(name, low - 1) == f"{name} must be at least {low}, got {checked_number(name, low - 1)}."
    if high is not None:
        assert checked(name, high) == high
        assert refused(name, high + 1) == f"{name} must be at most {high}, got {checked_number(name, high + 1)}."


def checked_number(name: str, value: float) -> str:
    return repr(setting_type(name)[0](value))


def test_choices():
    assert refused("device", "gpu") == "device must be one of auto, cpu, cuda, mps, got 'gpu'."


@pytest.mark.parametrize("name", FIELDS)
def test_none_is_for_optional_settings(name):
    if setting_type(name)[1]:
        assert checked(name, None) is None
    else:
        refused(name, None)


def test_an_unknown_name_is_named():
    assert refused("epoch", 3).startswith("epoch: there is no such setting.")


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid(name):
    assert check_settings(preset(name)) == preset(name)


def test_presets_of_published_networks_have_an_encoder_for_each_level():
    assert DEFAULTS["shared_encoder"] is True
    for name in PRESETS:
        assert preset(name).get("shared_encoder", True) == (name == "default")


def test_a_preset_is_a_copy():
    preset("paper")["epochs"] = -1
    assert preset("paper")["epochs"] > 0


def test_an_unknown_preset_is_named():
    with pytest.raises(SettingError, match=r"^preset: there is no 'papre'. Use one of default, paper, .*\.$"):
        preset("papre")


@pytest.mark.parametrize("n_documents", [1, 1_000, 1_000_000])
@pytest.mark.parametrize("name", PRESETS)
def test_resolve_settings_are_decided_and_valid(name, n_documents):
    given = {**DEFAULTS, **preset(name)}
    resolved = resolve_settings(given, n_documents, 5000)
    assert list(resolved) == list(FIELDS)
    undecided = {name for name, value in resolved.items() if value is None}
    assert undecided <= {"vectors", "max_steps", "patience", "n_jobs", "level_sizes"}
    assert check_settings(resolved) == resolved
    assert {name: value for name, value in resolved.items() if given[name] is not None} == {
        name: value for name, value in given.items() if value is not None
    }


def test_small_data_gets_no_fewer_epochs_than_large():
    sizes = (1, 100, 10_000, 100_000, 10_000_000)
    epochs = [resolve_settings(DEFAULTS, size, 100)["epochs"] for size in sizes]
    assert epochs == sorted(epochs, reverse=True)
    assert epochs[0] > epochs[-1] >= 1


def test_the_beam_is_wider_where_nobody_else_proposes_labels():
    assert resolve_settings(DEFAULTS, 100, 100)["beam"] == 8
    assert resolve_settings({**DEFAULTS, "linear": False}, 100, 100)["beam"] == 16


def test_hard_negatives_follow_the_beam():
    assert resolve_settings({**DEFAULTS, "beam": 7}, 100, 100)["hard_negatives"] == 7
    assert resolve_settings({**DEFAULTS, "beam": 7, "hard_negatives": 0}, 100, 100)["hard_negatives"] == 0


def parts_of(made: Config) -> dict[str, Any]:
    parts = {field.name: getattr(made, field.name) for field in dataclasses.fields(Config)}
    return {name: part for name, part in parts.items() if part is not None}


def documented_fields() -> set[tuple[str, str]]:
    """Name the fields of the configs that are followed by a docstring."""
    body = ast.parse(Path(config.__file__).read_text("utf-8")).body
    return {
        (node.name, field.target.id)
        for node in body
        if isinstance(node, ast.ClassDef)
        for field, below in zip(node.body, node.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


# Settings that have another name in their config: HAXMLNet's `linear`, LinearTree's `fusion`.
RENAMED = {"enabled": "linear"}
CONFIG_FIELDS = [
    (type(part).__name__, field)
    for part in parts_of(haxmlnet_config(resolve_settings(DEFAULTS, 1000, 100), 100)).values()
    for field in dataclasses.fields(part)
]
# Defaults that are no setting's: constants of the linear methods, which have fewer settings than HAXMLNet.
CONSTANTS = {
    ("TreeConfig", "max_fan_out"): 32, ("TreeConfig", "label_words"): 500, ("MachineConfig", "device"): "cpu",
    ("MachineConfig", "check_memory"): False, ("LinearConfig", "hard_negatives"): 0,
}  # fmt: skip


@pytest.mark.parametrize(("part", "field"), CONFIG_FIELDS, ids=[f"{part}.{f.name}" for part, f in CONFIG_FIELDS])
def test_every_field_of_a_config_is_a_setting_or_a_documented_constant(part, field):
    if (part, field.name) in CONSTANTS:
        assert field.default == CONSTANTS[part, field.name]
        assert (part, field.name) in documented_fields()
        return
    assert RENAMED.get(field.name, field.name) in {**DEFAULTS, **LINEAR_DEFAULTS}
    if field.default is not dataclasses.MISSING:
        settings = LINEAR_DEFAULTS if part == "LinearConfig" else resolve_settings(DEFAULTS, 1000, 100)
        assert field.default == settings[field.name]


@pytest.mark.parametrize("n_labels", [100, 10_001])
@pytest.mark.parametrize("name", PRESETS)
def test_the_config_of_haxmlnet_says_what_the_settings_say(name, n_labels):
    values = resolve_settings({**DEFAULTS, **preset(name)}, 5000, n_labels)
    parts = parts_of(haxmlnet_config(values, n_labels))
    assert set(parts) == {field.name for field in dataclasses.fields(Config)}
    linear = dataclasses.asdict(parts.pop("linear"))
    wanted = {**LINEAR_DEFAULTS, "hard_negatives": linear_hard_negatives(n_labels)}
    assert linear == {field: wanted[field] for field in linear}
    found = {field: value for part in parts.values() for field, value in dataclasses.asdict(part).items()}
    constants = {"max_fan_out": 16, "label_words": 1000}
    assert found == {field: {**values, **constants}[RENAMED.get(field, field)] for field in found}


@pytest.mark.parametrize("hard_negatives", [None, 0, 7])
@pytest.mark.parametrize("changes", [{}, {"group_size": 8, "beam": 3, "C": 2.0, "fusion": False, "n_jobs": 2}])
def test_the_config_of_the_linear_tree_says_what_the_settings_say(changes, hard_negatives):
    values = check_settings({**LINEAR_DEFAULTS, **changes, "hard_negatives": hard_negatives}, LinearTreeSettings)
    made = linear_tree_config(values, 100)
    assert made.network is None
    assert made.training is None
    wanted = {**values, "enabled": values["fusion"]}
    wanted["hard_negatives"] = linear_hard_negatives(100) if hard_negatives is None else hard_negatives
    if not wanted.pop("fusion"):
        wanted["validation_fraction"] = 0  # no fusion, no documents held out to fit it
    found = {name: value for part in parts_of(made).values() for name, value in dataclasses.asdict(part).items()}
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_of_haxmlnet_is_in_its_config(name):
    made = haxmlnet_config(resolve_settings(DEFAULTS, 1000, 100), 100)
    names = {field.name for part in parts_of(made).values() for field in dataclasses.fields(part)}
    assert name in {RENAMED.get(field, field) for field in names}


def test_a_config_cannot_be_changed():
    made = haxmlnet_config(resolve_settings(DEFAULTS, 1000, 100), 100)
    for part in parts_of(made).values():
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, dataclasses.fields(part)[0].name, 1)


def test_many_labels_get_fewer_linear_hard_negatives():
    assert linear_hard_negatives(10_000) > linear_hard_negatives(10_001)
