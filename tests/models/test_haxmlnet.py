from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from haxmlnet.data.labels import index_labels
from haxmlnet.errors import DataError, SettingError
from haxmlnet.evidence.level_networks import get_weights
from haxmlnet.models.haxmlnet import HAXMLNet
from haxmlnet.progress import Progress
from haxmlnet.store import read_arrays
from haxmlnet.text.corpus_builder import prepare_texts
from haxmlnet.training.hardware import choose_dtype, cpu_threads

# The levels above the labels, and whether all levels share one encoder.
SHAPES = {
    "flat": ((), True),
    "two levels": ((8,), True),
    "three levels": ((2, 8), True),
    "three levels, separate": ((2, 8), False),
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
SEPARATE = SHAPES["three levels, separate"]


@pytest.fixture(scope="module")
def fitted(new_hasty_model, tiny_corpus):
    """Train one model for each shape of the tree, once."""
    models: dict[tuple[tuple[int, ...], bool], HAXMLNet] = {}

    def get(shape: tuple[tuple[int, ...], bool]) -> HAXMLNet:
        if shape not in models:
            level_sizes, shared = shape
            model = new_hasty_model("HAXMLNet", level_sizes=level_sizes, shared_encoder=shared, epochs=3)
            models[shape] = model.fit(*tiny_corpus)
        return models[shape]

    return get


@torch.no_grad()
def exhaustive_scores(model: HAXMLNet, texts: list[str], number: int = 0) -> NDArray[np.float64]:
    """Score every label of every text: the product of the probabilities along its path, text by text."""
    tree, networks = model.trees_[number].tree, model.trees_[number].first.networks
    rows = []
    for text in texts:
        words, _ = model.tokenizer_.encode_with_offsets(text)
        tokens, length = torch.from_numpy(words.astype(np.int64))[None], torch.tensor([len(words)])
        scores = np.ones(1)
        with cpu_threads(1):
            for network in networks:
                states = network.eval().encode(tokens, length)
                for level in network.levels:
                    own = network.head(level)(states, length).sigmoid()[0].double().numpy()
                    scores = own * (scores[tree.parents[level - 1]] if level > 0 else 1)
        rows.append(scores)
    return np.array(rows)


def assert_ranks(ranking, expected: NDArray[np.float64]) -> None:
    best = -np.sort(-expected, axis=1)[:, : ranking.ids.shape[1]]
    np.testing.assert_allclose(ranking.scores, best, atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(expected, ranking.ids, 1), best, atol=1e-5)


@every_shape
def test_a_search_of_all_nodes_is_the_exhaustive_product(fitted, unseen_documents, shape):
    model, (level_sizes, _) = fitted(shape), shape
    assert model.trees_[0].tree.level_sizes == [*level_sizes, 24]
    texts, _ = unseen_documents
    assert_ranks(model.predict(texts, k=24), exhaustive_scores(model, texts))


needs_bfloat16 = pytest.mark.skipif(
    choose_dtype("auto", torch.device("cpu")) == torch.float32, reason="bfloat16 is no faster on this processor"
)


@needs_bfloat16
def test_bfloat16_learns_as_well_and_is_kept_with_the_model(new_model, tiny_corpus, unseen_documents, tmp_path):
    texts, labels = unseen_documents
    models = [new_model("HAXMLNet", precision=name, linear=False).fit(*tiny_corpus) for name in ("auto", "float32")]
    assert [model.describe()["training"]["dtype"] for model in models] == ["bfloat16", "float32"]
    short, long = (model.evaluate(texts, labels).values["nDCG@5"] for model in models)
    assert short > long - 2
    models[0].save(tmp_path / "model")
    loaded, together = HAXMLNet.load(tmp_path / "model"), models[0].predict(texts, k=24)
    assert {network.dtype for network in loaded.trees_[0].first.networks} == {torch.bfloat16}
    np.testing.assert_array_equal(loaded.predict(texts, k=24).scores, together.scores)


@pytest.mark.parametrize("linear", [True, False], ids=["fused", "alone"])
@pytest.mark.parametrize(
    ("precision", "tolerance"), [("float32", 1e-5), pytest.param("auto", 0.01, marks=needs_bfloat16)]
)
def test_a_text_alone_has_the_scores_that_it_has_in_a_batch(
    new_hasty_model, tiny_corpus, unseen_documents, tmp_path, precision, tolerance, linear
):
    settings = {"precision": precision, "linear": linear, "validation_fraction": 0.4, "epochs": 3}
    new_hasty_model("HAXMLNet", **settings).fit(*tiny_corpus).save(tmp_path / "model")
    model, texts = HAXMLNet.load(tmp_path / "model"), unseen_documents[0]
    together = model.predict(texts, k=24).to_csr().toarray()
    alone = [model.predict([text], k=24).to_csr().toarray()[0] for text in texts]
    np.testing.assert_allclose(alone, together, atol=tolerance)


def test_settings_of_the_training_do_not_change_a_fitted_model(fitted, unseen_documents):
    model, texts = fitted(SHAPES["two levels"]), unseen_documents[0]
    before = model.predict(texts)
    model.set_params(precision="auto", max_length=3)
    after = model.predict(texts)
    model.set_params(precision="float32", max_length=200)
    np.testing.assert_array_equal(after.scores, before.scores)


@every_shape
def test_every_shape_of_tree_is_saved_and_loaded(fitted, unseen_documents, tmp_path, shape):
    model = fitted(shape)
    model.save(tmp_path / "model")
    loaded, texts = HAXMLNet.load(tmp_path / "model"), unseen_documents[0]
    np.testing.assert_array_equal(loaded.predict(texts).scores, model.predict(texts).scores)


def saved_networks(directory: Path) -> set[str]:
    return {name.split(".")[0] for name in read_arrays(directory / "tree_0.attention.safetensors")} - {
        "validation_score"
    }


def test_one_network_has_all_levels_where_the_encoder_is_shared(fitted, tmp_path):
    model = fitted(SHAPES["three levels"])
    assert [list(network.levels) for network in model.trees_[0].first.networks] == [[0, 1, 2]]
    model.save(tmp_path / "model")
    assert saved_networks(tmp_path / "model") == {"level_0"}


def test_every_level_has_a_network_where_the_encoder_is_not_shared(fitted, tmp_path):
    model = fitted(SEPARATE)
    networks = model.trees_[0].first.networks
    assert [list(network.levels) for network in networks] == [[0], [1], [2]]
    assert len({network.encoder.words.weight.data_ptr() for network in networks}) == 3
    model.save(tmp_path / "model")
    assert saved_networks(tmp_path / "model") == {"level_0", "level_1", "level_2"}


@every_shape
def test_the_description_counts_every_parameter_once(fitted, shape):
    model = fitted(shape)
    description = model.describe()
    weights = [weight for network in model.trees_[0].first.networks for weight in network.parameters()]
    assert description["parameters"] == sum(weight.numel() for weight in weights)
    assert [level["nodes"] for level in description["levels"]] == model.trees_[0].tree.level_sizes


def test_separate_networks_learn_the_corpus(new_model, tiny_corpus, unseen_documents):
    model = new_model("HAXMLNet", shared_encoder=False, linear=False).fit(*tiny_corpus)
    assert len(model.trees_[0].first.networks) == 2
    assert model.evaluate(*unseen_documents).values["P@1"] > 90


class Failing(Progress):
    """Fails after so many batches."""

    def __init__(self, after: int) -> None:
        self.left = after

    @contextmanager
    def stage(self, name: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
        yield self.advance if unit == "batches" else lambda n, note="": None

    def advance(self, n: int, note: str = "") -> None:
        self.left -= n
        if self.left < 0:
            raise RuntimeError("power failure")


@pytest.mark.parametrize(("shared", "stops"), [(True, [4, 7]), (False, [4, 21, 8])], ids=["shared", "separate"])
def test_a_resumed_training_ends_with_the_same_model(
    new_hasty_model, tiny_corpus, unseen_documents, tmp_path, shared, stops
):
    # A network has 18 batches: of two separate ones, the first is finished and the second begun at the second stop.
    new = partial(new_hasty_model, "HAXMLNet", shared_encoder=shared, epochs=2, checkpoint_seconds=0, linear=False)
    texts, _ = unseen_documents
    expected = new().fit(*tiny_corpus).predict(texts)
    directory = tmp_path / "checkpoints"
    for attempt, stop in enumerate(stops):
        with pytest.raises(RuntimeError, match="power failure"):
            new().fit(*tiny_corpus, checkpoint_dir=directory, resume=attempt > 0, progress=Failing(stop))
    of_second = ["tree 0 level 1.best.9", "tree 0 level 1.unfinished"]  # its first epoch has 9 batches
    names = ["tree 0.unfinished"] if shared else ["tree 0 level 0", *of_second]
    assert sorted(file.stem for file in directory.glob("*.safetensors")) == names
    resumed = new().fit(*tiny_corpus, checkpoint_dir=directory, resume=True)
    np.testing.assert_array_equal(resumed.predict(texts).scores, expected.scores)
    np.testing.assert_array_equal(resumed.predict(texts).ids, expected.ids)


@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_a_training_in_two_threads_can_be_repeated(new_hasty_model, tiny_corpus, precision):
    # Batches of 32 documents have two parts.
    changes = {"n_jobs": 2, "batch_size": 32, "precision": precision}
    first, again = (new_hasty_model("HAXMLNet", **changes).fit(*tiny_corpus) for _ in range(2))
    weights, others = (get_weights(model.trees_[0].first.networks[0]) for model in (first, again))
    for name, value in weights.items():
        np.testing.assert_array_equal(value, others[name], err_msg=name)


def test_a_narrow_beam_scores_only_the_labels_of_its_group(fitted, unseen_documents):
    model, texts = fitted(SHAPES["two levels"]), unseen_documents[0]
    model.set_params(beam=1)
    ranking = model.predict(texts, k=3)
    model.set_params(beam=None)
    groups = model.trees_[0].tree.parents[0][ranking.ids]
    assert (groups == groups[:, :1]).all()


def test_two_trees_give_the_mean_of_their_scores(new_hasty_model, tiny_corpus, unseen_documents, tmp_path):
    texts, _ = unseen_documents
    model = new_hasty_model("HAXMLNet", n_trees=2).fit(*tiny_corpus)
    documents = model._documents_of(texts)
    each = [tree.rank(documents, 24, 1).to_csr().toarray() for tree in model.trees_]
    assert not np.allclose(*each)
    assert_ranks(model.predict(texts, k=5), np.mean(each, axis=0))
    model.save(tmp_path / "model")
    loaded = HAXMLNet.load(tmp_path / "model")
    assert len(loaded.trees_) == 2
    np.testing.assert_array_equal(loaded.predict(texts).scores, model.predict(texts).scores)


def test_validation_documents_are_held_out_or_given(new_hasty_model, tiny_corpus, unseen_documents):
    split = new_hasty_model("HAXMLNet", validation_fraction=0.2).fit(*tiny_corpus)
    given = new_hasty_model("HAXMLNet").fit(*tiny_corpus, validation=unseen_documents)
    none = new_hasty_model("HAXMLNet", validation_fraction=0).fit(*tiny_corpus)
    assert [model.training_["n_validation"] for model in (split, given, none)] == [30, 40, 0]
    assert all(0 <= model.training_["validation_nDCG@5"][0] <= 100 for model in (split, given))
    assert none.training_["validation_nDCG@5"] == [-1]


def test_prepared_validation_documents_are_as_texts(new_hasty_model, tiny_corpus, unseen_documents):
    by_texts = new_hasty_model("HAXMLNet").fit(*tiny_corpus, validation=unseen_documents)
    train, validation = (
        prepare_texts(texts, *index_labels(labels, len(texts))) for texts, labels in (tiny_corpus, unseen_documents)
    )
    prepared = new_hasty_model("HAXMLNet").fit_prepared(train, validation=validation)
    assert prepared.training_["validation_nDCG@5"] == by_texts.training_["validation_nDCG@5"]
    assert prepared.training_["n_validation"] == 40


def test_no_validation_documents_mean_that_none_are_held_out(new_hasty_model, tiny_corpus):
    model = new_hasty_model("HAXMLNet").fit(*tiny_corpus, validation=([], []))
    assert model.training_["n_validation"] == 0


def test_the_validation_score_is_that_of_the_model_kept(new_hasty_model, tiny_corpus, unseen_documents):
    model = new_hasty_model("HAXMLNet", epochs=3).fit(*tiny_corpus, validation=unseen_documents)
    score = model.evaluate(*unseen_documents).values["nDCG@5"]
    assert model.training_["validation_nDCG@5"] == [pytest.approx(score, abs=0.01)]


def test_validation_labels_that_training_lacks_count_as_missed(new_hasty_model, tiny_corpus, unseen_documents):
    texts, labels = unseen_documents
    model = new_hasty_model("HAXMLNet").fit(*tiny_corpus, validation=(texts, [["unheard of"]] * len(labels)))
    assert model.training_["validation_nDCG@5"] == [0]


def test_validation_of_the_wrong_shape_is_refused(new_hasty_model, tiny_corpus):
    with pytest.raises(DataError, match="validation"):
        new_hasty_model("HAXMLNet").fit(*tiny_corpus, validation=(["one", "two"], [["label 00"]]))


def test_five_documents_are_enough(new_hasty_model):
    texts = ["red fish", "blue bird", "red bird", "blue fish", "green frog"]
    labels = [["red", "fish"], ["blue", "bird"], ["red", "bird"], ["blue", "fish"], ["frog"]]
    model = new_hasty_model("HAXMLNet", epochs=60).fit(texts, labels)
    assert model.training_["n_validation"] == 0
    assert model.evaluate(texts, labels).values["P@1"] == 100


def test_the_paper_preset_has_the_networks_of_the_paper(tiny_corpus):
    small = {"hidden_size": 8, "mlp_sizes": (8,), "word_size": 8, "epochs": 1, "group_size": 4, "n_jobs": 1}
    model = HAXMLNet.from_preset("paper", **small).fit(*tiny_corpus)
    settings = model.training_["settings"]
    assert (settings["hard_negatives"], settings["candidates"], settings["beam"]) == (0, 1000, 10)
    assert model.trees_[0].tree.level_sizes == [8, 24]
    networks = model.trees_[0].first.networks
    assert [list(network.levels) for network in networks] == [[0], [1]]
    for level, network in enumerate(networks):
        assert network.head(level).outputs is None
        assert network.head(level).queries.weight.shape[1] == 2 * 8


def test_word_vectors_are_read_from_a_file(new_hasty_model, tiny_corpus, tmp_path: Path):
    file = tmp_path / "vectors.txt"
    rng = np.random.default_rng(0)
    vectors = {f"sign{label}{side}": rng.normal(size=6).round(3) for label in range(24) for side in "ab"}
    file.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in vectors.items()))
    model = new_hasty_model("HAXMLNet", vectors=str(file), train_word_vectors=False).fit(*tiny_corpus)
    words = model.tokenizer_.words
    for network in model.trees_[0].first.networks:
        table = network.encoder.words.weight.detach().numpy()
        assert table.shape == (len(words), 6)
        for word, vector in vectors.items():
            np.testing.assert_allclose(table[words.index(word)], vector, rtol=1e-6)


def test_a_missing_file_of_word_vectors_is_refused(new_hasty_model, tiny_corpus):
    with pytest.raises(DataError, match="no such file of word vectors"):
        new_hasty_model("HAXMLNet", vectors="nowhere.txt").fit(*tiny_corpus)


def test_an_unknown_preset_is_refused():
    with pytest.raises(SettingError, match=re.escape("there is no 'papr'. Use one of default, paper")):
        HAXMLNet.from_preset("papr")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("epochs", 0), ("epochs", 1.5), ("hidden_size", "big"), ("beam", 0), ("word_dropout", 1),
        ("learning_rate", float("nan")), ("device", "tpu"), ("own_outputs", "yes"), ("level_sizes", 8),
        ("level_sizes", (3,)), ("level_sizes", (8, 2)), ("level_sizes", (64,)), ("mlp_sizes", ()),
        ("random_state", None),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_by_fit_alone(new_hasty_model, tiny_corpus, setting, value):
    model = new_hasty_model("HAXMLNet", **{setting: value})
    with pytest.raises(SettingError, match=setting.replace("_", "[_ ]")):
        model.fit(*tiny_corpus)
