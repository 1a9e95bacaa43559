"""All formats of other tools: what is read, and how it is recognised."""

import gzip

import pytest
from format_samples import (
    READABLE,
    read,
    zstd,
)


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
