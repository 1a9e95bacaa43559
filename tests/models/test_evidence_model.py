"""HAXMLNet with its linear part."""

from __future__ import annotations

import numpy as np
import pytest

from haxmlnet.errors import ModelError
from haxmlnet.models import load_model
from haxmlnet.models.haxmlnet import HAXMLNet
from haxmlnet.ranking import ABSENT
from haxmlnet.saved import SavedModel
from haxmlnet.store import HEADER, read_arrays, write_arrays, write_header

# Enough of the tiny corpus is held out to fit the rule of fusion.
HELD_OUT = {"validation_fraction": 0.4, "epochs": 3}


@pytest.fixture(scope="module")
def fused(new_hasty_model, tiny_corpus) -> HAXMLNet:
    return new_hasty_model("HAXMLNet", **HELD_OUT).fit(*tiny_corpus)


def test_the_linear_part_helps_networks_that_have_learned_little(fused, new_hasty_model, tiny_corpus, unseen_documents):
    alone = new_hasty_model("HAXMLNet", **HELD_OUT, linear=False).fit(*tiny_corpus)
    assert alone.trees_[0].linear is None
    assert fused.trees_[0].linear is not None
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
    monkeypatch.setattr("haxmlnet.models.haxmlnet.BLOCK_DOCUMENTS", 7)
    in_blocks = fused.predict(texts, k=5)
    np.testing.assert_array_equal(in_blocks.ids, at_once.ids)
    np.testing.assert_allclose(in_blocks.scores, at_once.scores, atol=1e-5)


def test_both_parts_speak_in_the_rule(fused, unseen_documents):
    model = fused.trees_[0]
    words = fused.tokenizer_.encode(unseen_documents[0][:20])
    features = model.linear.model.prototypes.to_matrix()[:20]
    near = model.linear.nearest(features, 1)
    ranking, signals = model.candidates(words, features, near, model.linear, 16, 24, 1)
    n_linear = model.linear.n_signals
    assert signals.shape == (*ranking.ids.shape, n_linear + 1 + model.tree.n_levels)
    present = ranking.ids != ABSENT
    np.testing.assert_allclose(np.exp(signals[..., n_linear][present]), ranking.scores[present], rtol=1e-4)
    logits = signals[..., n_linear + 1 :][present]
    np.testing.assert_allclose(np.prod(1 / (1 + np.exp(-logits)), axis=-1), ranking.scores[present], rtol=1e-3)


def test_the_linear_part_learns_from_the_documents_held_out_too(fused, tiny_corpus):
    _, labels = tiny_corpus
    counts = {name: sum(name in row for row in labels) for name in fused.classes_}
    assert fused.trees_[0].linear.label_counts.tolist() == list(counts.values())


def test_classifiers_are_kept_where_few_documents_were_held_out(new_hasty_model, tiny_corpus, monkeypatch):
    monkeypatch.setattr("haxmlnet.models.linear_part.FEW_HELD_OUT", 0.4)
    linear = new_hasty_model("HAXMLNet", **HELD_OUT).fit(*tiny_corpus).trees_[0].linear
    n_pairs = sum(len(row) for row in tiny_corpus[1])
    assert 0.5 * n_pairs < linear.label_counts.sum() < 0.7 * n_pairs
    assert linear.fusion is not None
    assert linear.neighbours.targets.shape[0] == len(tiny_corpus[0])


def test_given_validation_documents_are_used(new_hasty_model, tiny_corpus, make_documents):
    model = new_hasty_model("HAXMLNet").fit(*tiny_corpus, validation=make_documents(60, 3))
    assert model.trees_[0].linear is not None
    assert model.trees_[0].linear.fusion is not None


def test_it_is_saved_and_loaded(fused, unseen_documents, tmp_path):
    fused.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(unseen_documents[0]).scores, fused.predict(unseen_documents[0]).scores)


def test_one_by_one_is_as_in_a_batch(fused, unseen_documents):
    texts = [*unseen_documents[0], "", "words nobody knows"]
    together = fused.predict(texts, k=4)
    for row, text in enumerate(texts):
        np.testing.assert_allclose(fused.predict([text], k=4).scores[0], together.scores[row], atol=1e-5)


def test_word_weights_of_another_vocabulary_are_refused(fused, tmp_path):
    model = tmp_path / "model"
    fused.save(model)
    header = SavedModel(model).header
    (model / HEADER).unlink()
    file = model / "tree_0.linear.safetensors"
    write_arrays(file, {**read_arrays(file), "idf": np.zeros(3, np.float32)})
    write_header(model, {name: header[name] for name in ("method", "settings", "training")})
    with pytest.raises(ModelError, match=r"tree_0\.linear\.safetensors: expected the weights of"):
        HAXMLNet.load(model)


def test_trees_share_the_documents_they_compare_with(new_hasty_model, tiny_corpus, unseen_documents, tmp_path):
    model = new_hasty_model("HAXMLNet", **HELD_OUT, n_trees=2).fit(*tiny_corpus)
    first, second = (tree.linear.neighbours for tree in model.trees_)
    assert first is second
    assert first.targets.shape[0] == len(tiny_corpus[0])
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(unseen_documents[0]).scores, model.predict(unseen_documents[0]).scores)


def test_without_neighbours_no_document_is_saved(new_hasty_model, tiny_corpus, unseen_documents, tmp_path):
    model = new_hasty_model("HAXMLNet", **HELD_OUT, neighbours=False).fit(*tiny_corpus)
    model.save(tmp_path / "model")
    assert not (tmp_path / "model" / "neighbours.safetensors").exists()
    loaded = load_model(tmp_path / "model")
    assert loaded.trees_[0].linear.neighbours is None
    np.testing.assert_array_equal(loaded.predict(unseen_documents[0]).scores, model.predict(unseen_documents[0]).scores)
