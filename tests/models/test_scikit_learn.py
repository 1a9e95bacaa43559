"""Every method is an estimator as scikit-learn's tools expect it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from haxmlnet.models import METHODS

SEARCHED: dict[str, dict[str, list[Any]]] = {
    "HAXMLNet": {"learning_rate": [1e-6, 0.03]},
    "OneVsRestSVM": {"C": [1e-6, 1.0]},
}


@pytest.fixture(params=list(METHODS))
def name(request):
    return request.param


def lower_cased(texts):
    return [text.lower() for text in texts]


def test_the_constructor_only_keeps_its_arguments(name):
    marks = {argument: object() for argument in inspect.signature(METHODS[name]).parameters}
    model = METHODS[name](**marks)
    assert vars(model) == marks
    assert model.get_params(deep=False) == marks


def test_get_and_set_params_make_the_round_trip(name):
    model = METHODS[name]()
    params = {**model.get_params(), "vocabulary_size": 77, "random_state": 5}
    assert model.set_params(**params) is model
    assert model.get_params() == params
    with pytest.raises(ValueError, match="Invalid parameter 'nonesuch'"):
        model.set_params(nonesuch=1)


def test_clone_takes_the_settings_and_leaves_what_was_learned(name, new_hasty_model):
    model = new_hasty_model(name, random_state=3).fit(["red fish", "blue bird"], [["fish"], ["bird"]])
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "label_index_")


def test_fitting_leaves_the_settings_as_they_were(name, new_hasty_model):
    model = new_hasty_model(name)
    before = model.get_params()
    model.fit(["red fish", "blue bird"], [["fish"], ["bird"]])
    assert model.get_params() == before


def test_a_grid_search_finds_the_better_setting(name, new_model, tiny_corpus):
    changes = {"epochs": 4} if name == "HAXMLNet" else {}
    search = GridSearchCV(new_model(name, **changes), SEARCHED.get(name, {"random_state": [0, 1]}), cv=2)
    search.fit(*tiny_corpus)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    if name in SEARCHED:
        (setting, values), *_ = SEARCHED[name].items()
        assert search.best_params_ == {setting: values[1]}


def test_a_pipeline_prepares_the_texts(name, new_hasty_model, tiny_corpus):
    texts, labels = tiny_corpus
    expected = new_hasty_model(name).fit(texts, labels).predict(texts, k=3)
    pipeline = Pipeline([("lower", FunctionTransformer(lower_cased)), ("method", new_hasty_model(name))])
    loud = [text.upper() for text in texts]
    ranking = pipeline.fit(loud, labels).predict(loud, k=3)
    np.testing.assert_array_equal(ranking.ids, expected.ids)
    assert pipeline.score(loud, labels) == pytest.approx(new_hasty_model(name).fit(texts, labels).score(texts, labels))


def test_numbers_of_numpy_can_be_saved(name, new_hasty_model, tmp_path):
    model = new_hasty_model(name, random_state=np.int64(3), vocabulary_size=np.int32(9))
    model.fit(["red fish", "blue bird"], [["fish"], ["bird"]]).save(tmp_path / "model")
    assert METHODS[name].load(tmp_path / "model").random_state == 3
