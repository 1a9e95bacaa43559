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
ODD_NAMES = {"parallel": "a_texts.txt", "xc": "trn.json", "pecos": "X.trn.txt"}
NAMES = {name: ODD_NAMES.get(name, f"a.{name}") for name in OUTPUT_FORMATS}
N_FILES = {"parallel": 2, "xc": 2, "pecos": 3}
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
    assert name not in ("jsonl", "parquet", "huggingface", "annif-jsonl")
    assert "\n" not in message


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("name", [name for name in OUTPUT_FORMATS if name not in ("parquet", "huggingface")])
def test_names_tell_the_format_and_the_packing(tmp_path, name, suffix):
    path = tmp_path / (NAMES[name] + suffix)
    told = name if name.startswith(("annif", "libmultilabel")) else None
    assert write_documents(DOCUMENTS, path, told) == 2
    assert read(path, told) == DOCUMENTS
    magic = {"": b"", ".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}[suffix]
    unpacked = ("Y.trn.npz", "output-items.txt")
    assert all(file.read_bytes().startswith(magic) for file in tmp_path.iterdir() if file.name not in unpacked)
    assert len(list(tmp_path.iterdir())) == N_FILES.get(name, 1)


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
    ("annif-csv", Document("1", "a", ("x y",)), "a label has a space"),
    ("annif-csv", Document("1", "a", ("x>",)), "the label has the character '>'"),
    ("annif-csv", Document("1\0", "a", ()), "the id has the character '\\x00'"),
    ("xc", Document("1", "a", (" x",)), "a label begins or ends with a space, got ' x'"),
    ("pecos", Document("1", "a\nb", ()), "the text has the character '\\n'"),
    ("pecos", Document("1", "a", ("x\r",)), "the label has the character '\\r'"),
    ("pecos", Document("x", "a", ()), "the format has no ids. Use --drop-ids"),
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
        ("a.txt", "pecos", "a.txt: the file of the texts must be named X.NAME.txt"),
    ],
)
def test_names_that_do_not_fit(tmp_path, monkeypatch, path, name, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError) as caught:
        write_documents(DOCUMENTS, path, name)
    assert str(caught.value).startswith(message)


def test_train_and_test_share_the_labels_of_the_repository(tmp_path):
    train = [Document("a", "t", ("x", "y"))]
    test = [Document("b", "u", ("z", "y"))]
    write_documents(train, tmp_path / "trn.json.gz")
    write_documents(test, tmp_path / "tst.json")
    assert read(tmp_path / "trn.json.gz", None) == train
    assert read(tmp_path / "tst.json", None) == test
    assert sorted(os.listdir(tmp_path)) == ["lbl.json.gz", "trn.json.gz", "tst.json"]


def test_labels_that_are_there_keep_their_lines(tmp_path):
    before = '{"uid": "A", "title": "same", "more": 1}\n{"uid": "B", "title": "same"}'
    (tmp_path / "lbl.json").write_text(before)
    documents = [Document("1", "t", ("same (B)", "new"))]
    write_documents(documents, tmp_path / "tst.json")
    assert (tmp_path / "lbl.json").read_text() == before + '\n{"uid": "2", "title": "new"}\n'
    assert read(tmp_path / "tst.json", None) == documents
    with pytest.raises(DataError, match=r"several labels in lbl.json share the title 'same'"):
        write_documents([Document("1", "t", ("same",))], tmp_path / "tst.json")
    assert read(tmp_path / "tst.json", None) == documents


def test_train_and_test_share_the_labels_of_pecos(tmp_path):
    train = [Document("1", "t", ("y", "x")), Document("2", "", ())]
    test = [Document("1", "u", ("x",))]
    write_documents(train, tmp_path / "X.trn.txt")
    write_documents(test, tmp_path / "X.tst.txt")
    assert read(tmp_path / "X.trn.txt", None) == train
    assert read(tmp_path / "X.tst.txt", None) == test
    with pytest.raises(DataError, match=r"the label 'z' is not in output-items.txt, .* write the part with all labels"):
        write_documents([Document("1", "u", ("z",))], tmp_path / "X.tst.txt")
    assert read(tmp_path / "X.tst.txt", None) == test


def test_a_matrix_without_names_is_left_alone(tmp_path):
    write_documents([Document("1", "t", ("x",))], tmp_path / "X.trn.txt")
    (tmp_path / "output-items.txt").unlink()
    with pytest.raises(DataError, match=r"X.tst.txt: Y.trn.npz is there without output-items.txt"):
        write_documents([Document("1", "t", ("x",))], tmp_path / "X.tst.txt")


def test_documents_without_any_label_have_no_names_in_pecos(tmp_path):
    write_documents([Document("1", "t", ("x",))], tmp_path / "X.trn.txt")
    write_documents([Document("1", "t", ())], tmp_path / "X.trn.txt")
    assert read(tmp_path / "X.trn.txt", None) == [Document("1", "t", ())]


def test_a_directory_is_written_once(tmp_path):
    path = tmp_path / "saved"
    assert write_documents(DOCUMENTS, path, "huggingface") == 2
    assert read(path, None) == DOCUMENTS
    assert sorted(os.listdir(path)) == ["data-00000-of-00001.arrow", "dataset_info.json", "state.json"]
    with pytest.raises(DataError, match=r"saved: is there already. Give the name of a new directory"):
        write_documents(DOCUMENTS, path, "huggingface")
    with pytest.raises(DataError, match="cannot be written: No such file or directory"):
        write_documents(DOCUMENTS, tmp_path / "absent" / "saved", "huggingface")

    def broken():
        yield DOCUMENTS[0]
        raise DataError("broken")

    with pytest.raises(DataError, match="broken"):
        write_documents(broken(), tmp_path / "new", "huggingface")
    assert os.listdir(tmp_path) == ["saved"]


def test_tables_are_easy_to_read_where_they_can_be(tmp_path):
    path = tmp_path / "a.csv"
    write_documents([Document("1", 'say "a", b', ("x", "y z")), Document("2", "t", ("a;b",))], path)
    assert path.read_text() == 'id,text,labels\n1,"say ""a"", b",x;y z\n2,t,"[""a;b""]"\n'
