"""Raw text of the Extreme Classification Repository."""

import gzip
import json

import pytest
from format_samples import (
    XC_LABELS,
    assert_message,
    read,
    xc_line,
    zstd,
)

from haxmlnet.data import Corpus, Document

MALFORMED = [
    ("xc", {"trn.json": xc_line("d", [0]) + xc_line("d", [3]), "lbl.json": XC_LABELS},
     "trn.json:2: 'target_ind' has the label 3, but lbl.json ends with 2. Use"),
    ("xc", {"trn.json": xc_line("d", [-1]), "lbl.json": XC_LABELS}, "trn.json:1: 'target_ind' must hold integers"),
    ("xc", {"trn.json": xc_line("d", ["0"])}, "trn.json:1: 'target_ind' must hold integers from 0, but one is '"),
    ("xc", {"trn.json": xc_line("d", [True])}, "trn.json:1: 'target_ind' must hold integers from 0, but one is T"),
    ("xc", {"trn.json": xc_line("d", "0")}, "trn.json:1: 'target_ind' must be a list of integers, got '0'. Write"),
    ("xc", {"trn.json": xc_line("d", [0], target_rel=[])}, "trn.json:1: 'target_ind' has 1 values and 'target_rel'"),
    ("xc", {"trn.json": '{"uid": 1, "title": "t"}'}, "trn.json:1: there is no 'target_ind', got the fields"),
    ("xc", {"trn.json": xc_line("d", [0]), "lbl.json": '{"title": "a"}\n{"title": 5}\n'},
     "lbl.json:2: 'title' must be a string, got 5. Fix"),
    ("xc", {"trn.json": xc_line("d", [0]), "lbl.json": '{"title": "a"}\n\n'}, "lbl.json:2: not JSON at column"),
    ("xc", {"trn.json": xc_line("d", [0]), "lbl.json": '{"uid": 1, "title": "a"}\n' * 2},
     "lbl.json: 2 labels have the title and uid 'a (1)'. Give"),
    ("xc", {"trn.json": xc_line("d", [0]), "lbl.json": '{"title": "\\ud800"}\n'}, "lbl.json:1: half a surrogate pair"),
]  # fmt: skip


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


@pytest.mark.parametrize(("name", "files", "message"), MALFORMED, ids=lambda value: str(value)[:30])
def test_malformed_files_are_told_where_and_what(write, name, files, message):
    assert_message(write(files), message, format=name)
