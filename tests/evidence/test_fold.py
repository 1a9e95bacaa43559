import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.data.labels import LabelIndex, index_labels, truth_matrix
from haxmlnet.data.tokens import TokenArray
from haxmlnet.models.corpus_features import CorpusFeatures
from haxmlnet.models.preparation import Labelled, prepare_training, split_documents, validation_documents, vocabulary
from haxmlnet.progress import Progress
from haxmlnet.settings import Settings, check_settings, resolve_settings, settings_of
from haxmlnet.text.corpus_builder import prepare_texts
from haxmlnet.training.checkpoints import training_identity


def test_no_label_loses_its_last_document():
    rng = np.random.default_rng(0)
    targets = sp.csr_array((rng.random((200, 80)) < 0.02).astype(np.float32))
    kept, held_out = split_documents(targets, 50, rng)
    before, after = targets.sum(axis=0), targets[kept].sum(axis=0)
    assert len(held_out) > 0
    assert ((after > 0) == (before > 0)).all()
    assert sorted([*kept, *held_out]) == list(range(200))


def test_nothing_is_held_out_when_every_document_is_the_last_of_a_label():
    kept, held_out = split_documents(sp.csr_array(np.eye(30, dtype=np.float32)), 5, np.random.default_rng(0))
    assert len(kept) == 30
    assert len(held_out) == 0


def test_the_number_asked_for_is_held_out_where_labels_are_frequent():
    targets = sp.csr_array(np.ones((30, 2), np.float32))
    assert len(split_documents(targets, 7, np.random.default_rng(0))[1]) == 7


@pytest.mark.parametrize("max_length", [1, 3, 100])
def test_documents_keep_their_words_and_their_labels_together(max_length):
    # Each document holds its own number as a word, repeated: the word must still stand beside its label.
    texts = [f"w{i} w{i} common w{i}" for i in range(40)]
    targets = sp.csr_array(np.eye(40, dtype=np.float32))
    values = {**settings_of(Settings()), "max_length": max_length, "validation_fraction": 0.0, "word_size": 4}
    settings = resolve_settings(check_settings(values), 40, 40)
    corpus = prepare_texts(texts, LabelIndex(np.array([f"label {i}" for i in range(40)], object)), targets)
    tokenizer = vocabulary(corpus, settings)
    prepared = prepare_training(corpus, tokenizer, None, settings, Progress())
    words = tokenizer.words
    for row in range(40):
        ids = prepared.training.tokens.take(np.array([row])).packed().ids
        assert [words[i] for i in ids] == texts[row].split()[:max_length]
        assert prepared.training.targets[[row]].indices.tolist() == [row]


@pytest.mark.parametrize("linear", [True, False])
def test_trees_hold_other_documents_out_where_a_rule_is_fitted_on_them(linear):
    texts = [f"w{i % 7} common w{i % 3}" for i in range(60)]
    corpus = prepare_texts(texts, *index_labels([[f"label {i % 4}"] for i in range(60)], 60))
    values = {**settings_of(Settings()), "validation_fraction": 0.25, "word_size": 4, "linear": linear}
    settings = resolve_settings(check_settings(values), 60, 4)
    tokenizer = vocabulary(corpus, settings)
    first, again, second = (
        prepare_training(corpus, tokenizer, None, settings, Progress(), number=number) for number in (0, 0, 1)
    )
    assert len(first.kept) == len(second.kept) == 45
    np.testing.assert_array_equal(first.kept, again.kept)
    assert np.array_equal(first.kept, second.kept) != linear


def corpus_of(texts, labels):
    return prepare_texts(texts, *index_labels(labels, len(texts)))


TRAIN = corpus_of(["red fish", "blue bird fish", "red red bird"], [["a"], ["b", "c"], ["c"]])


@pytest.mark.parametrize("max_validation", [2, 100])
@pytest.mark.parametrize("max_length", [1, 100])
def test_prepared_documents_are_validated_on_as_texts_are(max_validation, max_length):
    settings = {"vocabulary_size": 3, "min_document_frequency": 1, "random_state": 0}
    settings |= {"max_validation": max_validation, "max_length": max_length}
    tokenizer = vocabulary(TRAIN, settings)
    assert tokenizer.words[2:] == ["bird", "fish", "red"]
    texts = ["red unheard bird blue", "", "fish fish", "bird"]
    labels = [["c", "new"], ["a"], [], ["newer", "b", "a"]]
    index = TRAIN.label_index
    by_texts = validation_documents((texts, truth_matrix(labels, index)), tokenizer, index, settings)
    by_corpus = validation_documents(corpus_of(texts, labels), tokenizer, index, settings)
    assert len(by_corpus) == min(max_validation, 4)
    assert by_corpus.tokens.packed().ids.tolist() == by_texts.tokens.packed().ids.tolist()
    assert by_corpus.tokens.lengths.tolist() == by_texts.tokens.lengths.tolist()
    known = by_corpus.targets[:, :3].toarray()
    np.testing.assert_array_equal(known, by_texts.targets[:, :3].toarray())
    np.testing.assert_array_equal(by_corpus.targets.sum(axis=1), by_texts.targets.sum(axis=1))


def test_the_checksum_of_documents_covers_words_and_labels():
    tokens = TokenArray.from_lists([np.array([2, 3], np.int32), np.array([4], np.int32)])
    targets = sp.csr_array(np.array([[1, 0], [0, 1]], np.float32))
    documents = Labelled(tokens, targets, tokens)
    others = [
        Labelled(tokens.truncated(1), targets, tokens),
        Labelled(TokenArray.from_lists([np.array([2], np.int32), np.array([3, 4], np.int32)]), targets, tokens),
        Labelled(tokens, targets[:, ::-1], tokens),
    ]
    identities = [training_identity({}, "", each.arrays())["data"] for each in [documents, *others]]
    assert len(set(identities)) == 4


def features_of(corpus, training=None):
    rows = np.arange(len(corpus)) if training is None else np.array(training)
    return CorpusFeatures(corpus, corpus.n_words, rows, Progress())


def test_documents_held_out_do_not_speak_for_their_labels():
    held_out = features_of(TRAIN, [0, 2]).by_label().toarray()
    everything = features_of(TRAIN).by_label().toarray()
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

    monkeypatch.setattr("haxmlnet.models.corpus_features.corpus_vectors", spy)
    features = features_of(corpus_of([f"w{i} common" for i in range(50)], [[f"l{i}"] for i in range(50)]))
    by_label = features.by_label()
    for limit in (1000, 40, 2):
        monkeypatch.setattr("haxmlnet.models.corpus_features.MAX_VECTOR_ENTRIES", limit)
        features.word_vectors(by_label, 4, 0, np.random.default_rng(0))
    assert seen == [(100, 100), (20, 20), (2, 2)]
