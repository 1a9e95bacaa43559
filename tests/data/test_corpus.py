import pyarrow as pa
import pytest

from haxmlnet.data import Corpus, ReadOptions, SkipReport
from haxmlnet.errors import DataError


def test_a_corpus_holds_the_columns_of_its_file(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"id": "a", "text": "one", "labels": ["x", "y"]}\n{"text": "two", "labels": []}\n')
    corpus = Corpus.read(path)
    assert corpus == Corpus(["a", "2"], ["one", "two"], [("x", "y"), ()], source=str(path))
    assert len(corpus) == 2


def test_equal_labels_are_one_string(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "t", "labels": ["some label"]}\n' * 2)
    labels = Corpus.read(path).labels
    assert labels[0][0] is labels[1][0]


def test_skipped_documents_are_counted_file_by_file(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "t", "labels": ["x"]}\n{\n{\n')
    report = SkipReport()
    for _ in range(2):
        assert Corpus.read(path, ReadOptions(on_error="skip"), report=report).n_skipped == 2
    assert report.n_skipped == 4


def test_a_corpus_without_any_label_is_refused_for_training_only(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"text": "t", "labels": []}\n' * 3)
    with pytest.raises(DataError, match=r"train.jsonl: none of 3 documents has a label in 'labels'\. Use --label"):
        Corpus.read(path)
    assert len(Corpus.read(path, with_labels=False)) == 3


def test_a_table_is_read_like_a_file():
    table = pa.table({"body": ["one", "two"], "tags": [["a", "b"], []], "id": ["x", "y"]})
    corpus = Corpus.from_table(table, ReadOptions(text_field="body", label_field="tags"))
    assert (corpus.ids, corpus.texts, corpus.labels) == (["x", "y"], ["one", "two"], [("a", "b"), ()])


def test_a_table_without_labels_is_refused_where_labels_are_wanted():
    table = pa.table({"text": ["one"], "labels": pa.array([[]], pa.list_(pa.string()))})
    with pytest.raises(DataError, match="none of 1 documents has a label"):
        Corpus.from_table(table)
    assert Corpus.from_table(table, with_labels=False).texts == ["one"]
