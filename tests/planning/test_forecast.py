"""What a plan says comes true, and `fit` refuses early what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planned import NARROW, Documents, shape_of

from haxmlnet import HAXMLNet
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import HaxmlnetError, NotEnoughMemory, SettingError
from haxmlnet.planning.forecast import Plan
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.planning.training_memory import Memory

AVAILABLE = "haxmlnet.planning.forecast.available_memory"


def test_a_plan_says_what_training_then_makes(documents: Documents, corpus: PreparedCorpus, tmp_path: Path) -> None:
    model = HAXMLNet(**NARROW, group_size=4, epochs=1, n_trees=2, n_jobs=1).fit(*documents)
    made = model.describe()
    shape = shape_of(DataSizes.of_corpus(corpus), **NARROW, group_size=4, epochs=1, n_trees=2)
    assert shape.parameters == made["parameters"]
    assert [level.parameters for level in shape.levels] * 2 == [level["parameters"] for level in made["levels"]]
    assert (shape.vocabulary, shape.n_held_out) == (made["n_words"], made["training"]["n_validation"])
    model.save(tmp_path / "model")
    on_disk = sum(file.stat().st_size for file in (tmp_path / "model").glob("*.safetensors"))
    assert Memory(shape).model_bytes == pytest.approx(on_disk, rel=0.5)


def test_impossible_levels_are_refused() -> None:
    shape = shape_of(DataSizes.of_numbers(100, 10), level_sizes=(3,))
    with pytest.raises(SettingError, match="powers of two"):
        Plan.of(shape.sizes, shape.settings)


def test_fit_refuses_early_what_does_not_fit(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AVAILABLE, lambda: 100_000_000)
    model = HAXMLNet(hidden_size=2048, epochs=1)
    with pytest.raises(NotEnoughMemory) as refusal:
        model.fit(*documents)
    message = str(refusal.value)
    assert "\n" not in message
    assert "GB of memory" in message
    assert "check_memory=False" in message
    assert isinstance(refusal.value, HaxmlnetError)
    assert isinstance(refusal.value, MemoryError)
    assert not hasattr(model, "trees_")


def test_the_advice_of_the_refusal_can_be_followed(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AVAILABLE, lambda: 80_000_000)
    with pytest.raises(NotEnoughMemory, match=r"hidden_size=\d+ \(saves"):
        HAXMLNet(hidden_size=1024, epochs=1, n_jobs=1).fit(*documents)
    HAXMLNet(**NARROW, epochs=1, n_jobs=1).fit(*documents)


@pytest.mark.parametrize("settings", [{"check_memory": False}, {}])
def test_fit_trains_where_it_may_or_where_the_memory_is_not_known(
    documents: Documents, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(AVAILABLE, lambda: 1 if settings else None)
    assert HAXMLNet(**NARROW, epochs=1, n_jobs=1, **settings).fit(*documents).trees_


def test_a_training_may_be_resumed_without_the_check(documents: Documents, tmp_path: Path) -> None:
    HAXMLNet(**NARROW, epochs=1, n_jobs=1).fit(*documents, checkpoint_dir=tmp_path)
    HAXMLNet(**NARROW, epochs=1, n_jobs=1, check_memory=False).fit(*documents, checkpoint_dir=tmp_path, resume=True)


def test_a_model_plans_its_own_training(corpus: PreparedCorpus) -> None:
    model = HAXMLNet(**NARROW)
    counted = model.plan(corpus)
    assert counted.shape.sizes.n_documents == len(corpus)
    assert counted.shape.network.hidden_size == 6
    assert model.plan(corpus, labels=500_000).shape.parameters > 10 * counted.shape.parameters
    assumed = model.plan(documents=500_000, labels=670_000, words=50)
    assert assumed.describe()["sizes"]["words_per_document"] == 50
    with pytest.raises(SettingError, match="without a corpus, documents and labels are needed"):
        model.plan(labels=7)
    with pytest.raises(SettingError, match="hidden_size"):
        HAXMLNet(hidden_size=0).plan(corpus)
