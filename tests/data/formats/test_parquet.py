"""Parquet tables: columns, types and what a damaged file is told."""

import gzip
import io

import pyarrow as pa
import pytest
from format_samples import (
    assert_message,
    message_of,
    parquet,
    read,
)

from haxmlnet.data import Document

MALFORMED = [
    ("parquet", {"a.parquet": "text,labels\n"}, "a.parquet: not a Parquet file, got b'text' at its start. Choose"),
    ("parquet", {"a.parquet": parquet(text=["t"] * 9, labels=[["x"]] * 9)[:-5]}, "a.parquet: the Parquet data is da"),
    ("parquet", {"a.gz": gzip.compress(parquet(text=["t"]))}, "a.gz: a Parquet file within gzip. Unpack it"),
    ("parquet", {"a.parquet": parquet(body=["t"])}, "a.parquet: there is no 'text', got the fields ['body']. Use"),
    ("parquet", {"a.parquet": parquet(text=["t"])}, "a.parquet: there is no 'labels', got the fields ['text']. Use"),
    (
        "parquet", {"a.parquet": parquet(text=[1], labels=[["x"]])},
        "a.parquet: the column 'text' must hold strings, got 'int64'. Use --text-field",
    ),
    (
        "parquet", {"a.parquet": parquet(text=["t"], labels=[[1.5]])},
        "a.parquet: the column 'labels' must hold lists of strings, or strings, got 'list<element: double>'. Use",
    ),
    ("parquet", {"a.parquet": parquet(text=["t"], labels=[1])}, "a.parquet: the column 'labels' must hold lists"),
    ("parquet", {"a.parquet": parquet(text=["t", None], labels=[["x"]] * 2)}, "a.parquet:2: 'text' must be a string"),
    ("parquet", {"a.parquet": parquet(text=["t"], labels=[["x", None]])}, "a.parquet:1: 'labels' must be a list of st"),
    ("parquet", {"a.parquet": parquet(text=["t"], labels=pa.array([None], pa.list_(pa.string())))}, "a.parquet:1: 'la"),
    ("parquet", {"a.parquet": parquet(text=["t"], labels=["x;;y"])}, "a.parquet:1: 'labels' has an empty label"),
    ("parquet", {"a.parquet": parquet(text=pa.array([], pa.string()), labels=pa.array([], pa.string()))},
     "a.parquet: the file has no document."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (["x;y", ""], {}),
        (["x|y", ""], {"label_separator": "|"}),
        (['["x", "y"]', "[]"], {}),
        (pa.array(["x;y", ""]).dictionary_encode(), {}),
        (pa.array([["x", "y"], []], pa.large_list(pa.large_string())), {}),
    ],
)
def test_parquet_labels_are_lists_or_strings(write, labels, options):
    path = write({"a.parquet": parquet(text=["t", "u"], labels=labels, id=[7, 8], other=[0.5, None])})
    assert read(path, **options) == [Document("7", "t", ("x", "y")), Document("8", "u", ())]


def test_parquet_is_read_in_batches_and_by_content(write):
    n = 2_500
    path = write({"table": parquet(title=["h"] * n, content=[str(i) for i in range(n)], tags=[[i] for i in range(n)])})
    documents = read(path, label_field="tags")
    assert len(documents) == n
    assert documents[-1] == Document("2500", "h\n2499", ("2499",))


def test_text_may_begin_like_a_parquet_file(write):
    assert read(write({"a.txt": "PAR1 is a text\n"}), with_labels=False)[0].text == "PAR1 is a text"


def test_parquet_columns_may_have_dots(write):
    path = write({"a.parquet": parquet(**{"a.b": ["t"], "c.d": [["x"]]})})
    assert read(path, text_field="a.b", label_field="c.d") == [Document("1", "t", ("x",))]


def test_a_packed_table_in_a_pipe_is_refused(monkeypatch):
    content = parquet(text=["t"], labels=[["x"]])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert message_of("-").startswith("<stdin>: Parquet is read from its end, which a pipe does not have.")


@pytest.mark.parametrize(("name", "files", "message"), MALFORMED, ids=lambda value: str(value)[:30])
def test_malformed_files_are_told_where_and_what(write, name, files, message):
    assert_message(write(files), message, format=name)
