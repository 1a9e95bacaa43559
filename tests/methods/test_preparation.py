import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.methods.preparation import prepare, split_documents
from haxmlnet.progress import Progress
from haxmlnet.settings import Settings, checked_settings, resolved_settings, settings_of


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
    prepared = prepare(texts, targets, None, resolved_settings(checked_settings(values), 40, 40), Progress())
    words = prepared.tokenizer.words
    for row in range(40):
        ids = prepared.training.tokens.ids[slice(*prepared.training.tokens.starts[row : row + 2])]
        assert [words[i] for i in ids] == texts[row].split()[:max_length]
        assert prepared.training.targets[[row]].indices.tolist() == [row]
