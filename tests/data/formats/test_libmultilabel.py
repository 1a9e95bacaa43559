"""LibMultiLabel: two or three columns."""

import pytest
from format_samples import (
    assert_message,
    read,
)

from haxmlnet.data import Document

MALFORMED = [
    ("libmultilabel", {"a.txt": "a b\tt\nx\n"}, "a.txt:2: expected 2 columns, as in the first line, got 1 in 'x'. Wr"),
    ("libmultilabel", {"a.txt": "a\tt\na\tt\tu\n"}, "a.txt:2: expected 2 columns, as in the first line, got 3"),
    ("libmultilabel", {"a.txt": "a b t\n"}, "a.txt:1: expected 2 or 3 columns, got 1 in 'a b t'. Write"),
]  # fmt: skip


def test_libmultilabel_may_have_ids(write):
    path = write({"a.txt": "d1\ta b a\tt\n\nd2\t\tu\n\t\t\n"})
    assert read(path, format="libmultilabel") == [
        Document("d1", "t", ("a", "b")),
        Document("d2", "u", ()),
        Document("", "", ()),
    ]


@pytest.mark.parametrize(("name", "files", "message"), MALFORMED, ids=lambda value: str(value)[:30])
def test_malformed_files_are_told_where_and_what(write, name, files, message):
    assert_message(write(files), message, format=name)
