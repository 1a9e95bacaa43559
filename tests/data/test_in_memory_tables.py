"""Tables in memory give the documents of their rows; libraries that are not installed have stand-ins here."""

import importlib.util

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from haxmlnet.data import Document, ReadOptions, SkipReport, documents_of_table
from haxmlnet.errors import DataError

EXPECTED = [Document("7", "first", ("a", "b")), Document("8", "second", ())]
COLUMNS = {"id": [7, 8], "text": ["first", "second"], "labels": [["a", "b"], []], "other": [0.5, None]}
TABLE = pa.table(COLUMNS)


class Column:
    def __init__(self, values):
        self.values = values

    def tolist(self):
        return list(self.values)


class Frame:
    """As much of a pandas frame as is needed."""

    def __init__(self, columns):
        self.data = columns

    columns = property(lambda self: list(self.data))
    iloc = property(lambda self: self)

    def __len__(self):
        return len(next(iter(self.data.values())))

    def __getitem__(self, key):
        if isinstance(key, slice):
            return Frame({name: values[key] for name, values in self.data.items()})
        return Column(self.data[key])


class Stream:
    """Anything that speaks the Arrow protocol, such as a polars frame."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Lazy:
    """As much of a polars LazyFrame as is needed."""

    def __init__(self, table):
        self.table = table

    def collect_schema(self):
        return self

    def names(self):
        return self.table.column_names

    def select(self, columns):
        return Lazy(self.table.select(columns))

    def collect(self):
        return Stream(self.table)


class Interchange:
    """Anything that speaks the older protocol."""

    def __init__(self, table):
        self.table = table

    def __dataframe__(self, **options):
        return self.table.__dataframe__(**options)


class ClassLabel:
    names = ("a", "b")


class Sequence:
    feature = ClassLabel()


class Dataset:
    """As much of a data set of `datasets` as is needed; the order of its rows is not that of its table."""

    def __init__(self, table, order=None, features=None):
        self.table, self.order, self.features = table, order, features or {}
        self.column_names = table.column_names

    def with_format(self, name):
        assert name == "arrow"
        return self

    def iter(self, batch_size):
        rows = self.table if self.order is None else self.table.take(self.order)
        for start in range(0, rows.num_rows, batch_size):
            yield rows.slice(start, batch_size)


def read(table, with_labels=True, report=None, **options):
    return list(documents_of_table(table, ReadOptions(**options), with_labels=with_labels, report=report))


def message_of(table, **options):
    with pytest.raises(DataError) as caught:
        read(table, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        TABLE, TABLE.to_reader(), TABLE.to_batches()[0], ds.dataset(TABLE), ds.dataset(TABLE).scanner(), Frame(COLUMNS),
        Stream(TABLE), Lazy(TABLE), Dataset(TABLE), Dataset(TABLE.take([1, 0]), [1, 0]),
    ],
    ids=lambda table: type(table).__name__,
)  # fmt: skip
def test_tables_give_their_rows(table):
    assert read(table) == EXPECTED


@pytest.mark.parametrize("make", [pa.table, Frame, lambda columns: Interchange(pa.table(columns))])
def test_labels_may_be_strings_and_ids_rows(make):
    columns = {"body": ["t", "u"], "tags": ["x;y", ""]}
    documents = [Document("1", "t", ("x", "y")), Document("2", "u", ())]
    assert read(make(columns), text_field="body", label_field="tags") == documents
    columns["tags"] = ["x|y", ""]
    assert read(make(columns), text_field="body", label_field="tags", label_separator="|") == documents
    plain = [document._replace(labels=()) for document in documents]
    assert read(make(columns), with_labels=False, text_field="body") == plain


def test_labels_may_be_arrays_and_numbers():
    labels = [np.array(["a", "b"]), ("c",), np.array([1, 2]), [np.int64(3)], np.zeros(0)]
    documents = read(Frame({"text": list("tuvwx"), "labels": labels}))
    assert [document.labels for document in documents] == [("a", "b"), ("c",), ("1", "2"), ("3",), ()]


def test_several_text_columns_are_joined():
    assert read(pa.table({"title": ["T"], "content": ["C"], "labels": [["x"]]}))[0].text == "T\nC"
    assert read(Frame({"a": ["1"], "b": ["2"], "labels": [["x"]]}), text_field=("a", "b"))[0].text == "1\n2"


def test_classes_have_their_names():
    numbers = {"text": list("tuv"), "labels": [[0, 1], [], [1]], "label": [1, -1, 0]}
    many = Dataset(pa.table(numbers), features={"labels": Sequence(), "label": ClassLabel()})
    assert [document.labels for document in read(many)] == [("a", "b"), (), ("b",)]
    assert [document.labels for document in read(many, label_field="label")] == [("b",), (), ("a",)]
    listed = Dataset(pa.table(numbers), features={"labels": [ClassLabel()]})
    assert [document.labels for document in read(listed)] == [("a", "b"), (), ("b",)]
    assert [document.labels for document in read(Dataset(pa.table(numbers)))] == [("0", "1"), (), ("1",)]
    beyond = Dataset(pa.table({"text": ["t"], "labels": [[2]]}), features={"labels": Sequence()})
    assert message_of(beyond) == "Dataset:1: 'labels' has the class 2, but there are 2, from 0. Fix it."


def test_a_dictionary_of_data_sets_is_split():
    parts = {"train": Dataset(TABLE), "test": Dataset(TABLE.slice(1))}
    assert read(parts) == EXPECTED
    assert read(parts, split="test") == EXPECTED[1:]
    del parts["test"]
    assert message_of(parts, split="test") == "dict: there is no 'test', got ['train']. Give one of them."


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (Frame({"text": ["t", None], "labels": [[], []]}), "Frame:2: 'text' must be a string, got None. Fix"),
        (Frame({"text": ["t", float("nan")], "labels": [[], []]}), "Frame:2: 'text' must be a string, got nan. Fix"),
        (Frame({"text": ["t"], "labels": [float("nan")]}), "Frame:1: 'labels' must be a list of strings, got nan. Wri"),
        (Frame({"text": ["t"], "labels": [None]}), "Frame:1: 'labels' must be a list of strings, got None. Write []"),
        (Frame({"text": ["t"], "labels": [[None]]}), "Frame:1: 'labels' must be a list of strings, but one is None."),
        (Frame({"text": ["t"], "labels": [[0.5]]}), "Frame:1: 'labels' must be a list of strings, but one is 0.5."),
        (Frame({"text": ["t"], "labels": ["x;;y"]}), "Frame:1: 'labels' has an empty label"),
        (Frame({"text": ["t"], "id": [1.5], "labels": [[]]}), "Frame:1: 'id' must be a string or an integer, got 1.5."),
        (Frame({"body": ["t"]}), "Frame: there is no 'text', got the fields ['body']. Use"),
        (Frame({"text": ["t"]}), "Frame: there is no 'labels', got the fields ['text']. Use"),
        (Frame({"text": [], "labels": []}), "Frame: the file has no document."),
        (pa.table({"text": ["t", None], "labels": [["x"]] * 2}), "Table:2: 'text' must be a string, got None. Fix"),
        (pa.table({"text": ["t"], "labels": [1]}), "Table:1: 'labels' must be a list of strings, got 1. Write"),
        (pa.table([["t"], ["u"], [["x"]]], ["text", "text", "labels"]), "Table: there are several columns 'text'."),
        (Stream(pa.table({"text": [1], "labels": [[]]})), "Stream:1: 'text' must be a string, got 1. Fix"),
        (Dataset(pa.table({"text": ["\ud800".encode("utf-8", "surrogatepass")], "labels": [[]]})), "Dataset:1: 'text'"),
        ([1, 2], "list: not a table. Give a pandas, polars or Arrow table"),
        ({}, "dict: there is no 'train', got []. Give"),
    ],
)  # fmt: skip
def test_bad_rows_and_tables_are_told(table, message):
    shown = message_of(table)
    assert shown.startswith(message)
    assert "\n" not in shown
    assert shown.endswith(".")


def test_bad_rows_are_skipped_if_asked():
    report = SkipReport()
    table = Frame({"text": ["t", None, "u"], "labels": [["x"], ["x"], [1.5]]})
    assert read(table, on_error="skip", report=report) == [Document("1", "t", ("x",))]
    assert [message.split(": ")[0] for message in report.messages] == ["Frame:2", "Frame:3"]


def test_tables_larger_than_a_batch(tmp_path):
    n = 2_500
    columns = {"text": [str(i) for i in range(n)], "labels": [[str(i % 7)] for i in range(n)]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    tables = [Frame(columns), pa.table(columns), Dataset(pa.table(columns)), ds.dataset(tmp_path / "a.parquet")]
    expected = [Document(str(i + 1), str(i), (str(i % 7),)) for i in range(n)]
    for table in tables:
        assert read(table) == expected


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_pandas():
    import pandas as pd

    frame = pd.DataFrame({**COLUMNS, "category": pd.Categorical(["a;b", "c"])}, index=[5, 9])
    assert read(frame) == EXPECTED
    assert [document.labels for document in read(frame, label_field="category")] == [("a", "b"), ("c",)]
    assert message_of(pd.DataFrame({"text": ["t", pd.NA], "labels": ["x", "y"]})).startswith("DataFrame:2: 'text' must")
    assert message_of(pd.DataFrame({"text": ["t"], "labels": [None]})).startswith(
        "DataFrame:1: 'labels' must be a list"
    )


@pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="polars is not installed")
def test_polars():
    import polars as pl

    frame = pl.DataFrame(COLUMNS)
    assert read(frame) == read(frame.lazy()) == EXPECTED
    assert message_of(pl.DataFrame({"text": ["t", None], "labels": ["x", "y"]})).startswith("DataFrame:2: 'text' must")


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="datasets is not installed")
def test_datasets():
    import datasets

    classes = datasets.Sequence(datasets.ClassLabel(names=["a", "b"]))
    features = datasets.Features({"text": datasets.Value("string"), "labels": classes})
    made = datasets.Dataset.from_dict({"text": list("tuv"), "labels": [[0, 1], [], [1]]}, features=features)
    assert [document.labels for document in read(made)] == [("a", "b"), (), ("b",)]
    assert [document.text for document in read(made.select([2, 0]))] == ["v", "t"]
    assert [document.text for document in read(made.to_iterable_dataset())] == ["t", "u", "v"]
    both = datasets.DatasetDict({"train": made, "test": made.select([1])})
    assert read(both, split="test") == [Document("1", "u", ())]
