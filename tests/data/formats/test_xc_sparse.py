"""Sparse files: what is read, against scikit-learn and by construction, and what a malformed file is told."""

import gzip
import io
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from haxmlnet.data import ReadOptions, SkipReport, is_sparse, iterate_documents, read_features
from haxmlnet.data.formats import source as sources
from haxmlnet.errors import DataError, SettingError

OLD = "3 5 4\n1,3 0:0.5 4:1e-3\n 2:-1\n2 \n"
FEATURES = [[0.5, 0, 0, 0, 1e-3], [0, 0, -1, 0, 0], [0, 0, 0, 0, 0]]
TARGETS = [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0]]
NEW = {"trn_X_Xf.txt": "3 5\n0:0.5 4:1e-3\n2:-1\n\n", "trn_X_Y.txt": "3 4\n1:1 3:0.5\n\n2:1\n"}


def npz(matrix):
    stream = io.BytesIO()
    sp.save_npz(stream, sp.csr_matrix(np.array(matrix, np.float32)))
    return stream.getvalue()


def zstd(content):
    return pa.Codec("zstd").compress(content, asbytes=True)


# format: files, the first of which is read
READABLE = {
    "xc-sparse": {"amazon_train.txt": OLD},
    "xc-matrices": NEW,
    "pecos-npz": {"X.trn.npz": npz(FEATURES), "Y.trn.npz": npz(TARGETS)},
    "svmlight": {"a.svm": "1,3 0:0.5 4:1e-3\n2:-1\n2 # no features\n"},
}


def read(path, with_labels=True, report=None, **options):
    return read_features(path, ReadOptions(**options), with_labels=with_labels, report=report)


def message_of(path, **options):
    with pytest.raises(DataError) as caught:
        read(path, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", READABLE)
def test_each_form_is_read_and_recognised(write, name):
    path = write(READABLE[name])
    for told in (None, name):
        corpus = read(path, format=told)
        assert corpus.ids == ["1", "2", "3"]
        assert corpus.features.dtype == np.float32
        np.testing.assert_array_equal(corpus.features.toarray(), np.array(FEATURES, np.float32))
        np.testing.assert_array_equal(corpus.targets.toarray(), TARGETS)
        assert corpus.labels == [("1", "3"), (), ("2",)]
    assert is_sparse(path)
    assert is_sparse("-", ReadOptions(format=name))


@pytest.mark.parametrize("name", READABLE)
def test_prediction_needs_no_labels(write, name):
    files = READABLE[name]
    path = write({file: content for file, content in files.items() if "Y" not in file})
    corpus = read(path, with_labels=False)
    np.testing.assert_array_equal(corpus.features.toarray(), np.array(FEATURES, np.float32))
    assert corpus.targets.shape == (3, 0)


@pytest.mark.parametrize("name", [name for name in READABLE if name != "pecos-npz"])
@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd)])
@pytest.mark.parametrize("change", ["", "bom", "crlf", "no last end"])
def test_files_may_be_packed_and_have_a_mark_or_other_line_ends(write, name, suffix, pack, change):
    packed = {}
    for file, content in READABLE[name].items():
        content = content.replace("\n", "\r\n") if change == "crlf" else content
        content = content[:-1] if change == "no last end" and content[-2] not in " \n" else content
        packed[file + suffix] = pack((b"\xef\xbb\xbf" if change == "bom" else b"") + content.encode())
    corpus = read(write(packed))
    np.testing.assert_array_equal(corpus.features.toarray(), np.array(FEATURES, np.float32))
    np.testing.assert_array_equal(corpus.targets.toarray(), TARGETS)


def test_indices_need_no_order_and_labels_count_once(write):
    corpus = read(write({"a.txt": "2 5 4\n3, 1,3 4:1 0:2 2:0\n2 1:1\t2:+.5\n"}))
    assert corpus.labels == [("1", "3"), ("2",)]
    assert corpus.features.has_sorted_indices
    np.testing.assert_array_equal(corpus.features.toarray(), [[2, 0, 0, 0, 1], [0, 1, 0.5, 0, 0]])
    assert corpus.features.nnz == 4  # the zero is not kept


