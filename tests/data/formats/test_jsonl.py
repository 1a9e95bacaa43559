from __future__ import annotations

import gzip
import io
import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from haxmlnet.data.documents import DEFAULT_OPTIONS, Document, ReadOptions
from haxmlnet.data.formats.fast_jsonl import FastDecoder
from haxmlnet.data.formats.fields import refuse_half_characters, to_document
from haxmlnet.data.formats.jsonl import parse_object, read_jsonl
from haxmlnet.data.formats.source import Source, open_source
from haxmlnet.errors import DataError

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers(-(10**30), 10**30) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
LABELS = st.lists(st.text(max_size=3) | st.integers(-5, 10**20), max_size=4) | VALUES
OBJECTS = st.fixed_dictionaries(
    {"text": st.text(max_size=9) | VALUES, "labels": LABELS},
    optional={"id": st.text(max_size=3) | st.integers(0, 10**25) | VALUES, "title": st.text(max_size=3), "x": VALUES},
)


def read(*lines: bytes) -> list[str | Document]:
    one_by_one, in_blocks = read_from(None, lines), read_from(Path("a.jsonl"), lines)
    assert one_by_one == in_blocks
    return in_blocks


def read_from(path: Path | None, lines: Sequence[bytes]) -> list[str | Document]:
    first = b"{}" + b" " * 5000  # a NUL among the first bytes would make the file a binary one
    stream = io.BufferedReader(io.BytesIO(b"\n".join([first, *lines]) + b"\n"), 1 << 16)
    documents = list(read_jsonl(Source("a.jsonl", stream, path), DEFAULT_OPTIONS, True))
    return [str(one) if isinstance(one, DataError) else one for one in documents[1:]]


def read_by_pythons_json(line: bytes, number: int) -> str | Document:
    try:
        document = to_document(parse_object(line), DEFAULT_OPTIONS, True, number)
        refuse_half_characters(document.text, document.id, *document.labels)
    except DataError as error:
        return f"a.jsonl:{number}: {error}"
    return document


def record(**fields: str) -> bytes:
    parts = {"text": '"t"', "labels": "[]", **fields}
    return ("{" + ", ".join(f'"{name}": {value}' for name, value in parts.items()) + "}").encode()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (record(x="NaN"), Document("2", "t", ())),
        (record(x="-Infinity"), Document("2", "t", ())),
        (record(x="1e999"), Document("2", "t", ())),
        (record(id=str(2**64)), Document(str(2**64), "t", ())),
        (record(labels=f"[{10**30}, -{10**19}]"), Document("2", "t", (str(10**30), f"-{10**19}"))),
        (record(labels='["b", "a", "b"]'), Document("2", "t", ("b", "a"))),
        (b'{"text": "a", "text": "b", "labels": ["x"], "labels": []}', Document("2", "b", ())),
        (record(text='"\\ud83d\\ude00\\u0000"'), Document("2", "😀\0", ())),
        (record(x='"\\ud800"'), Document("2", "t", ())),
        (record(id="17"), Document("17", "t", ())),
        (record(x="[" * 500 + "]" * 500), Document("2", "t", ())),
    ],
)
def test_what_only_the_careful_parser_reads_is_read_as_well(line, expected):
    assert read(line) == [expected]


@pytest.mark.parametrize(
    "line", [b"[]", b'"text"', b"1", b"null", b"true", b"1e999", b"{}", b"{", b"\0", b"\xff", b"[" * 99_999]
)
def test_lines_that_are_no_documents_are_errors(line):
    (message,) = read(line)
    assert isinstance(message, str)
    assert message.startswith("a.jsonl:2: ")


def test_a_line_that_is_not_utf8_is_an_error_even_where_nothing_is_read():
    (message, document) = read(record(x='"?"').replace(b"?", b"\xe9"), record(x='"é"'))
    assert str(message).startswith("a.jsonl:2: not UTF-8 at byte ")
    assert document == Document("3", "t", ())


def test_blank_lines_do_not_count_but_have_numbers():
    assert read(b"", b" \t\r", record(), b"\x0c", record()) == [Document("4", "t", ()), Document("6", "t", ())]


def damaged(line: bytes) -> st.SearchStrategy[bytes]:
    def change(place: tuple[int, bytes, int]) -> bytes:
        start, inserted, n_removed = place
        return (line[:start] + inserted + line[start + n_removed :]).replace(b"\n", b" ").replace(b"\r", b" ")

    return st.tuples(st.integers(0, len(line)), st.binary(max_size=2), st.integers(0, 3)).map(change)


