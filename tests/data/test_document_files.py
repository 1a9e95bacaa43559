import gzip
import io
import json
import sys
from pathlib import Path

import pytest

from haxmlnet.data import Document, ReadOptions, SkipReport, iterate_documents
from haxmlnet.errors import DataError, SettingError

SHARED = Path(__file__).parents[3] / "shared"


def read(path, with_labels=True, report=None, **options):
    return list(iterate_documents(path, ReadOptions(**options), with_labels=with_labels, report=report))


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file into the working directory, so that messages begin with its bare name."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, content: str | bytes) -> str:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write_file


@pytest.fixture
def give_stdin(monkeypatch):
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"text": "body"}, "body"),
        ({"text": ""}, ""),
        ({"title": "head", "text": "body"}, "head\nbody"),
        ({"title": "head", "text": "head and body"}, "head and body"),
        ({"title": "head", "content": "body"}, "head\nbody"),
        ({"title": None, "text": "body"}, "body"),
        ({"title": "", "content": "body"}, "body"),
        ({"content": "body"}, "body"),
        ({"content": "summary", "text": "body"}, "body"),
        ({"text": "a\0b"}, "a\0b"),
        ({"text": "😀"}, "😀"),
    ],
)
def test_default_text_is_made_of_title_and_text_or_content(write, record, text):
    path = write("a.jsonl", json.dumps({**record, "labels": ["x"]}))
    assert read(path) == [Document("1", text, ("x",))]


def test_named_fields_are_used(write):
    path = write("a.jsonl", '{"nr": 7, "head": "H", "body": "B", "tags": "x| y z", "text": "no"}')
    options = {
        "text_field": ("head", "body"),
        "label_field": "tags",
        "label_separator": "|",
        "id_field": "nr",
    }
    assert read(path, **options) == [Document("7", "H\nB", ("x", "y z"))]
    assert read(path, with_labels=False, text_field="body") == [Document("1", "B", ())]


def test_labels_are_kept_as_they_are_and_once(write):
    labels = [" a ", "b\nc", "ü", "a", 7, "b\nc", "7", "x" * 10_000]
    path = write("a.jsonl", json.dumps({"text": "t", "labels": labels}))
    assert read(path)[0].labels == (" a ", "b\nc", "ü", "a", "7", "x" * 10_000)


@pytest.mark.parametrize(
    ("separator", "cell", "labels"),
    [
        (None, "a; b c;d", ("a", "b c", "d")),
        (None, "", ()),
        (None, '["a;b", 3]', ("a;b", "3")),
        (None, "[1] note;b", ("[1] note", "b")),
        (" ", " a  b ", ("a", "b")),
        ("||", "a||b|c", ("a", "b|c")),
        ("|", "[a]|[b]", ("[a]", "[b]")),
    ],
)
def test_label_cells_of_tables_are_lists_or_strings_with_a_separator(write, separator, cell, labels):
    path = write("a.tsv", "text\tlabels\nt\t" + ('"' + cell.replace('"', '""') + '"') + "\n")
    assert read(path, label_separator=separator)[0].labels == labels