def test_blank_lines_are_documents_where_a_header_counts_them(write):
    corpus = read(write({"a.txt": "4 2 2\n1 0:1\n\n \n0 1:1\n\n\n"}))
    assert corpus.labels == [("1",), (), (), ("0",)]
    assert "says 3 documents, but 5 lines follow" in message_of(write({"a.txt": "3 2 2\n1 0:1\n\n0 1:1\n0 1:1\n\n"}))
    corpus = read(write({"a.svm": "1 0:1\n\n# nothing\n0 1:1\n"}))
    assert (corpus.ids, corpus.labels) == (["1", "2"], [("1",), ("0",)])


@pytest.mark.parametrize("name", ["Y.txt", "Yf.txt", "lbl.json"])
@pytest.mark.parametrize("form", ["xc-sparse", "xc-matrices"])
def test_names_of_labels_are_found_beside(write, name, form):
    lines = ["zero", "same", " same ", "three"]
    content = "".join(
        f'{{"uid": {i}, "title": "{line}"}}\n' if "json" in name else f"{line}\n" for i, line in enumerate(lines)
    )
    corpus = read(write({**READABLE[form], name: content}))
    assert corpus.labels == [("same (1)", "three"), (), ("same (2)",)]
    shorter = content[: content.rindex("three") - (content[-2] == "}") * 21]
    path = write({**READABLE[form], name: shorter})
    if name == "Yf.txt":
        assert read(path).label_names is None  # in other data sets it holds something else
    else:
        assert message_of(path).startswith(f"{name}: expected 4 names of labels, one a line, got 3.")


def test_the_matrix_of_pecos_may_lie_a_folder_below_its_labels(write, tmp_path):
    write({
        "tfidf-attnxml/X.trn.npz": npz(FEATURES), "Y.trn.npz": npz(TARGETS), "output-items.txt": "a\nb\nc\nd\n",
        "X.trn.txt": "a text\nanother\nlast\n",
    })  # fmt: skip
    assert read(tmp_path).labels == [("b", "d"), (), ("c",)]
    assert read("tfidf-attnxml/X.trn.npz").labels == [("b", "d"), (), ("c",)]
    assert not is_sparse(tmp_path)
    assert [d.labels for d in iterate_documents(tmp_path, with_labels=True)] == [("b", "d"), (), ("c",)]


def test_features_may_be_counted_from_one(write):
    path = write({"a.svm": "7 1:5 3:6\n"})
    np.testing.assert_array_equal(read(path).features.toarray(), [[0, 5, 0, 6]])
    np.testing.assert_array_equal(read(path, first_index=1).features.toarray(), [[5, 0, 6]])
    message = message_of(write({"a.svm": "7 1:5\n7 0:5\n"}), first_index=1)
    assert message.startswith("a.svm:2: features are numbered from 1 to")
    with pytest.raises(SettingError, match="first_index must be 0 or 1, got 2"):
        ReadOptions(first_index=2)


def test_features_that_training_lacks_do_not_count(write):
    path = write({"a.svm": "7 1:5 3:6\n"})
    np.testing.assert_array_equal(read(path).with_n_features(2).features.toarray(), [[0, 5]])
    np.testing.assert_array_equal(read(path).with_n_features(6).features.toarray(), [[0, 5, 0, 6, 0, 0]])
    corpus = read(write({"a.txt": OLD}))
    assert corpus.with_n_features(5) is corpus
    with pytest.raises(DataError, match=r"a.txt: expected 6 features, as in training, got 5. Give"):
        corpus.with_n_features(6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 9), max_size=4, unique=True),
            st.dictionaries(
                st.integers(0, 30), st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=5
            ),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["{!r}", "{:.9g}", "{:.3f}", "{:e}", "{:+.12E}"]),
)
def test_scikit_learn_reads_the_same(rows, form):
    lines = [
        ",".join(map(str, labels)) + " " + " ".join(f"{i}:{form.format(v)}" for i, v in sorted(features.items()))
        for labels, features in rows
    ]
    content = "\n".join(lines).encode()
    n_features = max(max(features) for _, features in rows) + 1
    theirs, labels = load_svmlight_file(io.BytesIO(content), multilabel=True, zero_based=True, n_features=n_features)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.svm")
        path.write_bytes(content)
        corpus = read(path)
    np.testing.assert_array_equal(corpus.features.toarray(), theirs.toarray().astype(np.float32))
    assert [sorted(map(int, row)) for row in corpus.labels] == [sorted(map(int, row)) for row in labels]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_blocks_of_any_size_give_the_same(write, monkeypatch, size):
    whole = read(write({"a.txt": OLD}))
    monkeypatch.setattr(sources, "BLOCK_SIZE", size)
    parts = read("a.txt")
    assert (parts.features != whole.features).nnz == 0
    assert (parts.targets != whole.targets).nnz == 0
    with sources.open_source("a.txt") as source:
        blocks = list(source.blocks())
    assert b"".join(block for _, block in blocks).decode() == OLD
    assert all(block.endswith(b"\n") for _, block in blocks)
    assert [first for first, _ in blocks] == [
        1 + OLD.encode().count(b"\n", 0, OLD.encode().index(b)) for _, b in blocks
    ]


