"""Data sets of the paper, as they are published: a directory is all that a user has to name."""

import gzip
import io
import json

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.data import Document, ReadOptions, find_file, is_sparse, iterate_documents, read_features
from haxmlnet.data.filters import filter_pairs
from haxmlnet.data.formats.recognition import find_features
from haxmlnet.errors import DataError, SettingError

TEST = ReadOptions(split="test")


def json_lines(records):
    return gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode())


def npz(matrix):
    stream = io.BytesIO()
    sp.save_npz(stream, sp.csr_matrix(np.array(matrix, np.float32)), compressed=False)
    return stream.getvalue()


def product(uid, title, content, labels):
    return {"uid": uid, "title": title, "content": content, "target_ind": labels, "target_rel": [1.0] * len(labels)}


# The raw texts of the Extreme Classification Repository, with the newer sparse files and the filters beside them.
REPOSITORY = {
    "trn.json.gz": json_lines([
        product("B000027DSX", "Voice of the Sea", "A recording of waves.", [2, 0]),
        product("0007377053", "Crafting with Paper", "", [1]),
    ]),
    "tst.json.gz": json_lines([product("0312364725", "Mrs. O'Leary's Comet", "Cosmic causes of fire.", [2, 1])]),
    "lbl.json.gz": json_lines([
        {"uid": "A1", "title": "Voices of the Wind"}, {"uid": "B2", "title": "Paper"}, {"uid": "C3", "title": "Paper"},
    ]),
    "filter_labels_train.txt": "",
    "filter_labels_test.txt": "0 1\n",
    "trn_X_Xf.txt": "2 4\n0:0.084556 3:0.5\n1:0.138594\n",
    "trn_X_Y.txt": "2 3\n0:1.0 2:1.0\n1:1.0\n",
    "tst_X_Xf.txt": "1 4\n2:1\n",
    "tst_X_Y.txt": "1 3\n1:1.0 2:1.0\n",
    "Xf.txt": "sea\npaper\nfire\nwave\n",
}  # fmt: skip

# The download of AttentionXML: texts, labels and the sparse file from which it builds its label tree.
ATTENTION_XML = {
    "train_raw_texts.txt": "Voice of the Sea /SEP/ A recording of waves; 60 minutes.\nCrafting with Paper /SEP/\n",
    "train_labels.txt": "171 528\n4\n",
    "test_raw_texts.txt": "Mrs. O'Leary's Comet /SEP/ Cosmic causes of fire.\n",
    "test_labels.txt": "528 9\n",
    "train_texts.txt": "voice of the sea\ncraft with paper\n",
    "test_texts.txt": "mrs. o'leary 's comet\n",
}
ATTENTION_XML_SPARSE = "171,528 0:0.084556 135908:0.5\n4 17:0.138594 18:0.2\n"

# The download of PECOS keeps the features in a directory of their own.
PECOS = {
    "X.trn.txt": "Voice of the Sea\nCrafting with Paper\n",
    "X.tst.txt": "Mrs. O'Leary's Comet\n",
    "Y.trn.npz": npz([[1, 0, 1], [0, 1, 0]]),
    "Y.tst.npz": npz([[0, 1, 1]]),
    "output-items.txt": "Voices of the Wind\nPaper\nFire\n",
    "tfidf-attnxml/X.trn.npz": npz([[0.5, 0], [0, 0.25]]),
    "tfidf-attnxml/X.tst.npz": npz([[0.5, 0.5]]),
}

# The older sparse download: a header, then labels and features; a document may have no label.
OLD_TRAIN = "3 135909 670091\n171,528 0:0.084556 135908:0.5\n4 17:0.138594\n 99:1.000000\n"
OLD_TEST = "1 135909 670091\n670090 1:2.5\n"


