from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from haxmlnet.data.labels import LabelIndex, index_labels, truth_matrix
from haxmlnet.errors import DataError

LABELS = [["b", "a"], [], ["c", "b"]]
MATRIX = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 1]])


def error_of(labels: object, n_documents: int = 3, names: list[str] | None = None) -> str:
    with pytest.raises(DataError) as error:
        index_labels(labels, n_documents, names)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_index_is_in_alphabetical_order():
    index = LabelIndex.from_labels([["b", "B"], ["é", "a", "b"]])
    assert index.names.tolist() == ["B", "a", "b", "é"]
    assert len(index) == 4


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdefgh")), min_size=1), st.sets(st.sampled_from("abcdefgh")))
def test_matrix_equals_a_brute_force_and_unknown_labels_come_last(rows, known):
    index = LabelIndex.from_labels([known])
    unknown = list(dict.fromkeys(name for row in rows for name in row if name not in known))
    expected = [[name in row for name in [*sorted(known), *unknown]] for row in rows]
    matrix = index.matrix(rows)
    assert matrix.toarray().tolist() == expected
    assert matrix.has_canonical_format
    assert matrix.nnz == np.sum(expected)


@pytest.mark.parametrize(
    "labels",
    [
        LABELS,
        tuple(map(tuple, LABELS)),
        [set(names) for names in LABELS],
        np.array([["b", "a"], [], ["c", "b"]], dtype=object),
        [["b", "a", "b"], [], ["c", "b"]],
    ],
    ids=["lists", "tuples", "sets", "object array", "repeated"],
)
def test_collections_of_names(labels):
    index, matrix = index_labels(labels, 3)
    assert index.names.tolist() == ["a", "b", "c"]
    assert matrix.toarray().tolist() == MATRIX.tolist()
    assert matrix.dtype == np.float32


def test_a_table_of_names_is_no_matrix():
    index, matrix = index_labels(np.array([["a", "b"], ["b", "c"]]), 2)
    assert index.names.tolist() == ["a", "b", "c"]
    assert matrix.toarray().tolist() == [[1, 1, 0], [0, 1, 1]]


@pytest.mark.parametrize(
    "kind",
    [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_matrix, sp.coo_array, sp.lil_matrix],
    ids=["dense", "csr_array", "csr_matrix", "csc", "coo", "lil"],
)
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.float64])
def test_indicator_matrices(kind, dtype):
    index, matrix = index_labels(kind(MATRIX.astype(dtype)), 3, ["x", "y", "z"])
    assert index.names.tolist() == ["x", "y", "z"]
    assert isinstance(matrix, sp.csr_array)
    assert matrix.dtype == np.float32
    assert matrix.toarray().tolist() == MATRIX.tolist()


def test_columns_without_names_are_numbered():
    assert index_labels(MATRIX, 3)[0].names.tolist() == ["0", "1", "2"]


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
def test_a_given_matrix_is_left_alone(kind):
    # Unsorted, and with a stored zero: both are mended in the result and not in the argument.
    parts = (np.array([1, 0, 1], np.float32), np.array([2, 1, 0], np.int32), np.array([0, 3], np.int32))
    given_matrix = kind(parts, shape=(1, 3))
    _, matrix = index_labels(given_matrix, 1)
    assert (matrix.indices.tolist(), matrix.data.tolist()) == ([0, 2], [1, 1])
    assert (given_matrix.indices.tolist(), given_matrix.data.tolist()) == ([2, 1, 0], [1, 0, 1])


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan])
def test_a_matrix_holds_0_and_1_only(value):
    assert error_of(MATRIX * value) == "labels: an indicator matrix holds 0 and 1 only."


@pytest.mark.parametrize("names", [["x", "y"], ["x", "y", "y"], []])
def test_names_are_as_many_as_columns_and_different(names):
    assert error_of(MATRIX, names=names).startswith("label_names: expected 3 different names, one a column")


def test_names_are_strings():
    assert error_of(MATRIX, names=[1, 2, 3]) == "label_names must hold strings, got 1."
    assert error_of(MATRIX, names="xyz").startswith("label_names must be a collection of strings, got 'xyz'")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b", "c"], "labels[0] must be a collection of strings, got 'a'. Put it in a list."),
        ([["a"], "b", ["c"]], "labels[1] must be a collection of strings, got 'b'. Put it in a list."),
        ([["a"], b"b", ["c"]], "labels[1] must be a collection of strings, got b'b'. Put it in a list."),
        ([["a"], None, []], "labels[1] must be a collection of strings, got None. Put it in a list."),
        ([["a"], ["b", 3], []], "labels[1] must hold strings, got 3."),
        ([[0, 1], [1, 0], [1, 1]], "labels[0] must hold strings, got 0."),
        ([["a"], ["b\ud800"], []], "labels[1] holds half a surrogate pair, which is no character: 'b\\ud800'."),
        ([["a"], ["b"]], "labels: expected 3, one set a text, got 2."),
        (MATRIX[:2], "labels: expected 3, one set a text, got 2."),
        ([[], [], []], "labels: no document has a label, so there is nothing to learn."),
        (np.zeros((3, 2)), "labels: no document has a label, so there is nothing to learn."),
    ],
)
def test_errors_say_where_and_what(labels, message):
    assert error_of(labels) == message


def test_true_labels_that_training_never_saw_get_columns_of_their_own():
    truth = truth_matrix([["c", "new"], ["a", "newer"], ["new"]], LabelIndex.from_labels(LABELS))
    assert truth.toarray().tolist() == [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1], [0, 0, 0, 1, 0]]


def test_a_truth_matrix_has_the_columns_of_training():
    index = LabelIndex.from_labels(LABELS)
    assert truth_matrix(MATRIX, index).toarray().tolist() == MATRIX.tolist()
    with pytest.raises(DataError, match=r"^labels: expected 3 columns, as in training, got 2\.$"):
        truth_matrix(MATRIX[:, :2], index)
