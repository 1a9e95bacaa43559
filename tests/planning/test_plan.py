"""The plan of a training: counts that come true, memory that is held, advice that helps, and the early refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from haxmlnet import HAXMLNet
from haxmlnet.config import TextConfig
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import DataError, HaxmlnetError, NotEnoughMemory, SettingError
from haxmlnet.models.tree_model import new_network
from haxmlnet.planning.advice import VALUES
from haxmlnet.planning.available_memory import available_memory
from haxmlnet.planning.forecast import Plan
from haxmlnet.planning.model_shape import ModelShape, even_tree
from haxmlnet.planning.network_times import StepTimes
from haxmlnet.planning.sizes import DataSizes
from haxmlnet.planning.times import measure_times
from haxmlnet.planning.training_memory import PROGRAM, Memory
from haxmlnet.settings import Settings, resolve_settings, settings_of
from haxmlnet.text.vectors import vector_width

Documents = tuple[list[str], list[list[str]]]
AVAILABLE = "haxmlnet.planning.forecast.available_memory"
NARROW = {"word_size": 11, "hidden_size": 6, "mlp_sizes": (4,)}


def shape_of(sizes: DataSizes, **changes: Any) -> ModelShape:
    settings = {**settings_of(Settings()), **changes}
    return ModelShape(sizes, resolve_settings(settings, sizes.n_documents, sizes.n_labels))


def large_shape(**changes: Any) -> ModelShape:
    return shape_of(DataSizes.of_numbers(500_000, 670_000), **changes)


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
            torch.zeros(shape.vocabulary, shape.word_size), shape.tree, range(first, last + 1), shape.settings, 0
        )
        for first, last in ((levels[0].level, levels[-1].level) for levels in shape.networks)
    ]
    assert shape.parameters == sum(weight.numel() for network in networks for weight in network.parameters())
    heads = [network.head(level) for network in networks for level in network.levels]
    assert [level.nodes for level in shape.levels] == [head.n_nodes for head in heads]
    own = [head.queries.weight.numel() + (head.outputs.weight.numel() if head.outputs else 0) for head in heads]
    assert [level.table_parameters for level in shape.levels] == own


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


def test_sizes_are_counted(corpus: PreparedCorpus, documents: Documents) -> None:
    texts, labels = documents
    sizes, words = DataSizes.of_corpus(corpus), [text.split() for text in texts]
    assert (sizes.n_documents, sizes.n_labels) == (150, len({label for own in labels for label in own}))
    assert sizes.labels_per_document == pytest.approx(np.mean([len(own) for own in labels]))
    assert sizes.most_labels == 3
    assert sizes.mean_length(10) == pytest.approx(np.mean([min(len(own), 10) for own in words]))
    assert sizes.longest(10_000) == max(len(own) for own in words)
    assert sizes.distinct_words(corpus.n_words) == pytest.approx(np.mean([len(set(own)) for own in words]))
    assert sizes.vocabulary(TextConfig(10**6, 9)) == corpus.vocabulary_limit(10**6, 9)
    assert sizes.vocabulary(TextConfig(7, 9)) == 9


def test_given_numbers_replace_counted_ones(corpus: PreparedCorpus) -> None:
    sizes = DataSizes.of_corpus(corpus)
    more = sizes.replace(documents=10**6, labels=10**5)
    assert (more.n_documents, more.n_labels) == (10**6, 10**5)
    assert more.labels_per_document == sizes.labels_per_document
    assert more.distinct_words(corpus.n_words) == sizes.distinct_words(corpus.n_words)
    other = sizes.replace(words=300, labels_per_document=2.5, vocabulary=5000)
    assert (other.mean_length(200), other.labels_per_document, other.n_words) == (200, 2.5, 5002)
    assert 50 < other.distinct_words(5002) < 300


@pytest.mark.parametrize("wrong", [{"labels": 0}, {"documents": -1}, {"words": 0}, {"labels_per_document": 1000}])
def test_impossible_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        DataSizes.of_numbers(100, 10).replace(**wrong)


def test_impossible_levels_are_refused() -> None:
    shape = shape_of(DataSizes.of_numbers(100, 10), level_sizes=(3,))
    with pytest.raises(SettingError, match="powers of two"):
        Plan.of(shape.sizes, shape.settings)


def test_candidates_follow_the_settings() -> None:
    sizes = DataSizes.of_numbers(1000, 320).replace(labels_per_document=2)
    shape = shape_of(sizes, level_sizes=(32,), hard_negatives=3, beam=4, linear=False)
    assert [level.training_candidates for level in shape.levels] == [32, (2 + 3) * 10]
    assert [level.prediction_candidates for level in shape.levels] == [32, 4 * 10]
    assert shape_of(sizes, level_sizes=(32,), candidates=20).levels[1].training_candidates == 20


def test_an_even_tree_is_a_label_tree() -> None:
    tree = even_tree([4, 16, 103])
    tree.check()
    assert tree.level_sizes == [4, 16, 103]


def test_memory_holds_weights_moments_and_the_best_weights() -> None:
    shape = large_shape(linear=False)
    parts, weights = Memory(shape).parts, 4 * shape.parameters
    assert parts["weights"]["networks"] == weights
    of_labels = 670_000 * (shape.state_size + shape.network.mlp_sizes[-1] + 1)
    assert parts["optimizer"]["networks"] == 2 * weights - 4 * of_labels  # moments of large tables have 16 bits
    on_cuda = Memory(shape.with_settings(device="cuda")).parts
    assert on_cuda["optimizer"]["networks"] == 2 * weights  # only a processor has such moments
    small = shape_of(DataSizes.of_numbers(50_000, 67_000), linear=False)
    assert Memory(small).parts["optimizer"]["networks"] == 2 * 4 * small.parameters
    assert "copies of weights" not in parts  # they are on disk, with the checkpoints
    averaged = shape.with_settings(averaging_start=0.5)
    assert Memory(averaged).parts["copies of weights"]["networks"] == weights
    without_checkpoints = replace(averaged, has_checkpoints=False)
    assert Memory(without_checkpoints).parts["copies of weights"]["networks"] == 2 * weights
    lean = Memory(shape.with_settings(row_moments=True)).parts
    assert 0.5 * weights < lean["optimizer"]["networks"] < 0.7 * weights
    trees = Memory(shape.with_settings(n_trees=3)).parts
    assert trees["finished trees"]["networks"] == 2 * weights
    assert trees["optimizer"] == parts["optimizer"]
    assert trees["weights"]["prediction"] == 3 * weights


def test_totals_are_the_sums_of_the_parts_and_the_peak_is_the_largest_stage_of_training() -> None:
    memory = Memory(large_shape())
    for stage, total in memory.totals.items():
        assert total == sum(part.get(stage, 0) for part in memory.parts.values())
    assert memory.training_peak == max(memory.totals[stage] for stage in ("preparing", "networks", "linear tree"))
    assert "linear tree" not in Memory(large_shape(linear=False)).totals


def test_documents_count_as_memory_only_where_they_are_in_memory(corpus: PreparedCorpus, tmp_path: Path) -> None:
    in_memory = Memory(shape_of(DataSizes.of_corpus(corpus)))
    assert in_memory.mapped == 0
    assert in_memory.present > PROGRAM
    mapped = Memory(shape_of(DataSizes.of_numbers(150, 24)))
    assert mapped.present == PROGRAM
    assert mapped.mapped > 0


@pytest.mark.parametrize("setting", VALUES)
def test_every_change_that_can_be_advised_saves_memory_of_training(setting: str) -> None:
    given = {
        "averaging_start": 0.5,
        "n_trees": 2,
        "max_length": 400,
        "vocabulary_size": 2_000_000,
        "max_first_level": 4096,
    }
    sizes = DataSizes.of_numbers(2_000_000, 100_000).replace(vocabulary=2_000_000, words=500)
    # With small tables a batch dominates, with large ones the linear tree, and without it the networks.
    for hidden, batch, linear in ((512, 32, True), (64, 4000, True), (512, 32, False)):
        shape = shape_of(sizes, hidden_size=hidden, batch_size=batch, linear=linear, **given)
        value = list(VALUES[setting](shape.settings[setting]))[-1]
        if Memory(shape.with_settings(**{setting: value})).training_peak < Memory(shape).training_peak:
            return
    pytest.fail(f"{setting} saves nothing")


def test_what_fits_gets_no_advice() -> None:
    shape = large_shape(linear=False)
    needed = Memory(shape).training_peak - PROGRAM
    assert Plan(shape, needed).fits
    assert Plan(shape, needed).advice == []
    assert Plan(shape, needed).is_tight
    assert not Plan(shape, 2 * needed).is_tight
    assert not Plan(shape, needed - 1).fits
    assert Plan(shape, None).fits


def test_each_advised_change_makes_it_fit_and_saves_what_it_says() -> None:
    shape = large_shape()
    available = round(0.9 * Memory(shape).training_peak)
    advised = Plan(shape, available).advice
    assert len(advised) > 1
    for change in advised:
        other = shape.with_settings(**{change.setting: change.value})
        assert Memory(other).needed <= available
        assert Memory(shape).training_peak - Memory(other).training_peak == change.saved
    assert [change.setting for change in advised] == [name for name in VALUES if name in {c.setting for c in advised}]


def test_changes_are_joined_where_none_is_enough() -> None:
    shape = large_shape(hidden_size=512)
    available = 4_000_000_000
    advised = Plan(shape, available).advice
    assert [change.fits for change in advised] == [False] * (len(advised) - 1) + [True]
    other = shape.with_settings(**{change.setting: change.value for change in advised})
    assert Memory(other).needed <= available
    assert not Plan(shape, 1_000_000).advice[-1].fits


def test_flags_of_switches() -> None:
    shape = large_shape()
    (change,) = [c for c in Plan(shape, round(0.7 * Memory(shape).training_peak)).advice if c.setting == "linear"]
    assert (change.flag, change.argument) == ("--no-linear", "linear=False")


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


@pytest.mark.parametrize("shared_encoder", [True, False])
def test_times_are_measured_for_every_kind_of_network(shared_encoder: bool) -> None:
    sizes = DataSizes.of_numbers(2000, 300).replace(words=8, labels_per_document=2.5, vocabulary=500)
    shape = shape_of(sizes, **NARROW, group_size=8, shared_encoder=shared_encoder, n_jobs=1, epochs=3)
    threads = torch.get_num_threads()
    times = measure_times(shape)
    assert min(times.tree, times.networks, times.validation, times.linear, times.prediction) > 0
    assert times.networks == pytest.approx(3 * times.epoch)
    assert times.training == pytest.approx(sum((times.tree, times.networks, times.validation, times.linear)))
    assert torch.get_num_threads() == threads


def test_times_grow_with_documents_and_epochs() -> None:
    sizes = DataSizes.of_numbers(10_000, 300)
    steps = StepTimes([0.5], [0.001])
    shape = shape_of(sizes, epochs=3, batch_size=10, validation_fraction=0.1)
    assert steps.training(shape) == 3 * 900 * 0.5
    assert steps.validation(shape) == pytest.approx(3 * 1000 * 0.001)
    assert steps.training(shape.with_settings(n_trees=2)) == 2 * 3 * 900 * 0.5


def test_width_of_vectors_is_read_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("2 3\na 1 2 3\nb 4 5 6\n")
    assert vector_width(file) == 3
    shape = shape_of(DataSizes.of_numbers(1000, 50), vectors=str(file))
    assert shape.word_size == 3
    file.write_text("")
    with pytest.raises(DataError, match="holds no vectors"):
        vector_width(file)


def machine_root(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:       9000 kB\nMemAvailable:   8000 kB\nHugePages_Total:       0\n"}


def test_available_memory_is_what_the_system_says(tmp_path: Path) -> None:
    assert available_memory(machine_root(tmp_path, MEMINFO)) == 8000 * 1024
    assert (available_memory() or 1) > 0


@pytest.mark.parametrize(
    ("group", "folder", "files"),
    [
        ("0::/job\n", "sys/fs/cgroup/job", ("memory.max", "memory.current", "inactive_file 50")),
        ("0::/elsewhere\n", "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file 50")),
        (
            "4:cpu,memory:/job\n0::/\n",
            "sys/fs/cgroup/memory/job",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file 50"),
        ),
    ],
)
def test_limits_of_containers_count(tmp_path: Path, group: str, folder: str, files: tuple[str, str, str]) -> None:
    limit, used, droppable = files
    root = machine_root(
        tmp_path,
        {
            **MEMINFO, "proc/self/cgroup": group, f"{folder}/{limit}": "1000\n", f"{folder}/{used}": "300\n",
            f"{folder}/memory.stat": f"anon 250\n{droppable}\n",
        },
    )  # fmt: skip
    assert available_memory(root) == 1000 - 300 + 50
    (root / folder / limit).write_text("max\n")
    assert available_memory(root) == 8000 * 1024


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
