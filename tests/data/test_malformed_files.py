"""Every malformed input has a message of one line: where, what is wrong, what came, what to do."""

import gzip
import random
import time
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from tests.fuzz.samples import Sample, read_sample, valid_samples

from haxmlnet.data import ReadOptions, iterate_documents
from haxmlnet.errors import DataError

GOOD = '{"text": "t", "labels": ["x"]}\n'
LONG = "x" * 1000
# Random letters do not compress, so that the gzip file below is cut after several lines.
NOISE = "".join(f'{{"text": "{random.Random(i).randbytes(500).hex()}", "labels": ["x"]}}\n' for i in range(60))

MALFORMED = [
    ("a.jsonl", "", "a.jsonl: the file is empty. Give"),
    ("a.jsonl.gz", gzip.compress(b""), "a.jsonl.gz: the file is empty. Give"),
    ("a.jsonl", "\n\n \n", "a.jsonl: the file has no document. Give"),
    ("a.csv", "text,labels\n", "a.csv: the file has no document. Give"),
    ("a.csv", "\n\n", "a.csv: the file has no document. Give"),
    ("a.jsonl", GOOD + "{'text'", "a.jsonl:2: not JSON at column 2 (Expecting property name"),
    (
        "a.jsonl",
        GOOD + '\n{"text": "t" "labels"}',
        "a.jsonl:3: not JSON at column 14 (Expecting ',' delimiter), got",
    ),
    ("a.jsonl", '{"text": "raw \x01"}', "a.jsonl:1: not JSON at column 15 (Invalid control character"),
    ("a.jsonl", "[" * 100_000, "a.jsonl:1: JSON nested too deeply, got '[[["),
    ("a.jsonl", '{"text": ' + "1" * 5000, 'a.jsonl:1: a number has too many digits, got \'{"text": 111'),
    ("a.jsonl", '["a"]', "a.jsonl:1: a line must be one JSON object, got ['a']. Write"),
    ("a.jsonl", "{}", "a.jsonl:1: there is no 'text', got the fields []. Use --text-field"),
    ("a.jsonl", '{"body": "", "n": 1}', "a.jsonl:1: there is no 'text', got the fields ['body', 'n']. Use"),
    (
        "a.jsonl",
        '{"title": "only"}',
        "a.jsonl:1: there is no 'text', got the fields ['title']. Use --text-field",
    ),
    ("a.jsonl", '{"text": null}', "a.jsonl:1: 'text' must be a string, got None. Fix"),
    ("a.jsonl", '{"text": ["a"]}', "a.jsonl:1: 'text' must be a string, got ['a']. Fix"),
    ("a.jsonl", '{"title": 1, "text": "t"}', "a.jsonl:1: 'title' must be a string, got 1. Fix"),
    (
        "a.jsonl",
        '{"text": "t"}',
        "a.jsonl:1: there is no 'labels', got the fields ['text']. Use --label-field",
    ),
    (
        "a.jsonl",
        '{"text": "t", "labels": "a;b"}',
        "a.jsonl:1: 'labels' must be a list of strings, got 'a;b'. Use --label-separator ';' for strings.",
    ),
    (
        "a.jsonl",
        '{"text": "t", "labels": "a|b"}',
        "a.jsonl:1: 'labels' must be a list of strings, got 'a|b'. Use --label-separator '|' for strings.",
    ),
    (
        "a.jsonl",
        '{"text": "t", "labels": null}',
        "a.jsonl:1: 'labels' must be a list of strings, got None. Write []",
    ),
    (
        "a.jsonl",
        '{"text": "t", "labels": {"a": 1}}',
        "a.jsonl:1: 'labels' must be a list of strings, got {'a': 1}",
    ),
    (
        "a.jsonl",
        '{"text": "t", "labels": [1.5]}',
        "a.jsonl:1: 'labels' must be a list of strings, but one is 1.5.",
    ),
    (
        "a.jsonl",
        '{"text": "t", "labels": [true]}',
        "a.jsonl:1: 'labels' must be a list of strings, but one is True.",
    ),
    (
        "a.jsonl",
        '{"text": "t", "labels": [null]}',
        "a.jsonl:1: 'labels' must be a list of strings, but one is None.",
    ),
    (
        "a.jsonl",
        '{"text": "t", "labels": ["a", " "]}',
        "a.jsonl:1: 'labels' has an empty label, got ['a', ' ']. Leave",
    ),
    (
        "a.jsonl",
        '{"text": "t", "labels": [], "id": 1.5}',
        "a.jsonl:1: 'id' must be a string or an integer, got 1.5.",
    ),
    (
        "a.jsonl",
        '{"text": "a\\ud83d", "labels": []}',
        "a.jsonl:1: half a surrogate pair is no character, got 'a\\ud83d'",
    ),
    (
        "a.jsonl",
        GOOD.encode() + b'{"text": "caf\xe9"}',
        "a.jsonl:2: not UTF-8 at byte 14 of the line, got b'",
    ),
    (
        "a.csv",
        b"text,labels\nok,x\ncaf\xe9,x\n",
        "a.csv:3: not UTF-8 at byte 4 of the line, got b'caf\\xe9,x\\n'. Convert",
    ),
    ("a.csv", b"t\xe9xt,labels\nok,x\n", "a.csv:1: not UTF-8 at byte 2 of the line"),
    (
        "a.jsonl",
        GOOD.encode("utf-16"),
        "a.jsonl: the file is UTF-16 text, got b'\\xff\\xfe' at its start. Convert",
    ),
    ("a.jsonl", b"\xfe\xff" + GOOD.encode("utf-16-be"), "a.jsonl: the file is UTF-16 text"),
    ("a.jsonl", GOOD.encode("utf-16-le"), "a.jsonl: the file is binary (it has NUL bytes). Give UTF-8"),
    (
        "a.jsonl",
        b"PK\x03\x04rest",
        "a.jsonl: the file is a zip archive, got b'PK\\x03\\x04' at its start. Unpack",
    ),
    ("a.jsonl", bytes(range(256)), "a.jsonl: the file is binary"),
    ("a.jsonl.gz", gzip.compress(NOISE.encode())[:20_000], "a.jsonl.gz:3"),
    (
        "a.jsonl.gz",
        gzip.compress(GOOD.encode())[:-4],
        "a.jsonl.gz:1: the gzip data ends too early after this line.",
    ),
    (
        "a.jsonl.gz",
        gzip.compress(GOOD.encode())[:-8] + b"\0" * 8,
        "a.jsonl.gz:1: the gzip data is damaged after",
    ),
    ("a.jsonl.gz", b"\x1f\x8b\x08\x00", "a.jsonl.gz:0: the gzip data ends too early"),
    ("a.jsonl.gz", b"\x1f\x8bnot gzip at all", "a.jsonl.gz:0: the gzip data is damaged"),
    (
        "a.jsonl.gz",
        gzip.compress(GOOD.encode()) + b"junk",
        "a.jsonl.gz:1: the gzip data is damaged after this line (Not",
    ),
    (
        "a.csv",
        "text,labels\na,x\n\nb,x,y\n",
        "a.csv:4: the header has 2 columns, got 3 in ['b', 'x', 'y']. Put",
    ),
    ("a.csv", 'text,labels\n"a\nb",x\nb\n', "a.csv:4: the header has 2 columns, got 1 in ['b']. Put"),
    (
        "a.csv",
        "body,labels\na,x\n",
        "a.csv:1: there is no 'text', got the fields ['body', 'labels']. Use --text-field",
    ),
    (
        "a.csv",
        "text,tags\na,x\n",
        "a.csv:1: there is no 'labels', got the fields ['text', 'tags']. Use --label-field",
    ),
    ("a.csv", "text,text,labels\na,b,x\n", "a.csv:1: the header names 'text' twice. Rename"),
    ("a.tsv", "text,labels\na,x\n", "a.tsv:1: there is no 'text', got the fields ['text,labels']. Use"),
    ("a.csv", "text,labels\na,x;;y\n", "a.csv:2: 'labels' has an empty label, got ['x', '', 'y']. Leave"),
    (
        "a.csv",
        "text,labels\na,\"['x', 'y']\"\n",
        "a.csv:2: 'labels' looks like a list but is not JSON, got \"['x', 'y']\".",
    ),
    (
        "a.csv",
        'text,labels\na,"[""\\ud800""]"\n',
        "a.csv:2: half a surrogate pair is no character, got '\\ud800'.",
    ),
    ("a.csv", 'text,labels\n"a"b,x\n', "a.csv:2: not a valid row (',' expected after '\"'). Put"),
    (
        "a.csv",
        "text,labels\na\rb,x\n",
        "a.csv:2: not a valid row (new-line character seen in unquoted field). Put",
    ),
    ("a.csv", 'text,labels\na,x\n"b,x\n', "a.csv:3: a quote opens in this row and never closes. Close"),
    ("a.csv", '"text,labels\na,x\n', "a.csv:1: a quote opens in this row and never closes. Close"),
    ("a.bin", "some text\n", "a.bin: cannot tell the format. Use --format with one of jsonl, csv, tsv, text"),
    (
        "a.jsonl",
        '{"text": "t", "labels": "' + LONG + '"}',
        "a.jsonl:1: 'labels' must be a list of strings, got 'xxx",
    ),
    ("a.jsonl", LONG, "a.jsonl:1: not JSON at column 1 (Expecting value), got 'xxx"),
]


