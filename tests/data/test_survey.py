import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from haxmlnet.data import Document, FeatureCorpus
from haxmlnet.data.survey import (
    count_by_frequency,
    find_shared_contents,
    find_unknown_labels,
    survey_documents,
    survey_features,
)

TRAIN = [
    Document("1", "one two three", ("a", "b")),
    Document("2", "", ("a",)),
    Document("3", "one  two\nthree ", ()),
    Document("3", "other", ("c",)),
    Document("5", "", ()),
]


def test_counts_and_findings():
    summary = survey_documents(TRAIN).summary()
    assert (summary["n_documents"], summary["n_labels"]) == (5, 3)
    assert summary["labels_per_document"] == {"mean": 0.8, "median": 1, "min": 0, "max": 2}
    assert summary["words_per_document"] == {"mean": 1.4, "median": 1, "min": 0, "max": 3}
    assert summary["documents_per_label"] == {"mean": 1.33, "median": 1, "min": 1, "max": 2}
    assert summary["empty_texts"] == {"count": 2, "examples": ["2", "5"]}
    assert summary["documents_without_labels"] == {"count": 2, "examples": ["3", "5"]}
    assert summary["duplicate_texts"] == {"count": 1, "examples": ["3 = 1"]}
    assert summary["duplicate_ids"] == {"count": 1, "examples": ["3"]}


def test_only_the_first_examples_are_kept():
    finding = survey_documents([Document("1", "t", ())] * 20).duplicates
    assert (finding.count, len(finding.examples)) == (19, 5)


def test_two_sets_are_compared():
    train = survey_documents(TRAIN)
    test = survey_documents(
        [Document("t1", "other", ("a", "z")), Document("t2", "", ("y",)), Document("t3", "new", ())]
    )
    assert vars(find_shared_contents(train, test)) == {"count": 1, "examples": ["t1 = 3"]}
    assert vars(find_unknown_labels(train, test)) == {"count": 2, "examples": ["z", "y"]}


def rows(features, targets):
    matrices = [sp.csr_array(np.array(part, np.float32)) for part in (features, targets)]
    return FeatureCorpus([str(i + 1) for i in range(len(features))], *matrices)


def test_rows_of_features_are_counted_like_texts():
    train = survey_features(
        rows([[1, 2, 0], [0, 0, 0], [1, 2, 0], [2, 1, 0]], [[1, 1, 0], [1, 0, 0], [0, 0, 0], [1, 0, 0]])
    )
    summary = train.summary()
    assert (summary["n_documents"], summary["n_labels"], summary["n_features"]) == (4, 2, 3)
    assert summary["features_per_document"] == {"mean": 1.5, "median": 2, "min": 0, "max": 2}
    assert summary["labels_per_document"] == {"mean": 1.0, "median": 1, "min": 0, "max": 2}
    assert summary["empty_rows"] == {"count": 1, "examples": ["2"]}
    assert summary["duplicate_rows"] == {"count": 1, "examples": ["3 = 1"]}
    assert summary["documents_without_labels"] == {"count": 1, "examples": ["3"]}
    test = survey_features(rows([[2, 1, 0], [0, 0, 9]], [[0, 0, 1], [1, 0, 0]]))
    assert vars(find_shared_contents(train, test)) == {"count": 1, "examples": ["1 = 4"]}
    assert vars(find_unknown_labels(train, test)) == {"count": 1, "examples": ["2"]}


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=60))
def test_the_histogram_counts_every_label_once(labels):
    survey = survey_documents(Document(str(i), "t", tuple(row)) for i, row in enumerate(labels))
    histogram = count_by_frequency(survey.label_counts)
    assert sum(histogram.values()) == len({label for row in labels for label in row})
    assert list(histogram)[:4] == ["1", "2-4", "5-9", "10-49"]
    assert histogram["1"] == sum(sum(label in row for row in labels) == 1 for label in "abcdef")
