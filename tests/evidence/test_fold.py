from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from frames import config_of

from haxmlnet.config import Config
from haxmlnet.data.labels import LabelIndex, index_labels, truth_matrix
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.data.tokens import TokenArray
from haxmlnet.evidence.fold import Fold, count_held_out, hold_out_common
from haxmlnet.evidence.protocol import Documents
from haxmlnet.evidence.training_set import Labeled, TrainingSet, validation_documents
from haxmlnet.progress import Progress
from haxmlnet.text.corpus_builder import prepare_texts
from haxmlnet.training.checkpoints import training_identity


def corpus_of(texts: list[str], labels: list[list[str]]) -> PreparedCorpus:
    return prepare_texts(texts, *index_labels(labels, len(texts)))


def training_set(corpus: PreparedCorpus, vocabulary_size: int = 1000) -> TrainingSet:
    return TrainingSet.of_corpus(corpus, vocabulary_size, 1, Progress())


def fold_of(corpus: PreparedCorpus, config: Config, kept: list[int] | None = None) -> Fold:
    rows = np.arange(len(corpus)) if kept is None else np.array(kept)
    return Fold(training_set(corpus), config, rows, None, np.random.default_rng(0))


TRAIN = corpus_of(["red fish", "blue bird fish", "red red bird"], [["a"], ["b", "c"], ["c"]])


def test_no_label_loses_its_last_document():
    rng = np.random.default_rng(0)
    targets = sp.csr_array((rng.random((200, 80)) < 0.02).astype(np.float32))
    kept, held_out = hold_out_common(targets, 50, rng)
    before, after = targets.sum(axis=0), targets[kept].sum(axis=0)
    assert len(held_out) > 0
    assert ((after > 0) == (before > 0)).all()
    assert sorted([*kept, *held_out]) == list(range(200))


def test_nothing_is_held_out_when_every_document_is_the_last_of_a_label():
    kept, held_out = hold_out_common(sp.csr_array(np.eye(30, dtype=np.float32)), 5, np.random.default_rng(0))
    assert len(kept) == 30
    assert len(held_out) == 0


def test_the_number_asked_for_is_held_out_where_labels_are_frequent():
    targets = sp.csr_array(np.ones((30, 2), np.float32))
    assert len(hold_out_common(targets, 7, np.random.default_rng(0))[1]) == 7


@pytest.mark.parametrize(("n_documents", "expected"), [(19, 0), (20, 5), (100, 25), (1000, 40)])
def test_a_fraction_is_held_out_of_enough_documents(n_documents, expected):
    config = config_of(n_documents, 4, validation_fraction=0.25, max_validation=40)
    assert count_held_out(n_documents, config) == expected


@pytest.mark.parametrize("max_length", [1, 3, 100])
def test_documents_keep_their_words_and_their_labels_together(max_length):
    # Each document holds its own number as a word, repeated: the word must still stand beside its label.
    texts = [f"w{i} w{i} common w{i}" for i in range(40)]
    targets = sp.csr_array(np.eye(40, dtype=np.float32))
    corpus = prepare_texts(texts, LabelIndex(np.array([f"label {i}" for i in range(40)], object)), targets)
    fold = Fold.split(training_set(corpus), config_of(40, 40, validation_fraction=0.0), None, 0)
    documents, words = fold.kept_documents(max_length), fold.tokenizer.words
    assert len(documents) == 40
    for row in range(40):
        ids = documents.tokens.take(np.array([row])).pack().ids
        assert [words[i] for i in ids] == texts[row].split()[:max_length]
        assert documents.targets[[row]].indices.tolist() == [row]


@pytest.mark.parametrize("linear", [True, False])
def test_trees_hold_other_documents_out_where_a_fusion_is_fitted_on_them(linear):
    texts = [f"w{i % 7} common w{i % 3}" for i in range(60)]
    whole = training_set(corpus_of(texts, [[f"label {i % 4}"] for i in range(60)]))
    config = config_of(60, 4, validation_fraction=0.25, linear=linear)
    first, again, second = (Fold.split(whole, config, None, number) for number in (0, 0, 1))
    assert len(first.kept) == len(second.kept) == 45
    assert len(first.held_out) == first.n_left_out == 15
    np.testing.assert_array_equal(first.kept, again.kept)
    assert np.array_equal(first.kept, second.kept) != linear


def test_documents_held_out_are_those_not_kept():
    texts = [f"w{i} common" for i in range(60)]
    whole = training_set(corpus_of(texts, [[f"label {i % 4}"] for i in range(60)]))
    fold = Fold.split(whole, config_of(60, 4, validation_fraction=0.25), None, 0)
    words = fold.tokenizer.words
    held_out = [words[fold.held_out.tokens.take(np.array([row])).pack().ids[0]] for row in range(len(fold.held_out))]
    kept = {f"w{row}" for row in fold.kept}
    assert kept | set(held_out) == {f"w{i}" for i in range(60)}
    assert kept.isdisjoint(held_out)
    labels = [int(word[1:]) % 4 for word in held_out]
    assert fold.held_out.targets.indices.tolist() == labels
    np.testing.assert_array_equal(fold.kept_targets.toarray(), whole.targets.toarray()[fold.kept])
    np.testing.assert_array_equal(fold.kept_features().toarray(), whole.features.toarray()[fold.kept])


