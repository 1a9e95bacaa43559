"""What is written comes back the same, or is refused in one line that names the document."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haxmlnet.data import OUTPUT_FORMATS, Document, ReadOptions, iterate_documents, write_documents
from haxmlnet.errors import DataError, SettingError

ODD = st.text(st.sampled_from(list(" \t\n\r\v\f\0\"';,[]<>|\\ab0\ufeff\xa0\u2028é😀")), max_size=8) | st.sampled_from(
    ["__label__x", "a __label__b", "PAR1", "[]", "[a]", "null", "nan", "PK\x03\x04"]
)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | ODD
PLAIN = st.text(st.sampled_from("ab é:/"), min_size=1, max_size=8)
NAMES = {name: "a_texts.txt" if name == "parallel" else f"a.{name}" for name in OUTPUT_FORMATS}
DOCUMENTS = [Document("1", "first text", ("a", "b")), Document("2", "zweiter Täxt", ("é",))]


def read(path, name):
    return list(iterate_documents(path, ReadOptions(format=name), with_labels=True))


def lists_of_documents(texts):
    labels = st.lists(texts.filter(str.strip), unique=True, max_size=3).map(tuple)
    return st.lists(st.builds(Document, texts, texts, labels), min_size=1, max_size=4)


@pytest.mark.parametrize("name", OUTPUT_FORMATS)
@settings(max_examples=80, deadline=None)
@given(documents=lists_of_documents(ANY) | lists_of_documents(PLAIN))
def test_a_round_trip_loses_nothing(name, documents):
    if not OUTPUT_FORMATS[name].has_ids:
        documents = [document._replace(id=str(n)) for n, document in enumerate(documents, start=1)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, NAMES[name])
        try:
            n_written = write_documents(documents, path, name)
        except DataError as error:
            message = str(error)
        else:
            assert n_written == len(documents)
            assert read(path, name) == documents
            return
        assert os.listdir(folder) == []
    assert name not in ("jsonl", "parquet")
    assert "\n" not in message


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("name", [name for name in OUTPUT_FORMATS if name != "parquet"])
def test_names_tell_the_format_and_the_packing(tmp_path, name, suffix):
    path = tmp_path / (NAMES[name] + suffix)
    told = None if OUTPUT_FORMATS[name].suffixes else name
    assert write_documents(DOCUMENTS, path, told) == 2
    assert read(path, None if name not in ("libmultilabel", "annif-tsv") else name) == DOCUMENTS
    magic = {"": b"", ".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}[suffix]
    assert all(file.read_bytes().startswith(magic) for file in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == (2 if name == "parallel" else 1)


REFUSED = [
    ("fasttext", Document("1", "t", ("two words",)), "the label has the character ' ', got 'two words'"),
    ("fasttext", Document("1", "a\nb", ()), "the text has the character '\\n', got 'a\\nb'"),
    ("fasttext", Document("1", "a __label__b", ()), "the text has a word that begins with __label__"),
    ("fasttext", Document("1", "", ()), "the document has neither text nor labels"),
    ("fasttext", Document("x", "t", ()), "the format has no ids. Use --drop-ids"),
    ("libmultilabel", Document("1", "a\tb", ()), "the text has the character '\\t'"),
    ("libmultilabel", Document("1\t", "a", ()), "the id has the character '\\t'"),
    ("libmultilabel", Document("1", "a", ("x y",)), "a label has a space, which separates labels, got 'x y'"),
    ("annif-tsv", Document("1", "a", ("<x",)), "the label has the character '<'"),
    ("annif-tsv", Document("1", "a\tb", ()), "the text has the character '\\t'"),
    ("parallel", Document("1", "a", ("x\xa0y",)), "a label has a space"),
    ("parallel", Document("1", "\ufeffa", ()), "the line would begin like a file of another kind"),
    ("csv", Document("1", "a\0", ()), "the text has the character '\\x00'"),
]


@pytest.mark.parametrize(("name", "document", "reason"), REFUSED)
def test_what_a_format_cannot_hold_is_refused(tmp_path, monkeypatch, name, document, reason):
    monkeypatch.chdir(tmp_path)
    path = Path(NAMES[name])
    path.write_text("old")
    with pytest.raises(DataError) as caught:
        write_documents([document], path, name)
    message = str(caught.value)
    assert message.startswith(f"{path}: cannot hold document 1 with the id {document.id!r}: {reason}")
    assert message.endswith(".")
    assert (os.listdir(), path.read_text()) == ([str(path)], "old")


def test_ids_can_be_dropped(tmp_path):
    path = tmp_path / "a.fasttext"
    write_documents([document._replace(id="x") for document in DOCUMENTS], path, drop_ids=True)
    assert read(path, None) == DOCUMENTS


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        ("a.txt", None, "a.txt: the name does not tell the format. Use --to"),
        ("a.txt", "xml", "format must be one of jsonl"),
        ("a.txt", "parallel", "a.txt: the file of the texts must be named NAME_texts.txt"),
        ("a.parquet.gz", None, "a.parquet.gz: Parquet is compressed by itself"),
    ],
)
def test_names_that_do_not_fit(tmp_path, monkeypatch, path, name, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError) as caught:
        write_documents(DOCUMENTS, path, name)
    assert str(caught.value).startswith(message)


def test_tables_are_easy_to_read_where_they_can_be(tmp_path):
    path = tmp_path / "a.csv"
    write_documents([Document("1", 'say "a", b', ("x", "y z")), Document("2", "t", ("a;b",))], path)
    assert path.read_text() == 'id,text,labels\n1,"say ""a"", b",x;y z\n2,t,"[""a;b""]"\n'