# name of the first file: files, the message
MALFORMED = [
    ({"a.txt": "x 5 4\n1 0:1\n"}, "xc-sparse", "a.txt:1: the first line must say how many documents, features, labels"),
    ({"a.txt": "3 5\n1 0:1\n"}, "xc-sparse", "a.txt:1: the first line must say how many documents, features, labels"),
    ({"a.txt": "-3 5 4\n1 0:1\n"}, "xc-sparse", "a.txt:1: the first line must say how many"),
    ({"a.txt": "1 99999999999999 4\n1 0:1\n"}, "xc-sparse", "a.txt:1: the first line must say how many documents, fe"),
    ({"a.txt": "2 5 4\n1 0:1\n"}, None, "a.txt: the first line says 2 documents, but 1 lines follow. Fix"),
    ({"a.txt": "1 5 4\n1 0:1\n1 0:1\n"}, None, "a.txt: the first line says 1 documents, but 2 lines follow. Fix"),
    ({"a.txt": "1 5 4\n"}, "xc-sparse", "a.txt: the first line says 1 documents, but 0 lines follow."),
    ({"a.txt": "0 5 4\n"}, "xc-sparse", "a.txt: the file has no document."),
    ({"a.txt": "1 5 4\n4 0:1\n"}, None, "a.txt:2: labels are numbered from 0 to 3, got '4'. Fix"),
    ({"a.txt": "1 5 4\n1 5:1\n"}, None, "a.txt:2: features are numbered from 0 to 4, got '5:1'. Fix"),
    ({"a.txt": "1 5 4\n1 99999999999999999999:1\n"}, None, "a.txt:2: features are numbered from 0 to 4, got '9999"),
    ({"a.txt": "2 5 4\n1 0:1\n1;2 0:1\n"}, None, "a.txt:3: labels must be integers with commas between them, got"),
    ({"a.txt": "1 5 4\n-1 0:1\n"}, "xc-sparse", "a.txt:2: labels must be integers with commas between them, got"),
    ({"a.txt": "1 5 4\n1, 0:1\n"}, None, "a.txt:2: labels must be integers with commas between them, got '0:1'"),
    ({"a.txt": "1 5 4\n1.5 0:1\n"}, "xc-sparse", "a.txt:2: labels must be integers with commas between them, got"),
    ({"a.txt": "1 5 4\n1 0=1\n"}, "xc-sparse", "a.txt:2: expected feature:value with an integer before the colon,"),
    ({"a.txt": "1 5 4\n1 0:1 word\n"}, None, "a.txt:2: expected feature:value with an integer before the colon, g"),
    ({"a.txt": "1 5 4\n1 0:1 -1:2\n"}, None, "a.txt:2: expected feature:value with an integer before the colon, g"),
    ({"a.txt": "1 5 4\n1 0:1 2:\n"}, None, "a.txt:2: expected feature:value with an integer before the colon, got"),
    ({"a.txt": "1 5 4\n1 0 1\n"}, "xc-sparse", "a.txt:2: expected feature:value with an integer before the colon,"),
    ({"a.txt": "1 5 4\n1 0:nan\n"}, None, "a.txt:2: the value of a feature must be a finite number, got '0:nan'. Fix"),
    ({"a.txt": "1 5 4\n1 0:1 1:-inf\n"}, None, "a.txt:2: the value of a feature must be a finite number, got '1:-inf'"),
    ({"a.txt": "1 5 4\n1 0:1e39\n"}, None, "a.txt:2: the value of a feature must be a finite number, got '0:1e39'."),
    ({"a.txt": "1 5 4\n1 0:1,5\n"}, None, "a.txt:2: the value of a feature must be a finite number, got '0:1,5'."),
    ({"a.txt": "1 5 4\n1 0:1 0:2\n"}, None, "a.txt:2: a feature is there twice, got '0:2'. Leave one out."),
    ({"a.txt": "1 5 4\n1 3:1 0:2 3:1\n"}, None, "a.txt:2: a feature is there twice, got '3:1'. Leave one out."),
    ({"a.txt": b"1 5 4\n1 0:1\0\n"}, None, "a.txt: the file is binary (it has NUL bytes)"),
    ({"a.txt": "1 5 4\n1 0:1\n".encode("utf-16")}, None, "a.txt: the file is UTF-16 text"),
    ({"a.txt": b"1 5 4\n1 0:1 1:\xff\n"}, None, "a.txt:2: the value of a feature must be a finite number, got '1:"),
    ({"a.txt.gz": gzip.compress(OLD.encode())[:-4]}, None, "a.txt.gz:4: the gzip data ends too early after this line."),
    ({"a.txt.gz": gzip.compress(b"9 5 4\n" + b"1 0:1\n" * 9)[:-12]}, "xc-sparse", "a.txt.gz:"),
    ({"a.txt.zst": zstd(OLD.encode())[:-6]}, "xc-sparse", "a.txt.zst:0: the zstd data ends too early"),
    ({"a.txt": b"BZh91AY&SY" + b"\0" * 9}, None, "a.txt: the file is a bzip2 archive, got b'BZh91AY&SY' at its start."),
    ({"a.svm": "1,2 qid:3 1:2\n"}, None, "a.svm:1: expected feature:value with an integer before the colon, got '"),
    ({"a.svm": "# nothing\n"}, None, "a.svm: the file has no document."),
    ({"trn_X_Xf.txt": "1 5\n0:1\n"}, None, "trn_X_Xf.txt: there is no trn_X_Y.txt beside it, where the labels"),
    ({"trn_X_Y.txt": "1 5\n0:1\n"}, None, "trn_X_Y.txt: not the file of the features. Give NAME_X_Xf.txt, with"),
    ({"a.txt": "1 5\n0:1\n"}, "xc-matrices", "a.txt: not the file of the features. Give NAME_X_Xf.txt, with"),
    ({"trn_X_Xf.txt": "1 5 4\n0:1\n"}, None, "trn_X_Xf.txt:1: the first line must say how many documents, features th"),
    ({**NEW, "trn_X_Y.txt": "2 4\n1:1\n\n"}, None,
     "trn_X_Xf.txt: 3 rows of features, but 2 rows of labels in trn_X_Y.txt. Give"),
    ({**NEW, "trn_X_Y.txt": "3 4\n1:1\n\n"}, None, "trn_X_Y.txt: the first line says 3 documents, but 2 lines follow."),
    ({**NEW, "trn_X_Y.txt": "3 4\n1:1\n\n4:1\n"}, None, "trn_X_Y.txt:4: labels are numbered from 0 to 3, got '4:1'."),
    ({**NEW, "trn_X_Y.txt": "3 4\n1:1\n\n2:1 3:-1\n"}, None, "trn_X_Y.txt:4: the value of a label must be positive, g"),
    ({**NEW, "trn_X_Y.txt": "3 4\n1,3\n\n2:1\n"}, None, "trn_X_Y.txt:2: expected label:value with an integer befo"),
    ({"X.trn.npz": npz(FEATURES)}, None, "X.trn.npz: there is no Y.trn.npz beside it or above it, where the labels"),
    ({"X.trn.npz": npz(FEATURES), "Y.trn.npz": npz(TARGETS[:2])}, None,
     "X.trn.npz: 3 rows of features, but 2 rows of labels in Y.trn.npz. Give"),
    ({"X.trn.npz": npz(FEATURES), "Y.trn.npz": npz(TARGETS), "output-items.txt": "a\nb\nc\n"}, None,
     "output-items.txt: expected 4 different names, one a line, got 3. Fix"),
    ({"Y.trn.npz": npz(TARGETS)}, None, "Y.trn.npz: not the file of the features. Give X.NAME.npz, with the labels in"),
    ({"X.trn.npz": npz(FEATURES)[:-30]}, None, "X.trn.npz: not a sparse matrix as scipy saves it ("),
    ({"X.trn.npz": npz([[np.nan]]), "Y.trn.npz": npz([[1]])}, None,
     "X.trn.npz: the value nan in row 1, column 1 is no finite number. Fix"),
    ({"X.trn.npz": npz(FEATURES), "Y.trn.npz": npz([[0], [-1], [0]])}, None,
     "Y.trn.npz: the value -1.0 in row 2, column 1 is negative. Labels"),
    ({"a.jsonl": '{"text": "t", "labels": []}\n'}, None, "a.jsonl: the file has texts, not features. Read it as"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "form", "message"), MALFORMED, ids=lambda value: str(value)[:40])