@pytest.mark.parametrize(("name", "content", "message"), MALFORMED)
def test_message_says_where_and_what(tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    shown = message_of(name)
    assert shown.startswith(message)
    assert "\n" not in shown
    assert len(shown) < 250
    assert shown.endswith(".")


def test_message_names_the_line_that_a_truncated_gzip_file_reached(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = gzip.compress(NOISE.encode())[:20_000]
    Path("a.jsonl.gz").write_bytes(content)
    n_whole_lines = zcat(content).count(b"\n")
    assert message_of("a.jsonl.gz").startswith(f"a.jsonl.gz:{n_whole_lines}: the gzip data ends too early")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"id_field": "nr"},
            "a.jsonl:1: there is no 'nr', got the fields ['text', 'labels']. Use --id-field",
        ),
        ({"text_field": ("text", "b")}, "a.jsonl:1: there is no 'b', got the fields"),
        ({"format": "text"}, "a.jsonl: plain text has no labels. Give"),
        (
            {"label_field": "text"},
            "a.jsonl:1: 'text' must be a list of strings, got 't'. Use --label-separator ';'",
        ),
    ],
)
def test_message_for_options_that_do_not_fit_the_file(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text(GOOD)
    assert message_of("a.jsonl", **options).startswith(message)


def test_message_for_paths_that_are_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert message_of("absent.jsonl") == "absent.jsonl: no such file. Check the path."
    assert message_of("folder").startswith("folder: no known train file in this directory, such as train.jsonl")
    assert message_of("folder/absent.csv").startswith("folder/absent.csv: no such file")
    assert message_of("a\0b").endswith("cannot be opened: embedded null byte.")


SAMPLES = valid_samples()
NEWLINE = b"\n"
TEXT_FILES = [
    (name, file)
    for name, sample in SAMPLES.items()
    for file in sample.files
    if not file.endswith((".npz", ".parquet", ".arrow"))
]
PROSE = [
    pair for pair in TEXT_FILES if not pair[1].startswith(("state", "dataset_info", "trn_X", "train.txt", "a.svm"))
]


def damaged_message(folder, name, file, change):
    """Read a sample of a format with one of its files changed."""
    files = SAMPLES[name].files
    with pytest.raises(DataError) as caught:
        read_sample(folder, Sample(name, {**files, file: change(files[file])}))
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(("name", "file"), PROSE)
def test_every_line_must_be_utf_8(tmp_path, name, file):
    before = SAMPLES[name].files[file].rstrip(b"\n")
    place = before.rindex(b"\n") + 2  # after the first character of the last line that has one
    message = damaged_message(tmp_path, name, file, lambda content: content[:place] + b"\xe9" + content[place:])
    assert message.startswith(f"{tmp_path / file}:{before.count(NEWLINE) + 1}: not UTF-8 at byte 2 of the line, got b'")


@pytest.mark.parametrize(("name", "file"), TEXT_FILES)
@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize("n_cut", [5, 1_000])
def test_every_file_may_be_cut_within_its_packing(tmp_path, name, file, packing, n_cut):
    noise = random.Random(0).randbytes(9_000).hex().encode()
    pack = gzip.compress if packing == "gzip" else lambda content: pa.Codec("zstd").compress(content, asbytes=True)
    message = damaged_message(tmp_path, name, file, lambda content: pack(content + noise)[:-n_cut])
    # A block of zstd is whole or nothing.
    n_lines = SAMPLES[name].files[file].count(NEWLINE) if packing == "gzip" else 0
    assert message.startswith(f"{tmp_path / file}:{n_lines}: the {packing} data ends too early after this line. Copy")


@pytest.mark.parametrize(("name", "file"), TEXT_FILES)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: b"", "the file is empty"),
        (lambda content: content.decode().encode("utf-16"), "the file is UTF-16 text"),
        (lambda content: b"a\0b" + content, "the file is binary (it has NUL bytes)"),
        (lambda content: b"PK\x03\x04" + content, "the file is a zip archive"),
    ],
)  # fmt: skip
def test_every_file_must_be_text(tmp_path, name, file, change, reason):
    assert damaged_message(tmp_path, name, file, change).startswith(f"{tmp_path / file}: {reason}")


