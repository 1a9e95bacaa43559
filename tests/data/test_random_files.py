"""Whatever is written is read back, and whatever else is given ends in a DataError."""

import csv
import gzip
import io
import json
import os
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haxmlnet.data import Document, ReadOptions, SkipReport, iterate_documents
from haxmlnet.errors import DataError

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
# A NUL byte at the start of a file makes it binary; JSON escapes it.
TABLE_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def documents(text):
    label = text.filter(str.strip)
    labels = st.lists(label, unique=True, max_size=4).map(tuple)
    return st.lists(st.builds(Document, text, text, labels), min_size=1, max_size=5)


def read_bytes(content, suffix, with_labels=True, **options):
    with tempfile.NamedTemporaryFile(suffix=suffix) as stream:
        stream.write(content)
        stream.flush()
        return list(iterate_documents(stream.name, ReadOptions(**options), with_labels=with_labels))


@pytest.mark.parametrize("ensure_ascii", [True, False])
@settings(max_examples=60, deadline=None)
@given(documents=documents(TEXT))
def test_json_lines_round_trip(ensure_ascii, documents):
    content = "".join(json.dumps(d._asdict(), ensure_ascii=ensure_ascii) + "\n" for d in documents).encode()
    assert read_bytes(content, ".jsonl") == documents
    assert read_bytes(gzip.compress(content), ".jsonl") == documents


@pytest.mark.parametrize(("dialect", "suffix"), [("excel", ".csv"), ("excel-tab", ".tsv")])
@settings(max_examples=60, deadline=None)
@given(documents=documents(TABLE_TEXT))
def test_table_round_trip(dialect, suffix, documents):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, dialect)
    writer.writerow(Document._fields)
    writer.writerows((d.id, d.text, json.dumps(d.labels)) for d in documents)
    assert read_bytes(stream.getvalue().encode(), suffix) == documents


@settings(max_examples=60, deadline=None)
@given(documents=documents(TABLE_TEXT.map(lambda text: text.replace("|", "").strip())))
def test_table_round_trip_with_a_separator(documents):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(Document._fields)
    writer.writerows((d.id, d.text, "|".join(d.labels)) for d in documents)
    assert read_bytes(stream.getvalue().encode(), ".csv", label_separator="|") == documents


VALID = {
    ".jsonl": b'{"id": 1, "title": "A", "text": "\\ud83d\\ude00 \xc3\xa4", "labels": ["x", "y"]}\n' * 3,
    ".csv": b'id,title,text,labels\n1,A,"multi\nline ""q"" \xc3\xa4",x;y\n2,B,t,"[""x""]"\n',
    ".tsv": b"id\ttext\tlabels\n1\tt\tx;y\n2\tu\tz\n",
    ".txt": b"text,labels\na,x\n",
    ".gz": gzip.compress(b'{"text": "t", "labels": ["x"]}\n{"text": "u", "labels": []}\n', mtime=0),
}


def read_or_data_error(content, suffix, with_labels, on_error):
    report = SkipReport()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a" + suffix)
        with open(path, "wb") as stream:
            stream.write(content)
        options = ReadOptions(on_error=on_error)
        try:
            read = list(iterate_documents(path, options, with_labels=with_labels, report=report))
        except DataError:
            return
    assert read
    for document in read:
        "".join([document.id, document.text, *document.labels]).encode()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(sorted(VALID)), st.booleans(), st.sampled_from(["stop", "skip"]))
def test_random_bytes_are_read_or_refused(content, suffix, with_labels, on_error):
    read_or_data_error(content, suffix, with_labels, on_error)


PIECES = [
    b"\n",
    b"\r",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b"\\",
    b"\\ud800",
    b"\xff",
    b"\0",
    b",",
    b"\t",
    b";",
    b"null",
    b"",
]
MUTATION = st.tuples(st.integers(0, 250), st.integers(0, 3), st.sampled_from(PIECES) | st.binary(max_size=2))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(VALID)),
    st.lists(MUTATION, min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(["stop", "skip"]),
)
def test_mutated_files_are_read_or_refused(suffix, mutations, with_labels, on_error):
    content = VALID[suffix]
    for at, n_dropped, piece in mutations:
        at %= len(content) + 1
        content = content[:at] + piece + content[at + n_dropped :]
    read_or_data_error(content, suffix, with_labels, on_error)
