"""How models fuse evidence: HAXMLNet and LinearTree, with all they know."""

from __future__ import annotations

import numpy as np
import pytest

from haxmlnet.errors import ModelError
from haxmlnet.evidence.attention_tree import AttentionTree
from haxmlnet.evidence.classifier_tree import ClassifierTree
from haxmlnet.evidence.label_frequency import LabelFrequency
from haxmlnet.evidence.label_names import LabelNames
from haxmlnet.evidence.nearest_documents import NearestDocuments
from haxmlnet.models import load_model
from haxmlnet.models.haxmlnet import HAXMLNet
from haxmlnet.ranking import ABSENT, Ranking
from haxmlnet.saved import SavedModel
from haxmlnet.store import HEADER, write_arrays, write_header

# Enough of the tiny corpus is held out to fit the fusion.
HELD_OUT = {"HAXMLNet": {"validation_fraction": 0.4, "epochs": 3}, "LinearTree": {"validation_fraction": 0.4}}
FUSED = ["HAXMLNet", "LinearTree"]
# A beam that meets few of the 24 labels, and few of these judged by the fusion.
NARROW = {"n_candidates": 4, "beam": 2}


@pytest.fixture(scope="module")
def fused(new_hasty_model, tiny_corpus) -> HAXMLNet:
    return new_hasty_model("HAXMLNet", **HELD_OUT["HAXMLNet"]).fit(*tiny_corpus)


def sources_of(model) -> list[list[type]]:
    return [[type(evidence) for evidence in tree.evidence] for tree in model.trees_]


def assert_same_after_loading(model, texts, directory) -> None:
    model.save(directory)
    loaded = load_model(directory)
    assert sources_of(loaded) == sources_of(model)
    np.testing.assert_array_equal(loaded.predict(texts).ids, model.predict(texts).ids)
    np.testing.assert_array_equal(loaded.predict(texts).scores, model.predict(texts).scores)


def test_other_evidence_helps_networks_that_have_learned_little(fused, new_hasty_model, tiny_corpus, unseen_documents):
    alone = new_hasty_model("HAXMLNet", **HELD_OUT["HAXMLNet"], linear=False).fit(*tiny_corpus)
    assert sources_of(alone) == [[AttentionTree]]
    assert alone.trees_[0].fusion is None
    assert sources_of(fused) == [[AttentionTree, ClassifierTree, LabelFrequency, LabelNames, NearestDocuments]]
    assert fused.trees_[0].fusion is not None
    better, worse = (model.evaluate(*unseen_documents).values["nDCG@5"] for model in (fused, alone))
    assert better > worse + 5


def test_scores_are_probabilities(fused, make_documents):
    texts, labels = make_documents(400, 7)
    ranking = fused.predict(texts, k=24)
    right = np.array([[label in truth for label in row] for row, truth in zip(ranking.labels, labels, strict=True)])
    assert abs(right.mean() - ranking.scores.mean()) < 0.03


def test_many_documents_are_ranked_block_by_block(fused, make_documents, monkeypatch):
    texts, _ = make_documents(50, 8)
    at_once = fused.predict(texts, k=5)
    monkeypatch.setattr("haxmlnet.evidence.attention_tree.MAX_BLOCK", 7)
    in_blocks = fused.predict(texts, k=5)
    np.testing.assert_array_equal(in_blocks.ids, at_once.ids)
    np.testing.assert_allclose(in_blocks.scores, at_once.scores, atol=1e-5)


@pytest.mark.parametrize("name", FUSED)
def test_all_evidence_speaks_in_the_fusion(name, new_hasty_model, tiny_corpus, unseen_documents):
    model = new_hasty_model(name, **HELD_OUT[name], **({"fusion": True} if name == "LinearTree" else {}))
    model.fit(*tiny_corpus)
    tree, candidates = model.trees_[0], np.tile(np.arange(24, dtype=np.int32), (40, 1))
    findings = tree.examine(model._documents_of(unseen_documents[0]))
    widths = [found.features(candidates).shape[-1] for found in findings]
    assert widths == [len(evidence.feature_names) for evidence in tree.evidence]
    assert len(set(tree.feature_names)) == len(tree.feature_names) == sum(widths) == len(tree.fusion.centre) // 2
    assert all(feature.startswith(f"{tree.evidence[0].name}: ") for feature in tree.feature_names[: widths[0]])


def test_the_evidence_is_a_small_part_of_all_labels_whatever_k(fused, unseen_documents):
    tree, documents = fused.trees_[0], fused._documents_of(unseen_documents[0])
    widths = {
        evidence.name: found.proposals.shape
        for evidence, found in zip(tree.evidence, tree.examine(documents), strict=True)
    }
    # 32 of each tree, but there are 24 labels; half as many by name, a quarter of the nearest documents.
    assert widths == {
        "attention": (40, 24), "classifiers": (40, 24), "label_frequency": (40, 0), "label_names": (40, 16),
        "nearest_documents": (40, 8),
    }  # fmt: skip


