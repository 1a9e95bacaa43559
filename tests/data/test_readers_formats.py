"""The formats of other tools: what is read, how it is recognised, and what a malformed file is told."""

import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from haxmlnet.data import Corpus, Document, ReadOptions, iterate_documents
from haxmlnet.data.formats.source import open_source
from haxmlnet.errors import DataError, SettingError

EXPECTED = [Document("1", "first text", ("a", "b")), Document("2", "zweiter Täxt", ())]
URIS = [Document("1", "first text", ("http://x/a", "http://x/b")), Document("2", "zweiter Täxt", ())]
XC_LABELS = '{"uid": "A", "title": "a"}\n{"uid": "B", "title": "same"}\n{"uid": "C", "title": "same"}\n'


def npz(rows, n_columns=2, **options):
    stream = io.BytesIO()
    starts = np.cumsum([0, *map(len, rows)])
    columns = [column for row in rows for column in row]
    sp.save_npz(stream, sp.csr_matrix((np.ones(len(columns)), columns, starts), (len(rows), n_columns)), **options)
    return stream.getvalue()


def parquet(**columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, write_page_checksum=True)
    return stream.getvalue()


def zstd(content, cut=None):
    return pa.Codec("zstd").compress(content, asbytes=True)[:cut]


def xc_line(uid, indices, **more):
    return json.dumps({"uid": uid, "title": "T", "content": "C", "target_ind": indices, **more}) + "\n"


