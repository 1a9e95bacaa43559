from __future__ import annotations

import tomllib
from fractions import Fraction

import numpy as np
import pytest

from haxmlnet.errors import SettingError
from haxmlnet.settings import (
    PRESETS,
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
def test_a_whole_number_is_nothing_else(name, value):
    assert refused(name, value).startswith(f"{name} must be a whole number, got ")


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
def test_lists_hold_positive_whole_numbers(value):
    assert refused("level_sizes", value).startswith("level_sizes must be a list of positive whole numbers, got ")


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
