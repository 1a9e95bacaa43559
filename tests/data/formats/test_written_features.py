"""Sparse features that are written come back the same, or are refused in one line."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from haxmlnet.data import FEATURE_OUTPUT_FORMATS, FeatureCorpus, ReadOptions, read_features, write_features
from haxmlnet.errors import DataError, SettingError

NAMES = {"xc-sparse": "train.txt", "xc-matrices": "trn_X_Xf.txt", "pecos-npz": "X.trn.npz"}
NUMBER = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(lambda value: value != 0)


def corpus_of(features, targets, names=None):
    features = sp.csr_array(np.array(features, np.float32))
    ids = [str(i + 1) for i in range(features.shape[0])]
    return FeatureCorpus(ids, features, sp.csr_array(np.array(targets, np.float32)), names)


TINY = corpus_of([[0.5, 0], [0, 0], [0, 0.1]], [[1, 0, 1], [0, 0, 0], [0, 1, 0]])


def assert_same(one, other):
    for name in ("features", "targets"):
        ours, theirs = getattr(one, name), getattr(other, name)
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(ours.indptr, theirs.indptr)
        np.testing.assert_array_equal(ours.indices, theirs.indices)
        np.testing.assert_array_equal(ours.data, theirs.data)
    assert one.ids == other.ids
    assert one.labels == other.labels


@st.composite
def corpora(draw):
    n, n_features, n_labels = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(1, 5))
    features, targets = np.zeros((n, n_features), np.float32), np.zeros((n, n_labels), np.float32)
    for row in range(n):
        for column in draw(st.sets(st.integers(0, n_features - 1))):
            features[row, column] = draw(NUMBER)
        targets[row, list(draw(st.sets(st.integers(0, n_labels - 1))))] = 1
    text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
    names = draw(st.none() | st.lists(text, min_size=n_labels, max_size=n_labels, unique=True))
    return corpus_of(features, targets, names)


@pytest.mark.parametrize("name", FEATURE_OUTPUT_FORMATS)
@settings(max_examples=80, deadline=None)
@given(corpora())
def test_a_round_trip_loses_nothing(name, corpus):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, NAMES[name])
        try:
            n_written = write_features(corpus, path, name)
        except DataError as error:
            message = str(error)
        else:
            assert n_written == len(corpus)
            assert_same(read_features(path), corpus)
            return
        assert os.listdir(folder) == []
    assert "cannot hold the label" in message
    assert corpus.label_names is not None


@pytest.mark.parametrize("there", FEATURE_OUTPUT_FORMATS)
@pytest.mark.parametrize("back", FEATURE_OUTPUT_FORMATS)
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_from_each_form_to_each_other(tmp_path, there, back, suffix):
    corpus = corpus_of([[0.5, 0], [0, 0], [0, 0.1]], [[1, 0, 1], [0, 0, 0], [0, 1, 0]], ["a", "b c", "ü"])
    for folder, name in (("there", there), ("back", back)):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / (NAMES[name] + ("" if name == "pecos-npz" else suffix))
        write_features(corpus, path)
        corpus = read_features(tmp_path / folder)
        assert corpus.source == str(path)
    assert corpus.labels == [("a", "ü"), (), ("b c",)]
    np.testing.assert_array_equal(corpus.features.toarray(), np.array([[0.5, 0], [0, 0], [0, 0.1]], np.float32))


def test_numbers_have_as_few_digits_as_are_needed(tmp_path):
    write_features(corpus_of([[0.084556, 1 / 3, 2]], [[1]]), tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == "1 3 1\n0 0:0.084556 1:0.333333343 2:2\n"


def test_train_and_test_share_their_names(tmp_path):
    named = corpus_of([[1]], [[1, 0]], ["a", "b"])
    for name in ("trn_X_Xf.txt", "tst_X_Xf.txt"):
        write_features(named, tmp_path / name)
    assert read_features(tmp_path, ReadOptions(split="test")).labels == [("a",)]
    for others in (["a", "c"], None):
        with pytest.raises(DataError, match=r"Y.txt: the labels of other documents have other names there"):
            write_features(corpus_of([[1]], [[1, 0]], others), tmp_path / "val_X_Xf.txt")
    with pytest.raises(DataError, match=r"Y.txt: expected 1 names of labels, one a line, got 2"):
        write_features(corpus_of([[1]], [[1]]), tmp_path / "val_X_Xf.txt")
    assert len(os.listdir(tmp_path)) == 5


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("a.csv", None, "a.csv: the name does not tell the format. Use --to with one of xc-matrices"),
        ("a.txt", "jsonl", "format must be one of xc-matrices, xc-sparse, pecos-npz for features without texts"),
        ("a.txt", "xc-matrices", "a.txt: the file of the features must be named NAME_X_Xf.txt"),
        ("a.npz", None, "a.npz: the file of the features must be named X.NAME.npz"),
    ],
)
def test_names_that_do_not_fit(tmp_path, monkeypatch, path, name, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError) as caught:
        write_features(TINY, path, name)
    assert str(caught.value).startswith(message)
    assert os.listdir() == []


@pytest.mark.parametrize("name", FEATURE_OUTPUT_FORMATS)
def test_ids_are_dropped_only_if_asked(tmp_path, name):
    corpus = FeatureCorpus(["1", "3", "4"], TINY.features, TINY.targets)
    path = tmp_path / NAMES[name]
    with pytest.raises(
        DataError, match=r"cannot hold document 2 with the id '3': the format has no ids. Use --drop-ids"
    ):
        write_features(corpus, path, name)
    write_features(corpus, path, name, drop_ids=True)
    assert_same(read_features(path), TINY)