TEXTS = "first text\nzweiter Täxt\n"
# format: files, the first of which is read; is it recognised without --format; documents
READABLE = {
    "parquet": ({"a.parquet": parquet(text=["first text", "zweiter Täxt"], labels=[["a", "b"], []])}, True, EXPECTED),
    "parallel": ({"train_texts.txt": TEXTS, "train_labels.txt": "a b\n\n"}, True, EXPECTED),
    "pecos": ({"X.trn.txt": TEXTS, "Y.trn.npz": npz([[0, 1], []]), "output-items.txt": "a\nb\n"}, True, EXPECTED),
    "libmultilabel": ({"a.txt": "a b\tfirst text\n\tzweiter Täxt\n"}, False, EXPECTED),
    "fasttext": ({"a.txt": "__label__a __label__b first text\nzweiter Täxt\n"}, True, EXPECTED),
    "annif-tsv": ({"a.tsv": "first text\t<http://x/a> <http://x/b>\nzweiter Täxt\t\n"}, True, URIS),
    "annif-csv": (
        {"a.csv": "text,subject_uris\nfirst text,<http://x/a> http://x/b\nzweiter Täxt,\n"}, True, URIS,
    ),
    "annif-jsonl": (
        {"a.jsonl": '{"text": "first text", "subjects": [{"uri": "http://x/a", "label": "A"}, "<http://x/b>"]}\n'
                    '{"text": "zweiter Täxt", "subjects": []}\n'}, True, URIS,
    ),
    "xc": (
        {"trn.json": xc_line("d1", [0, 2]) + xc_line("d2", []), "lbl.json": XC_LABELS}, True,
        [Document("d1", "T\nC", ("a", "same (C)")), Document("d2", "T\nC", ())],
    ),
}  # fmt: skip


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write files into the working directory and name the first."""
    monkeypatch.chdir(tmp_path)

    def write_files(files):
        for name, content in files.items():
            Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return next(iter(files))

    return write_files


def read(path, with_labels=True, **options):
    return list(iterate_documents(path, ReadOptions(**options), with_labels=with_labels))


def message_of(path, **options):
    with pytest.raises(DataError) as caught:
        read(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", READABLE)
def test_each_format_is_read_by_its_name(write, name):
    files, is_recognised, documents = READABLE[name]
    path = write(files)
    assert read(path, format=name) == documents
    if is_recognised:
        assert read(path) == documents
    assert read(path, with_labels=False, format=name) == [document._replace(labels=()) for document in documents]


@pytest.mark.parametrize("name", [name for name in READABLE if name != "parquet"])
@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd)])
@pytest.mark.parametrize("change", ["", "bom", "crlf"])
def test_texts_may_be_packed_and_have_a_mark_or_other_line_ends(write, name, suffix, pack, change):
    files, is_recognised, documents = READABLE[name]
    packed = {}
    for file, content in files.items():
        if isinstance(content, bytes):
            packed[file] = content
            continue
        content = content.replace("\n", "\r\n") if change == "crlf" else content
        packed[file + suffix] = pack((b"\xef\xbb\xbf" if change == "bom" else b"") + content.encode())
    assert read(write(packed), format=None if is_recognised else name) == documents


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


def test_fasttext_labels_stand_anywhere_and_spaces_are_kept(write):
    path = write({"a.txt": "__label__a  two  spaces\nlate text __label__b more\nnone here\n\n"})
    assert read(path, format="fasttext") == [
        Document("1", " two  spaces", ("a",)), Document("2", "late text more", ("b",)), Document("3", "none here", ()),
    ]  # fmt: skip


def test_libmultilabel_may_have_ids(write):
    path = write({"a.txt": "d1\ta b a\tt\n\nd2\t\tu\n\t\t\n"})
    assert read(path, format="libmultilabel") == [
        Document("d1", "t", ("a", "b")),
        Document("d2", "u", ()),
        Document("", "", ()),
    ]


def test_annif_tables_may_have_ids(write):
    path = write({"a.csv": 'document_id,text,subject_uris\nd1,"a, b",<u> <u>\n'})
    assert read(path) == [Document("d1", "a, b", ("u",))]
    path = write({"a.jsonl": '{"document_id": "d1", "text": "t", "subjects": [{"label": "L"}]}\n'})
    assert read(path) == [Document("d1", "t", ("L",))]


def test_an_id_field_of_ones_own_is_not_replaced(write):
    path = write({"trn.json": xc_line("d1", [])})
    assert "there is no 'nr'" in message_of(path, id_field="nr")
    path = write({"a.csv": "document_id,text,subject_uris\nd1,t,u\n"})
    assert "there is no 'nr'" in message_of(path, id_field="nr")


def test_parquet_columns_may_have_dots(write):
    path = write({"a.parquet": parquet(**{"a.b": ["t"], "c.d": [["x"]]})})
    assert read(path, text_field="a.b", label_field="c.d") == [Document("1", "t", ("x",))]


def test_a_label_field_of_ones_own_wins(write):
    path = write({"a.jsonl": '{"text": "t", "labels": ["x"], "subjects": ["s"], "target_ind": [1]}\n'})
    assert read(path)[0].labels == ("x",)
    assert read(path, label_field="subjects")[0].labels == ("s",)


def test_xc_without_label_file_and_with_titles_only(write):
    long_text = "w " * 10_000  # the field that tells the format stands far behind
    path = write({"any.json": json.dumps({"uid": 5, "title": long_text, "target_ind": [3, 1], "target_rel": [1, 1]})})
    (document,) = read(path)
    assert (document.id, document.text.strip(), document.labels) == ("5", long_text.strip(), ("3", "1"))


def test_a_directory_stands_for_its_train_or_test_file(write, tmp_path):
    write({"trn.json.gz": gzip.compress(xc_line("d1", [0]).encode()), "tst.json": xc_line("d2", [1]),
           "lbl.json.zst": zstd(XC_LABELS.encode())})  # fmt: skip
    assert read(tmp_path) == [Document("d1", "T\nC", ("a",))]
    assert read(tmp_path, split="test") == [Document("d2", "T\nC", ("same (B)",))]
    assert Corpus.read(tmp_path).source == str(tmp_path / "trn.json.gz")


def test_a_split_is_train_or_test():
    with pytest.raises(SettingError, match="split must be 'train' or 'test', got 'dev'"):
        ReadOptions(split="dev")


def test_a_first_line_that_was_looked_at_is_given_once(write):
    with open_source(write({"a.txt": TEXTS})) as source:
        assert source.first_line() == source.first_line() == b"first text\n"
        assert [number for number, _ in source.lines()] == [1, 2]
        assert list(source.lines()) == []


def test_raw_texts_are_preferred_in_a_directory(write, tmp_path):
    write({"train_texts.txt": "stemmed\n", "train_raw_texts.txt": "Raw\n", "train_labels.txt": "a\n"})
    assert read(tmp_path) == [Document("1", "Raw", ("a",))]


def test_a_directory_with_two_choices_is_refused(write, tmp_path):
    write({"train.csv": "text,labels\nt,x\n", "train_texts.txt": "t\n", "train_labels.txt": "y\n"})
    assert message_of(tmp_path).endswith("holds train.csv and train_texts.txt. Give one of the files, or --format.")
    assert read(tmp_path, format="parallel")[0].labels == ("y",)


LONG = "word " * 5_000
BAD_CSR = npz([[0], [1]], n_columns=2, compressed=False)
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
    ("parallel", {"a_texts.txt": TEXTS, "a_labels.txt": "x\n"},
     "a_texts.txt: 2 texts, but 1 rows of labels in a_labels.txt. Give"),
    ("parallel", {"a_texts.txt": TEXTS, "a_labels.txt": "x\n" * 5},
     "a_texts.txt: 2 texts, but 5 rows of labels in a_labels.txt. Give"),
    ("parallel", {"a_texts.txt": TEXTS}, "a_texts.txt: there is no a_labels.txt beside it, where the labels"),
    ("parallel", {"a.txt": TEXTS}, "a.txt: cannot tell the file of the labels. Name the files NAME_texts.txt"),
    ("parallel", {"a_texts.txt": TEXTS, "a_labels.txt": b"x\n\xff\n"}, "a_labels.txt:2: not UTF-8 at byte 1"),
    ("parallel", {"a_texts.txt": b"t\n\xff\n", "a_labels.txt": b"x\ny\n"}, "a_texts.txt:2: not UTF-8 at byte 1"),
    ("parallel", {"a_texts.txt": TEXTS, "a_labels.txt": ""}, "a_labels.txt: the file is empty."),
    ("parallel", {"a_texts.txt": TEXTS, "a_labels.txt.gz": gzip.compress(b"x\ny\n")[:-3]},
     "a_labels.txt.gz:2: the gzip data ends too early"),
    ("pecos", {"X.trn.txt": TEXTS}, "X.trn.txt: there is no Y.trn.npz beside it"),
    ("pecos", {"a.txt": TEXTS}, "a.txt: cannot tell the file of the labels. Name the files X.NAME.txt and Y.NAME.npz"),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": npz([[0]])}, "X.trn.txt: 2 texts, but 1 rows of labels in Y.trn.npz."),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": npz([[0]] * 3)}, "X.trn.txt: 2 texts, but 3 rows of labels in Y.trn"),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": b"no archive"}, "Y.trn.npz: not a sparse matrix as scipy saves it ("),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": BAD_CSR[: len(BAD_CSR) // 2]}, "Y.trn.npz: not a sparse matrix as"),
    ("pecos", {"X.trn.txt": TEXTS, "Y.trn.npz": npz([[0], [1]]), "output-items.txt": "a\n"},
     "output-items.txt: expected 2 different names, one a line, got 1. Mend"),
    ("libmultilabel", {"a.txt": "a b\tt\nx\n"}, "a.txt:2: expected 2 columns, as in the first line, got 1 in 'x'. Wr"),
    ("libmultilabel", {"a.txt": "a\tt\na\tt\tu\n"}, "a.txt:2: expected 2 columns, as in the first line, got 3"),
    ("libmultilabel", {"a.txt": "a b t\n"}, "a.txt:1: expected 2 or 3 columns, got 1 in 'a b t'. Write"),
    ("fasttext", {"a.txt": "__label__a t\n__label__ t\n"}, "a.txt:2: '__label__' has no name after it, got"),
    ("fasttext", {"a.txt": b"__label__a t\n__label__\xff t\n"}, "a.txt:2: not UTF-8 at byte 10"),
    ("annif-tsv", {"a.tsv": "t\t<u>\nno tab\n"}, "a.tsv:2: there is no tab, got 'no tab'. Write"),
    ("annif-tsv", {"a.tsv": "t\t<u> <>\n"}, "a.tsv:1: there is an empty <>, got '<u> <>'. Leave"),
    ("annif-csv", {"a.csv": "text,subjects\nt,<u>\n"}, "a.csv:1: there is no 'subject_uris', got the fields"),
    ("annif-csv", {"a.csv": "text,subject_uris\nt\n"}, "a.csv:2: the header has 2 columns, got 1 in ['t']. Put"),
    ("annif-jsonl", {"a.jsonl": '{"text": "t", "subjects": [{"x": 1}]}'}, "a.jsonl:1: a subject needs a 'uri' or a"),
    ("annif-jsonl", {"a.jsonl": '{"text": "t", "subjects": "s"}'}, "a.jsonl:1: 'subjects' must be a list of strings"),
    ("annif-jsonl", {"a.jsonl": '{"text": "t"}'}, "a.jsonl:1: there is no 'subjects', got the fields ['text']. Use"),
    ("xc", {"trn.json": xc_line("d", [0]) + xc_line("d", [3]), "lbl.json": XC_LABELS},
     "trn.json:2: 'target_ind' has the label 3, but lbl.json ends with 2. Use"),
    ("xc", {"trn.json": xc_line("d", [-1]), "lbl.json": XC_LABELS}, "trn.json:1: 'target_ind' must hold whole numbers"),
    ("xc", {"trn.json": xc_line("d", ["0"])}, "trn.json:1: 'target_ind' must hold whole numbers from 0, but one is '"),
    ("xc", {"trn.json": xc_line("d", [True])}, "trn.json:1: 'target_ind' must hold whole numbers from 0, but one is T"),
    ("xc", {"trn.json": xc_line("d", "0")}, "trn.json:1: 'target_ind' must be a list of whole numbers, got '0'. Write"),
    ("xc", {"trn.json": xc_line("d", [0], target_rel=[])}, "trn.json:1: 'target_ind' has 1 values and 'target_rel'"),
    ("xc", {"trn.json": '{"uid": 1, "title": "t"}'}, "trn.json:1: there is no 'target_ind', got the fields"),
    ("xc", {"trn.json": xc_line("d", [0]), "lbl.json": '{"title": "a"}\n{"title": 5}\n'},
     "lbl.json:2: 'title' must be a string, got 5. Mend"),
    ("xc", {"trn.json": xc_line("d", [0]), "lbl.json": '{"title": "a"}\n\n'}, "lbl.json:2: not JSON at column"),
    ("xc", {"trn.json": xc_line("d", [0]), "lbl.json": '{"uid": 1, "title": "a"}\n' * 2},
     "lbl.json: 2 labels have the title and uid 'a (1)'. Give"),
    ("xc", {"trn.json": xc_line("d", [0]), "lbl.json": '{"title": "\\ud800"}\n'}, "lbl.json:1: half a surrogate pair"),
    ("fasttext", {"a.zst": zstd(b"__label__a t\n" * 50_000, -9)}, "a.zst:"),
    ("fasttext", {"a.zst": zstd(b"__label__a t\n", 9)}, "a.zst:0: the zstd data ends too early after this line. Copy"),
    ("fasttext", {"a.zst": b"\x28\xb5\x2f\xfd junk and more junk"}, "a.zst:0: the zstd data is damaged after"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "files", "message"), MALFORMED, ids=lambda value: str(value)[:30])
def test_malformed_files_are_told_where_and_what(write, name, files, message):
    shown = message_of(write(files), format=name)
    assert shown.startswith(message)
    assert "\n" not in shown
    assert len(shown) < 250
    assert shown.endswith(".")


def test_a_packed_table_in_a_pipe_is_refused(monkeypatch):
    content = parquet(text=["t"], labels=[["x"]])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert message_of("-").startswith("<stdin>: Parquet is read from its end, which a pipe does not have.")


def test_indices_beyond_the_matrix_are_refused(write):
    matrix = sp.csr_matrix((np.ones(2), [0, 1], [0, 1, 2]), (2, 2))
    matrix.indices[1] = 7
    stream = io.BytesIO()
    sp.save_npz(stream, matrix)
    assert "not a sparse matrix" in message_of(write({"X.trn.txt": TEXTS, "Y.trn.npz": stream.getvalue()}))
