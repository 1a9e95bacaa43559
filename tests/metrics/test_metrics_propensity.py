from __future__ import annotations

import math

import numpy as np
import pytest

from haxmlnet.errors import SettingError
from haxmlnet.metrics import propensities


def test_formula_of_jain_and_others():
    c = (math.log(1000) - 1) * (2.6 + 1) ** 0.6
    expected = [1 / (1 + c * (count + 2.6) ** -0.6) for count in (0, 1, 50, 999)]
    assert propensities([0, 1, 50, 999], 1000, 0.6, 2.6) == pytest.approx(expected)


def test_label_seen_once_has_propensity_one_over_log_n():
    # (1 + b)^-a cancels (b + 1)^a, which leaves 1 / (1 + ln N - 1).
    assert propensities([1], 490_449)[0] == pytest.approx(1 / math.log(490_449))


def test_rarer_labels_have_lower_propensities():
    assert (np.diff(propensities(np.arange(100), 5000)) > 0).all()


@pytest.mark.parametrize("n_documents", [0, 1, 2])
def test_tiny_training_sets_give_ones(n_documents):
    assert propensities([0, 1, 2], n_documents).tolist() == [1, 1, 1]


@pytest.mark.parametrize(("a", "b"), [(-0.1, 1.5), (0.55, 0)])
def test_parameters_that_make_no_propensity_are_refused(a, b):
    with pytest.raises(SettingError, match="b above 0, got a="):
        propensities([1], 10, a, b)