def test_frequencies_classifiers_and_documents_are_of_all_documents_in_the_end(fused, tiny_corpus):
    _, labels = tiny_corpus
    counts = [sum(name in row for row in labels) for name in fused.classes_]
    _, classifiers, frequency, _, nearest = fused.trees_[0].evidence
    assert frequency.counts.tolist() == counts
    assert nearest.targets.sum(axis=0).tolist() == counts
    assert nearest.postings.shape[1] == len(labels)
    assert isinstance(classifiers, ClassifierTree)


@pytest.mark.parametrize(("few", "n_trainings"), [(0.39, 2), (0.4, 1)])
def test_classifiers_are_kept_where_few_documents_were_held_out(
    few, n_trainings, new_hasty_model, tiny_corpus, monkeypatch
):
    trained_on, train = [], ClassifierTree.train.__func__

    def spy(cls, fold, tree, run):
        trained_on.append(len(fold.kept))
        return train(cls, fold, tree, run)

    monkeypatch.setattr("haxmlnet.evidence.classifier_tree.FEW_HELD_OUT", few)
    monkeypatch.setattr(ClassifierTree, "train", classmethod(spy))
    tree = new_hasty_model("HAXMLNet", **HELD_OUT["HAXMLNet"]).fit(*tiny_corpus).trees_[0]
    assert trained_on == [90, 150][:n_trainings]
    assert tree.fusion is not None
    assert tree.evidence[4].targets.shape[0] == 150


def test_given_validation_documents_are_used(new_hasty_model, tiny_corpus, make_documents):
    model = new_hasty_model("HAXMLNet").fit(*tiny_corpus, validation=make_documents(60, 3))
    assert len(model.trees_[0].evidence) == 5
    assert model.trees_[0].fusion is not None


def test_it_is_saved_and_loaded(fused, unseen_documents, tmp_path):
    assert_same_after_loading(fused, unseen_documents[0], tmp_path / "model")
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == [
        "features.safetensors", "label_frequency.safetensors", "label_names.safetensors", "labels.safetensors",
        "labels.txt", "model.json", "nearest_documents.safetensors", "tokenizer.json", "tree_0.attention.safetensors",
        "tree_0.classifiers.safetensors", "tree_0.fusion.safetensors", "tree_0.safetensors",
    ]  # fmt: skip


@pytest.mark.parametrize("k", [1, 4])
def test_one_by_one_is_as_in_a_batch(fused, unseen_documents, k):
    texts = [*unseen_documents[0], "", "words nobody knows"]
    together = fused.predict(texts, k)
    for row, text in enumerate(texts):
        np.testing.assert_allclose(fused.predict([text], k).scores[0], together.scores[row], atol=1e-5)


def save_changed(model, directory, file: str, arrays) -> None:
    """Save a model with other arrays in one file, and checksums that fit."""
    model.save(directory)
    header = SavedModel(directory).header
    (directory / HEADER).unlink()
    write_arrays(directory / file, arrays)
    write_header(directory, {name: header[name] for name in ("method", "settings", "training")})


def test_word_weights_of_another_vocabulary_are_refused(fused, tmp_path):
    arrays = {"idf": np.zeros(3, np.float32), "n_features": np.array([fused.n_features_])}
    save_changed(fused, tmp_path / "model", "features.safetensors", arrays)
    with pytest.raises(ModelError, match=r"tokenizer\.json and features\.safetensors do not fit each other"):
        HAXMLNet.load(tmp_path / "model")


@pytest.mark.parametrize(
    "file",
    ["tree_0.attention", "tree_0.classifiers", "tree_0.fusion", "label_frequency", "label_names", "nearest_documents"],
)
def test_a_file_that_holds_something_else_is_refused(file, fused, tmp_path):
    save_changed(fused, tmp_path / "model", f"{file}.safetensors", {"what": np.zeros(3)})
    with pytest.raises(ModelError, match=file.split(".")[-1]):
        HAXMLNet.load(tmp_path / "model")


def test_a_directory_without_its_first_evidence_is_refused(fused, tmp_path):
    model = tmp_path / "model"
    fused.save(model)
    header = SavedModel(model).header
    (model / HEADER).unlink()
    for file in model.glob("*.safetensors"):
        if file.name not in ("labels.safetensors", "features.safetensors", "tree_0.safetensors"):
            file.unlink()
    write_header(model, {name: header[name] for name in ("method", "settings", "training")})
    with pytest.raises(ModelError, match=r"tree_0\.attention\.safetensors"):
        HAXMLNet.load(model)


@pytest.mark.parametrize("name", FUSED)
def test_trees_share_the_evidence_that_does_not_depend_on_the_tree(
    name, new_model, tiny_corpus, unseen_documents, tmp_path
):
    model = new_model(name, **HELD_OUT[name], n_trees=2).fit(*tiny_corpus)
    model.save(tmp_path / "model")
    for each in (model, load_model(tmp_path / "model")):
        first, second = each.trees_
        assert (first.tree.parents[-1] != second.tree.parents[-1]).any()
        for one, other in zip(first.evidence, second.evidence, strict=True):
            assert (one is other) != one.of_tree
        assert first.evidence[-1].targets.shape[0] == len(tiny_corpus[0])
    files = [file.name for file in (tmp_path / "model").glob("nearest*")]
    assert files == ["nearest_documents.safetensors"]
    assert_same_after_loading(model, unseen_documents[0], tmp_path / "again")