@pytest.mark.parametrize(("name", "file"), TEXT_FILES)
def test_a_byte_order_mark_and_other_line_ends_change_nothing(tmp_path, name, file):
    files = SAMPLES[name].files
    changed = b"\xef\xbb\xbf" + files[file].replace(b"\n", b"\r\n")
    assert read_sample(tmp_path, Sample(name, {**files, file: changed})) == (4, 0)


def message_of(path, **options):
    with pytest.raises(DataError) as caught:
        list(iterate_documents(path, ReadOptions(**options), with_labels=True))
    return str(caught.value)


def zcat(content):
    """Decompress as far as the data goes."""
    return zlib.decompressobj(wbits=31).decompress(content)


def test_a_header_of_very_many_columns_is_refused_at_once(tmp_path):
    path = tmp_path / "wide.tsv"
    path.write_text("\t".join(f"c{i}" for i in range(200_000)) + "\n")
    started = time.perf_counter()
    with pytest.raises(DataError, match=r"wide\.tsv:1"):
        list(iterate_documents(path, with_labels=True))
    assert time.perf_counter() - started < 5


def test_a_fasttext_label_of_spaces_alone_is_refused(tmp_path):
    path = tmp_path / "train.fasttext"
    path.write_text("__label__\x1c text\n")
    with pytest.raises(DataError, match="has no name after it"):
        list(iterate_documents(path, with_labels=True))
