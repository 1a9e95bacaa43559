"""fastText: labels anywhere, spaces kept."""

import pytest
from format_samples import (
    assert_message,
    read,
    zstd,
)

from haxmlnet.data import Document

MALFORMED = [
    ("fasttext", {"a.txt": "__label__a t\n__label__ t\n"}, "a.txt:2: '__label__' has no name after it, got"),
    ("fasttext", {"a.txt": b"__label__a t\n__label__\xff t\n"}, "a.txt:2: not UTF-8 at byte 10"),
    ("fasttext", {"a.zst": zstd(b"__label__a t\n" * 50_000, -9)}, "a.zst:"),
    ("fasttext", {"a.zst": zstd(b"__label__a t\n", 9)}, "a.zst:0: the zstd data ends too early after this line. Copy"),
    ("fasttext", {"a.zst": b"\x28\xb5\x2f\xfd junk and more junk"}, "a.zst:0: the zstd data is damaged after"),
]  # fmt: skip


def test_fasttext_labels_stand_anywhere_and_spaces_are_kept(write):
    path = write({"a.txt": "__label__a  two  spaces\nlate text __label__b more\nnone here\n\n"})
    assert read(path, format="fasttext") == [
        Document("1", " two  spaces", ("a",)), Document("2", "late text more", ("b",)), Document("3", "none here", ()),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "files", "message"), MALFORMED, ids=lambda value: str(value)[:30])
def test_malformed_files_are_told_where_and_what(write, name, files, message):
    assert_message(write(files), message, format=name)