def dumped(ensure_ascii: bool) -> Callable[[object], bytes]:
    return lambda value: json.dumps(value, ensure_ascii=ensure_ascii).encode("utf-8", "surrogatepass")


@settings(max_examples=300, deadline=None)
@given(st.booleans().flatmap(lambda ascii_only: st.lists((OBJECTS | VALUES).map(dumped(ascii_only)), max_size=4)))
@example([record(id="1.0")])
@example([record(labels='[" ", "a"]')])
@example([record(text='"\\udc00"'), record()])
def test_documents_and_messages_are_those_of_pythons_json(lines):
    assert read(*lines) == [read_by_pythons_json(line + b"\n", number) for number, line in enumerate(lines, 2)]


@settings(max_examples=300, deadline=None)
@given(OBJECTS.map(dumped(True)).flatmap(damaged))
def test_messages_for_damaged_lines_are_those_of_pythons_json(line):
    expected = [] if (line + b"\n").isspace() else [read_by_pythons_json(line + b"\n", 2)]
    assert read(line) == expected


FIELDS = [
    {"text": "t", "labels": ["a"]},
    {"content": "c", "labels": []},
    {"text": "t", "content": "c", "title": "T", "labels": ["a", "b", "a"]},
    {"content": "c", "title": "c", "labels": [" a "]},
    {"text": "Tt", "title": "T", "labels": ["a"], "id": "x"},
    {"text": "t", "title": None, "labels": ["a"], "id": 7},
    {"text": "t", "title": 5, "labels": ["a"]},
    {"text": "t", "labels": "a;b", "more": "m"},
    {"text": None, "labels": [], "content": "c"},
    {"text": "t", "id": None, "labels": [1, "a"], "more": "m"},
]
OPTIONS = [
    DEFAULT_OPTIONS,
    ReadOptions(text_field="text"),
    ReadOptions(text_field=("text", "more")),
    ReadOptions(id_field="more", label_separator=";"),
    ReadOptions(label_field="missing"),
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4), st.sampled_from(OPTIONS), st.booleans())
def test_many_records_at_once_are_what_they_are_one_by_one(records, options, with_labels):
    content = "".join(json.dumps(record) + "\n" for record in records).encode()
    source = Source("a", io.BufferedReader(io.BytesIO(content)), Path("a"))
    read = list(read_jsonl(source, options, with_labels))
    assert len(read) == len(records)
    for number, (one, fields) in enumerate(zip(read, records, strict=True), 1):
        if isinstance(one, DataError):
            with pytest.raises(DataError) as error:
                to_document(fields, options, with_labels, number)
            assert str(one) == f"a:{number}: {error.value}"
        else:
            assert one == to_document(fields, options, with_labels, number)


@pytest.mark.parametrize("options", OPTIONS[:3])
def test_usual_lines_are_read_all_at_once(options):
    usual = FastDecoder.of(options, with_labels=True)
    lines = [b'{"labels": ["b", "a", "b"], "more": "m", "x": [{}], "text": "t"}\n'] * 2
    text = "t\nm" if options.text_field == ("text", "more") else "t"
    assert usual.read(lines, 7) == [Document("7", text, ("b", "a")), Document("8", text, ("b", "a"))]


def test_one_field_as_text_and_as_labels():
    source = Source("a", io.BufferedReader(io.BytesIO(b'{"text": "a;b"}\n')), Path("a"))
    options = ReadOptions(label_field="text", label_separator=";")
    assert list(read_jsonl(source, options, True)) == [Document("1", "a;b", ("a", "b"))]


def test_a_damaged_file_gives_the_documents_before_the_damage(tmp_path):
    numbers = random.Random(0)
    content = gzip.compress(b"".join(record(id=f'"{numbers.random()}"') + b"\n" for _ in range(1000)))
    (tmp_path / "a.jsonl.gz").write_bytes(content[: len(content) // 2])
    documents = []
    with open_source(tmp_path / "a.jsonl.gz") as source, pytest.raises(DataError, match="ends too early") as error:
        documents.extend(read_jsonl(source, DEFAULT_OPTIONS, True))
    assert f"a.jsonl.gz:{source.n_lines}: " in str(error.value)
    assert len(documents) == source.n_lines > 100


def test_a_line_of_standard_input_does_not_wait_for_the_next():
    ending, beginning = os.pipe()
    with open(beginning, "wb", buffering=0) as writer, open(ending, "rb") as stream:
        writer.write(record() + b"\n")
        documents = read_jsonl(Source("<stdin>", stream), DEFAULT_OPTIONS, True)
        assert next(documents) == Document("1", "t", ())