def test_malformed_files_are_told_where_and_what(write, files, form, message):
    shown = message_of(write(files), format=form)
    assert shown.startswith(message)
    assert "\n" not in shown
    assert len(shown) < 250
    assert shown.endswith(".")


def test_bad_rows_are_skipped_if_asked(write):
    report = SkipReport()
    corpus = read(write({"a.txt": "4 5 4\n1 0:1\n1 0:x\n9 1:1\n2 1:1\n"}), on_error="skip", report=report)
    assert (corpus.ids, corpus.labels, corpus.n_skipped) == (["1", "4"], [("1",), ("2",)], 2)
    assert [message.split(": ")[0] for message in report.messages] == ["a.txt:3", "a.txt:4"]
    corpus = read(
        write({"trn_X_Xf.txt": "3 5\n0:1\n0:x\n1:1\n", "trn_X_Y.txt": "3 4\n1:1\n2:1\n3:x\n"}), on_error="skip"
    )
    assert (corpus.ids, corpus.labels) == (["1"], [("1",)])
    message = message_of(write({"a.txt": "2 5 4\n1 0:x\n9 1:1\n"}), on_error="skip")
    assert message.startswith("a.txt: none of 2 documents can be used. The first: a.txt:2: the value")


@pytest.mark.parametrize("name", READABLE)
def test_commands_for_texts_say_what_to_do(write, name):
    with pytest.raises(DataError) as caught:
        list(iterate_documents(write(READABLE[name]), with_labels=True))
    first = next(iter(READABLE[name]))
    assert str(caught.value).startswith(f"{first}: the file has features, not texts, which neural methods need.")
    assert "--method LinearTree" in str(caught.value)


def test_standard_input_must_be_told(monkeypatch):
    for given_format, content in (("xc-sparse", OLD), ("svmlight", READABLE["svmlight"]["a.svm"])):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(content.encode()))))
        assert read("-", format=given_format).labels == [("1", "3"), (), ("2",)]
    assert not is_sparse("-")
    for given_format in ("xc-matrices", "pecos-npz"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1 5\n0:1\n")))
        assert message_of("-", format=given_format).startswith("<stdin>: not the file of the features. Give")


@pytest.mark.parametrize("content", ["12:30 lunch\n", "7 8 9\nthree numbers\n", "10:15\n", "1 2 3 4\n", "5 at 6:30\n"])
def test_texts_with_numbers_are_texts(write, content):
    path = write({"a.txt": content})
    assert not is_sparse(path)
    assert len(list(iterate_documents(path, with_labels=False))) == content.count("\n")


@pytest.mark.parametrize("content", ["1 2 3\n1,2,3 0:0.5\n", "1 2 3\n 0:1\n", "1 2 3\n\n", "9 3 2\n1 \n", " 5:1 7:2\n"])
def test_sparse_files_are_known_by_their_start(write, content):
    assert is_sparse(write({"a.txt": content}))