def test_ids_default_to_line_or_row_numbers(write):
    jsonl = '{"text": "a"}\n\n  \r\n{"text": "b"}\n{"text": "c", "id": "own"}\n'
    assert [d.id for d in read(write("a.jsonl", jsonl), with_labels=False)] == ["1", "4", "own"]
    csv = 'text\n"two\nlines"\n\nb\n'
    assert [d.id for d in read(write("a.csv", csv), with_labels=False)] == ["1", "2"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a", "a.txt"])
def test_gzip_and_json_are_known_by_content(write, name):
    content = b'{"text": "a", "labels": ["x"]}\n'
    assert read(write(name, content)) == read(write(name, gzip.compress(content)))


@pytest.mark.parametrize("head", ["labels\ttext", "text,labels", ' "text" , labels'])
def test_tables_are_known_by_their_header_when_the_name_says_nothing(write, head):
    delimiter = "\t" if "\t" in head else ","
    options = {"text_field": '"text"'} if '"' in head else {}
    assert read(write("table", f"{head}\nx{delimiter}x\n"), **options) == [Document("1", "x", ("x",))]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
def test_bom_and_crlf_are_dropped(write, name):
    content = {
        "a.jsonl": '{"text": "t", "labels": ["x", "y"]}\r\n',
        "a.csv": "text,labels\r\nt,x;y\r\n",
        "a.tsv": "text\tlabels\r\nt\tx;y\r\n",
    }[name]
    content = b"\xef\xbb\xbf" + content.encode()
    expected = [Document("1", "t", ("x", "y"))]
    assert read(write(name, content)) == expected
    assert read(write(name, gzip.compress(content))) == expected


def test_standard_input_plain_and_gzip(give_stdin):
    content = b'{"text": "a", "labels": ["x"]}\n'
    for given in (content, gzip.compress(content)):
        give_stdin(given)
        assert read("-") == [Document("1", "a", ("x",))]
    give_stdin(b"text,labels\na,x\n")
    assert read("-", format="csv") == [Document("1", "a", ("x",))]
    give_stdin(b"{}\n")
    with pytest.raises(DataError, match=r"^<stdin>:1: there is no 'text'"):
        read("-")


def test_prediction_ignores_labels_however_malformed(write):
    lines = ['{"text": "a", "labels": 3.5}', '{"text": "b", "labels": [""]}', '{"text": "c"}']
    assert read(write("a.jsonl", "\n".join(lines)), with_labels=False) == [
        Document(str(i), text, ()) for i, text in enumerate("abc", 1)
    ]
    assert read(write("a.csv", "text,labels\na,['x']\n"), with_labels=False) == [Document("1", "a", ())]


def test_prediction_reads_plain_text_a_document_a_line(write, give_stdin):
    content = "one, two\r\n\nthree\x0b\u2028four"
    expected = [
        Document("1", "one, two", ()),
        Document("2", "", ()),
        Document("3", "three\x0b\u2028four", ()),
    ]
    assert read(write("a.txt", content), with_labels=False) == expected
    give_stdin(content.encode())
    assert read("-", with_labels=False) == expected


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
def test_a_document_of_ten_megabytes_is_read(write, name):
    text, label = "word " * 2_000_000, "x" * 10_000
    content = {
        "a.jsonl": json.dumps({"text": text, "labels": [label]}),
        "a.csv": f"text,labels\n{text},{label}\n",
        "a.tsv": f"text\tlabels\n{text}\t{label}\n",
    }[name]
    assert read(write(name, content)) == [Document("1", text, (label,))]


def test_documents_are_read_one_by_one(write):
    documents = iterate_documents(write("a.jsonl", '{"text": "a"}\n{"text": 1}\n'), with_labels=False)
    assert next(documents).text == "a"
    with pytest.raises(DataError):
        next(documents)


def test_skip_counts_bad_documents_and_keeps_the_first_messages(write):
    bad = ["{", "[]", '{"text": "t", "labels": "a"}', '{"text": "t", "labels": ["\\ud800"]}']
    lines = [b"\xff"] + [line.encode() for line in bad * 4] + [b'{"text": "t", "labels": ["x"]}']
    report = SkipReport()
    path = write("a.jsonl", b"\n".join(lines))
    assert read(path, report=report, on_error="skip") == [Document("18", "t", ("x",))]
    assert report.n_skipped == 17
    assert [message.split(": ")[0] for message in report.messages] == [f"a.jsonl:{i}" for i in range(1, 11)]


def test_skip_goes_on_after_every_kind_of_bad_row(write):
    rows = [
        b"text,labels",
        b"ok,x",
        b"\xff,x",
        b'"two\n\xff",x',
        b"a,b,c",
        b'"a"b,x',
        b"a\rb,x",
        b"t,x;;y",
        b"ok,y",
    ]
    report = SkipReport()
    documents = read(write("a.csv", b"\n".join(rows)), report=report, on_error="skip")
    assert documents == [Document("1", "ok", ("x",)), Document("8", "ok", ("y",))]
    assert [message.split(": ")[0] for message in report.messages] == [f"a.csv:{line}" for line in (3, 4, 6, 7, 8, 9)]


def test_skip_does_not_cover_what_concerns_the_whole_file(write):
    whole = gzip.compress(b'{"text": "t", "labels": ["x"]}\n' * 10_000)
    cases = {
        "a.jsonl": ("", "a.jsonl: the file is empty"),
        "b.jsonl.gz": (whole[:-20], "b.jsonl.gz:9"),
        "a.csv": ('text,labels\na,x\n"b,x\nc,x\n', "a.csv:3: a quote opens in this row and never closes"),
        "b.csv": ("text,tags\na,x\n", "b.csv:1: there is no 'labels'"),
        "c.jsonl": ("{\n[\n", "c.jsonl: none of 2 documents can be used. The first: c.jsonl:1: not JSON"),
    }
    for name, (content, message) in cases.items():
        with pytest.raises(DataError) as caught:
            read(write(name, content), on_error="skip")
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "options", [{"on_error": "ignore"}, {"label_separator": ""}, {"text_field": ()}, {"format": "docx"}]
)
def test_impossible_options_are_refused(write, options):
    with pytest.raises(SettingError):
        read(write("a.jsonl", "{}"), **options)


def test_real_data_is_read():
    path = SHARED / "data" / "cve_small" / "train.jsonl.gz"
    if not path.exists():
        pytest.skip(f"the real data is not at {path}")
    documents = read(path)
    assert len(documents) == 4885
    assert len({label for document in documents for label in document.labels}) == 1111
    assert sum(len(document.labels) for document in documents) == 17_400