@pytest.mark.parametrize(("setting", "file"), [("neighbours", "nearest_documents"), ("names", "label_names")])
def test_evidence_that_is_not_wanted_is_not_saved(setting, file, new_model, tiny_corpus, unseen_documents, tmp_path):
    model = new_model("LinearTree", **{setting: False}).fit(*tiny_corpus)
    assert len(model.trees_[0].evidence) == 3
    assert model.trees_[0].fusion is not None
    assert_same_after_loading(model, unseen_documents[0], tmp_path / "model")
    assert not (tmp_path / "model" / f"{file}.safetensors").exists()


@pytest.fixture(scope="module", params=[1, 2], ids=["one tree", "two trees"])
def n_trees(request):
    return request.param


@pytest.fixture(scope="module", params=[True, False], ids=["fused", "alone"])
def is_fused(request):
    return request.param


@pytest.fixture(scope="module", params=FUSED)
def narrow(request, n_trees, is_fused, new_model, tiny_corpus):
    """Make a model whose fusion judges few of the labels, and whose beam meets few."""
    name, fusion = request.param, {"HAXMLNet": "linear", "LinearTree": "fusion"}[request.param]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("haxmlnet.models.evidence_model.AVERAGED", 7)
        settings = {**HELD_OUT[name], **NARROW, "n_trees": n_trees, fusion: is_fused}
        yield new_model(name, **settings).fit(*tiny_corpus)


@pytest.fixture(scope="module")
def everything(narrow, unseen_documents) -> Ranking:
    return narrow.predict([*unseen_documents[0], "", "words nobody knows"], k=1000)


def test_every_label_is_ranked_once_and_scores_never_rise(narrow, everything):
    assert (narrow.trees_[0].fusion is None) == (len(narrow.trees_[0].evidence) == 1)
    assert [sorted(ids) for ids in everything.ids.tolist()] == [list(range(24))] * 42
    assert (np.diff(everything.scores, axis=1) <= 0).all()
    assert ((everything.scores >= 0) & (everything.scores <= 1)).all()


@pytest.mark.parametrize("k", [1, 3, 8, 15, 23])
def test_a_score_does_not_depend_on_k(narrow, everything, unseen_documents, k):
    ranking = narrow.predict([*unseen_documents[0], "", "words nobody knows"], k=k)
    np.testing.assert_array_equal(ranking.ids, everything.ids[:, :k])
    np.testing.assert_array_equal(ranking.scores, everything.scores[:, :k])


@pytest.mark.parametrize("k", [3, 24])
def test_a_score_does_not_depend_on_the_other_texts(narrow, everything, unseen_documents, k):
    texts = [*unseen_documents[0], "", "words nobody knows"]
    for row in [*range(0, 42, 4), 40, 41]:
        alone = narrow.predict([texts[row]], k=k)
        np.testing.assert_allclose(alone.scores[0], everything.scores[row, :k], atol=1e-5)
        is_apart = np.abs(np.diff(everything.scores[row])).min() > 1e-5
        assert not is_apart or alone.ids[0].tolist() == everything.ids[row, :k].tolist()


def test_the_order_of_the_texts_is_irrelevant(narrow, everything, unseen_documents):
    texts = [*unseen_documents[0], "", "words nobody knows"]
    order = np.random.default_rng(0).permutation(42)
    shuffled = narrow.predict([texts[row] for row in order], k=24)
    np.testing.assert_allclose(shuffled.scores, everything.scores[order], atol=1e-5)
    assert (shuffled.ids[:, :3] == everything.ids[order, :3]).mean() > 0.99


def test_labels_beyond_the_candidates_follow_below(narrow, unseen_documents):
    documents = narrow._documents_of([*unseen_documents[0], "", "words nobody knows"])
    for tree in narrow.trees_:
        for row in range(0, 42, 7):
            block = documents.take(np.array([row]))
            findings, ranking = tree.examine(block), tree.rank(block, 24, 1)
            if tree.fusion is None:
                np.testing.assert_array_equal(ranking.ids, findings[0].ranking(24).ids)
                continue
            candidates = {int(i) for found in findings for i in found.proposals[0] if i != ABSENT}
            assert 4 <= len(candidates) < 24
            assert set(ranking.ids[0, : len(candidates)].tolist()) == candidates


def test_predicting_changes_nothing(narrow, unseen_documents):
    names = [sorted(vars(tree)) for tree in narrow.trees_]
    before = [[evidence.to_arrays() for evidence in tree.evidence] for tree in narrow.trees_]
    narrow.predict(unseen_documents[0], k=24)
    assert [sorted(vars(tree)) for tree in narrow.trees_] == names
    for tree, arrays in zip(narrow.trees_, before, strict=True):
        for evidence, own in zip(tree.evidence, arrays, strict=True):
            for name, value in evidence.to_arrays().items():
                np.testing.assert_array_equal(value, own[name])
