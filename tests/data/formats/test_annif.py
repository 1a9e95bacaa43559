"""The three formats of Annif."""

import pytest
from format_samples import (
    assert_message,
    message_of,
    read,
    xc_line,
)

from haxmlnet.data import Document

MALFORMED = [
    ("annif-tsv", {"a.tsv": "t\t<u>\nno tab\n"}, "a.tsv:2: there is no tab, got 'no tab'. Write"),
    ("annif-tsv", {"a.tsv": "t\t<u> <>\n"}, "a.tsv:1: there is an empty <>, got '<u> <>'. Leave"),
    ("annif-csv", {"a.csv": "text,subjects\nt,<u>\n"}, "a.csv:1: there is no 'subject_uris', got the fields"),
    ("annif-csv", {"a.csv": "text,subject_uris\nt\n"}, "a.csv:2: the header has 2 columns, got 1 in ['t']. Put"),
    ("annif-jsonl", {"a.jsonl": '{"text": "t", "subjects": [{"x": 1}]}'}, "a.jsonl:1: a subject needs a 'uri' or a"),
    ("annif-jsonl", {"a.jsonl": '{"text": "t", "subjects": "s"}'}, "a.jsonl:1: 'subjects' must be a list of strings"),
    ("annif-jsonl", {"a.jsonl": '{"text": "t"}'}, "a.jsonl:1: there is no 'subjects', got the fields ['text']. Use"),
]  # fmt: skip


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


@pytest.mark.parametrize(("name", "files", "message"), MALFORMED, ids=lambda value: str(value)[:30])
def test_malformed_files_are_told_where_and_what(write, name, files, message):
    assert_message(write(files), message, format=name)
