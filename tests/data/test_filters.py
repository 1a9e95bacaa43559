"""Pairs that do not count are found by name, and dropped from rankings and from the truth."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haxmlnet.data import ReadOptions
from haxmlnet.data.filters import (
    LabelPairs,
    drop_label_pairs,
    drop_pairs,
    filter_pairs,
    find_filter,
    read_filter,
)
from haxmlnet.errors import DataError
from haxmlnet.ranking import ABSENT, Ranking

TEST = ReadOptions(split="test")
XC_LINE = b'{"uid": "d", "title": "T", "target_ind": [0]}\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_files(**files):
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    return write_files


def test_pairs_have_the_names_of_the_labels(write, tmp_path):
    write(
        tst__json__gz=gzip.compress(XC_LINE * 3),
        lbl__json='{"uid": "A", "title": "x"}\n{"uid": "B", "title": "y"}\n',
        filter_labels_test__txt="2 1\n0 0\n",
        filter_labels_train__txt="0 1\n",
    )
    pairs = filter_pairs(tmp_path, TEST)
    assert (pairs.documents.tolist(), pairs.labels.tolist()) == ([2, 0], ["y", "x"])
    assert pairs.source == str(tmp_path / "filter_labels_test.txt")
    assert filter_pairs(tmp_path / "tst.json.gz").labels.tolist() == ["y", "x"]
    assert (len(pairs), pairs.most_per_document) == (2, 1)


def test_pairs_of_sparse_files(write, tmp_path):
    write(
        tst_X_Xf__txt="2 3\n0:1\n1:1\n", tst_X_Y__txt="2 2\n0:1\n1:1\n", trn_X_Xf__txt="1 1\n0:1\n",
        filter_labels_test__txt="1 1\n",
    )  # fmt: skip
    assert filter_pairs(tmp_path, TEST).labels.tolist() == ["1"]
    assert filter_pairs("tst_X_Xf.txt").labels.tolist() == ["1"]
    assert filter_pairs("trn_X_Xf.txt") is None
    assert find_filter(tmp_path) is None
    write(Y__txt="zero\none\n")
    assert filter_pairs(tmp_path, TEST).labels.tolist() == ["one"]


def test_a_file_of_pairs_may_be_empty(write):
    write(a__txt="", b__txt="\n")
    assert read_filter("a.txt").shape == read_filter("b.txt").shape == (0, 2)
    empty = LabelPairs(np.zeros(0, np.int64), np.zeros(0, object))
    assert (len(empty), empty.most_per_document) == (0, 0)
    assert drop_label_pairs([("x",)], empty) == [("x",)]


@pytest.mark.parametrize("line", ["1", "1 2 3", "1 x", "-1 2", "1,2", "1 99999999999", "1.0 2"])
def test_lines_that_are_no_pairs(write, line):
    write(a__txt=f"0 0\n{line}\n")
    with pytest.raises(DataError, match=r"^a.txt:2: expected the numbers of a document and a label, from 0, got "):
        read_filter("a.txt")


def test_labels_and_documents_that_are_not_there(write, tmp_path):
    write(tst__json=XC_LINE, lbl__json='{"title": "x"}\n', filter_labels_test__txt="0 1\n")
    with pytest.raises(DataError, match=r"filter_labels_test.txt: there is the label 1, but the labels end with 0"):
        filter_pairs(tmp_path, TEST)
    pairs = LabelPairs(np.array([5]), np.array(["x"], object), "f.txt")
    ranking = Ranking(np.zeros((2, 1), np.int32), np.ones((2, 1), np.float32), np.array(["x"], object))
    for drop in (lambda: drop_pairs(ranking, pairs), lambda: drop_label_pairs([("x",)] * 2, pairs)):
        with pytest.raises(DataError, match=r"^f.txt: there is the document 5, from 0, but there are 2. Give"):
            drop()


def test_what_ranks_below_moves_up():
    names = np.array(["a", "b", "c"], object)
    ranking = Ranking(
        np.array([[2, 0, 1], [1, 0, ABSENT]], np.int32), np.array([[3, 2, 1], [2, 1, 0]], np.float32), names
    )
    pairs = LabelPairs(np.array([0, 1, 1, 0]), np.array(["a", "b", "unknown", "a"], object))
    found = drop_pairs(ranking, pairs)
    assert list(found) == [[("c", 3.0), ("b", 1.0)], [("a", 1.0)]]
    assert drop_label_pairs([("a", "b"), ("unknown", "b", "c")], pairs) == [("b",), ("c",)]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 6), unique=True, max_size=5), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8)), max_size=12),
)
def test_dropping_is_what_a_loop_would_do(rows, pairs):
    pairs = [(document, label) for document, label in pairs if document < len(rows)]
    ids = np.full((len(rows), 5), ABSENT, np.int32)
    scores = np.zeros(ids.shape, np.float32)
    for row, labels in enumerate(rows):
        ids[row, : len(labels)] = labels
        scores[row, : len(labels)] = np.arange(len(labels), 0, -1)
    ranking = Ranking(ids, scores, np.array([f"label {i}" for i in range(7)], object))
    given_pairs = LabelPairs(
        np.array([document for document, _ in pairs], np.int64), np.array([f"label {i}" for _, i in pairs], object)
    )
    expected = [
        [scored for scored in ranking[row] if (row, int(str(scored[0]).split()[1])) not in pairs]
        for row in range(len(rows))
    ]
    assert list(drop_pairs(ranking, given_pairs)) == expected
    named = [[f"label {i}" for i in row] for row in rows]
    assert [list(row) for row in drop_label_pairs(named, given_pairs)] == [
        [name for name, _ in row] for row in expected
    ]
