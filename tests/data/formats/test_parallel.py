"""Texts and labels in two files."""

import gzip

import pytest
from format_samples import (
    TEXTS,
    assert_message,
    message_of,
    read,
)

from haxmlnet.data import Document

MALFORMED = [
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
]  # fmt: skip


def test_raw_texts_are_preferred_in_a_directory(write, tmp_path):
    write({"train_texts.txt": "stemmed\n", "train_raw_texts.txt": "Raw\n", "train_labels.txt": "a\n"})
    assert read(tmp_path) == [Document("1", "Raw", ("a",))]


def test_a_directory_with_two_choices_is_refused(write, tmp_path):
    write({"train.csv": "text,labels\nt,x\n", "train_texts.txt": "t\n", "train_labels.txt": "y\n"})
    assert message_of(tmp_path).endswith("holds train.csv and train_texts.txt. Give one of the files, or --format.")
    assert read(tmp_path, format="parallel")[0].labels == ("y",)


@pytest.mark.parametrize(("name", "files", "message"), MALFORMED, ids=lambda value: str(value)[:30])
def test_malformed_files_are_told_where_and_what(write, name, files, message):
    assert_message(write(files), message, format=name)