def test_everything_keeps_every_document():
    texts = [f"w{i} common" for i in range(60)]
    whole = training_set(corpus_of(texts, [[f"label {i % 4}"] for i in range(60)]))
    everything = Fold.split(whole, config_of(60, 4, validation_fraction=0.25), None, 0).everything
    assert everything.kept.tolist() == list(range(60))
    assert (everything.n_left_out, everything.held_out) == (0, None)
    assert everything.kept_features().shape[0] == everything.kept_targets.shape[0] == 60


def test_given_documents_leave_all_others_for_the_training():
    given = Labeled(Documents(TokenArray.from_lists([np.array([2], np.int32)]), np.ones(6, np.float32)), TRAIN.targets)
    fold = Fold.split(training_set(TRAIN), config_of(3, 3), given, 0)
    assert fold.held_out is given
    assert fold.kept.tolist() == [0, 1, 2]


@pytest.mark.parametrize("max_validation", [2, 100])
@pytest.mark.parametrize("max_length", [1, 100])
def test_prepared_documents_are_validated_on_as_texts_are(max_validation, max_length):
    whole = training_set(TRAIN, vocabulary_size=3)
    config = config_of(3, 3, max_validation=max_validation)
    assert whole.tokenizer.words[2:] == ["bird", "fish", "red"]
    texts = ["red unheard bird blue", "", "fish fish", "bird"]
    labels = [["c", "new"], ["a"], [], ["newer", "b", "a"]]
    given = texts, truth_matrix(labels, whole.label_index)
    by_texts = validation_documents(given, whole, config).truncate(max_length)
    by_corpus = validation_documents(corpus_of(texts, labels), whole, config).truncate(max_length)
    assert len(by_corpus) == min(max_validation, 4)
    assert by_corpus.tokens.pack().ids.tolist() == by_texts.tokens.pack().ids.tolist()
    assert by_corpus.tokens.lengths.tolist() == by_texts.tokens.lengths.tolist()
    known = by_corpus.targets[:, :3].toarray()
    np.testing.assert_array_equal(known, by_texts.targets[:, :3].toarray())
    np.testing.assert_array_equal(by_corpus.targets.sum(axis=1), by_texts.targets.sum(axis=1))


def test_the_checksum_of_documents_covers_words_and_labels():
    def labelled(tokens: TokenArray, targets: sp.csr_array) -> Labeled:
        return Labeled(Documents(tokens, np.ones(9, np.float32)), targets)

    tokens = TokenArray.from_lists([np.array([2, 3], np.int32), np.array([4], np.int32)])
    targets = sp.csr_array(np.array([[1, 0], [0, 1]], np.float32))
    documents = labelled(tokens, targets)
    others = [
        documents.truncate(1),
        labelled(TokenArray.from_lists([np.array([2], np.int32), np.array([3, 4], np.int32)]), targets),
        labelled(tokens, targets[:, ::-1]),
    ]
    identities = [training_identity({}, "", each.arrays())["data"] for each in [documents, *others]]
    assert len(set(identities)) == 4


def test_documents_held_out_do_not_speak_for_their_labels():
    held_out = fold_of(TRAIN, config_of(3, 3), [0, 2]).label_features.toarray()
    everything = fold_of(TRAIN, config_of(3, 3)).label_features.toarray()
    words = ["", "", *TRAIN.words()]
    a, b, c = held_out
    np.testing.assert_allclose(a, everything[0])
    assert not b.any()
    assert {words[i] for i in np.flatnonzero(c)} == {"red", "bird"}
    assert {words[i] for i in np.flatnonzero(everything[2])} == {"red", "bird", "blue", "fish"}


def test_large_features_are_sampled_for_the_word_vectors(monkeypatch):
    seen = []

    def spy(documents, labels, size, rng):
        seen.append((documents.nnz, labels.nnz))
        return np.zeros((documents.shape[1], size), np.float32)

    monkeypatch.setattr("haxmlnet.evidence.fold.corpus_vectors", spy)
    corpus = corpus_of([f"w{i} common" for i in range(50)], [[f"l{i}"] for i in range(50)])
    for limit in (1000, 40, 2):
        monkeypatch.setattr("haxmlnet.evidence.fold.MAX_VECTOR_ENTRIES", limit)
        assert fold_of(corpus, config_of(50, 50, word_size=4)).word_vectors.shape == (corpus.n_words, 4)
    assert seen == [(100, 100), (20, 20), (2, 2)]


def test_sparse_features_are_documents_as_they_were_given():
    features = sp.csr_array(np.array([[0, 1], [0.6, 0.8], [1, 0]], np.float32))
    targets = sp.csr_array(np.eye(3, dtype=np.float32))
    whole = TrainingSet(targets, LabelIndex(np.array(["a", "b", "c"], object)), given_features=features)
    assert (len(whole), whole.n_features, len(whole.idf)) == (3, 2, 0)
    some = whole.take(np.array([2, 1]))
    np.testing.assert_array_equal(some.documents.features.toarray(), features.toarray()[[2, 1]])
    assert some.targets.indices.tolist() == [2, 1]


def test_documents_make_their_features_when_asked():
    whole = training_set(TRAIN)
    documents = whole.take(np.array([0, 2])).documents
    np.testing.assert_allclose(documents.features.toarray(), whole.features.toarray()[[0, 2]], rtol=1e-6)
    np.testing.assert_allclose(
        documents.take(np.array([1])).features.toarray(), whole.features.toarray()[[2]], rtol=1e-6
    )