@pytest.fixture
def write(tmp_path):
    def write_files(files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path

    return write_files


def read(path, options=None):
    return list(iterate_documents(path, options or ReadOptions(), with_labels=True))


def test_raw_texts_of_the_repository(write):
    path = write(REPOSITORY)
    assert read(path) == [
        Document("B000027DSX", "Voice of the Sea\nA recording of waves.", ("Paper (C3)", "Voices of the Wind")),
        Document("0007377053", "Crafting with Paper\n", ("Paper (B2)",)),
    ]
    assert read(path, TEST)[0].labels == ("Paper (C3)", "Paper (B2)")
    assert find_file(path, ReadOptions()).name == "trn.json.gz"
    assert not is_sparse(path)
    pairs = filter_pairs(path, TEST)
    assert (pairs.documents.tolist(), pairs.labels.tolist()) == ([0], ["Paper (B2)"])
    assert len(filter_pairs(path)) == 0


def test_newer_sparse_files_of_the_repository(write):
    path = write(REPOSITORY)
    assert find_features(path, TEST).name == "tst_X_Xf.txt"
    corpus = read_features(path)
    assert corpus.features.shape == (2, 4)
    assert corpus.labels == [("Voices of the Wind", "Paper (C3)"), ("Paper (B2)",)]
    assert read_features(path, TEST).features.toarray().tolist() == [[0, 0, 1, 0]]
    sparse_only = {name: content for name, content in REPOSITORY.items() if name.endswith(".txt")}
    for name in ("trn.json.gz", "tst.json.gz", "lbl.json.gz"):
        (path / name).unlink()
    write(sparse_only)
    assert is_sparse(path)
    assert read_features(path).labels == [("0", "2"), ("1",)]
    with pytest.raises(DataError, match=r"trn_X_Xf.txt: the file has features, not texts"):
        read(path)


@pytest.mark.parametrize("sparse", ["train_v1.txt", "train.txt"])  # of Amazon-670K, of Wiki-500K
def test_texts_of_attention_xml(write, sparse):
    path = write({**ATTENTION_XML, sparse: ATTENTION_XML_SPARSE})
    assert read(path) == [
        Document("1", "Voice of the Sea /SEP/ A recording of waves; 60 minutes.", ("171", "528")),
        Document("2", "Crafting with Paper /SEP/", ("4",)),
    ]
    assert read(path, TEST)[0].labels == ("528", "9")
    assert not is_sparse(path)
    corpus = read_features(path)
    assert corpus.source == str(path / sparse)
    assert corpus.labels == [("171", "528"), ("4",)]
    assert corpus.features.shape == (2, 135909)


def test_texts_and_matrices_of_pecos(write):
    path = write(PECOS)
    assert read(path) == [
        Document("1", "Voice of the Sea", ("Voices of the Wind", "Fire")),
        Document("2", "Crafting with Paper", ("Paper",)),
    ]
    assert read(path, TEST)[0].labels == ("Paper", "Fire")
    assert read_features(path, TEST).labels == [("Paper", "Fire")]
    assert read_features(path).features.toarray().tolist() == [[0.5, 0], [0, 0.25]]


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ("train.txt", "test.txt"),
        ("amazon_train.txt", "amazon_test.txt"),
        ("WikipediaLarge-500K_train.txt", "WikipediaLarge-500K_test.txt"),
        ("train.txt.gz", "test.txt.gz"),
    ],
)
def test_older_sparse_files_of_the_repository(write, train, test):
    pack = gzip.compress if train.endswith(".gz") else bytes
    path = write({train: pack(OLD_TRAIN.encode()), test: pack(OLD_TEST.encode())})
    assert is_sparse(path)
    for data in (path, path / train):
        corpus = read_features(data)
        assert (corpus.features.shape, corpus.targets.shape) == ((3, 135909), (3, 670091))
        assert corpus.labels == [("171", "528"), ("4",), ()]
    assert read_features(path, TEST).labels == [("670090",)]


def test_raw_texts_are_preferred_to_older_sparse_files(write):
    path = write({**REPOSITORY, "train.txt": "2 4 3\n0,2 0:1\n1 1:1\n"})
    assert find_file(path, ReadOptions()).name == "trn.json.gz"
    with pytest.raises(DataError, match=r"holds train.txt and trn_X_Xf.txt. Give one of the files, or --format"):
        read_features(path)
    assert read_features(path, ReadOptions(format="xc-sparse")).features.toarray().tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 0],
    ]


def test_files_whose_names_say_little(write):
    path = write({"train.txt": "__label__a first\n__label__b second\n", "other_train.txt": "not sparse\n"})
    assert [document.labels for document in read(path)] == [("a",), ("b",)]
    write({"train.txt": "a b\ta text\n"})
    with pytest.raises(
        DataError, match=r"train.txt: cannot tell the format. Use --format, such as --format libmultilabel"
    ):
        read(path)
    assert read(path, ReadOptions(format="libmultilabel")) == [Document("1", "a text", ("a", "b"))]


def test_a_label_field_of_ones_own_wins(write):
    path = write({"a.jsonl": '{"text": "t", "labels": ["x"], "subjects": ["s"], "target_ind": [1]}\n'}) / "a.jsonl"
    assert read(path)[0].labels == ("x",)
    assert read(path, ReadOptions(label_field="subjects"))[0].labels == ("s",)


def test_a_split_is_train_or_test():
    with pytest.raises(SettingError, match="split must be 'train' or 'test', got 'dev'"):
        ReadOptions(split="dev")
