"""Mutated files of other tools are read or refused, and no document is lost without a word."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from format_samples import READABLE, parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from haxmlnet.data import Document, ReadOptions, SkipReport, iterate_documents
from haxmlnet.errors import DataError

PIECES = [b"\n", b"\r", b"\t", b" ", b"<", b">", b"__label__", b"\0", b"\xff", b'"', b"{", b"]", b",", b"9", b"-", b""]
MUTATION = st.tuples(st.integers(0, 5_000), st.integers(0, 4), st.sampled_from(PIECES) | st.binary(max_size=3))
BLANK_LINES_DO_NOT_COUNT = ("libmultilabel", "fasttext", "annif-tsv")


def mutated(content, mutations):
    for at, n_dropped, piece in mutations:
        at %= len(content) + 1
        content = content[:at] + piece + content[at + n_dropped :]
    return content


@pytest.mark.parametrize("is_packed", [False, True])
@settings(max_examples=250, deadline=None)
@given(
    st.sampled_from(sorted(READABLE)),
    st.lists(MUTATION, min_size=1, max_size=4),
    st.integers(0, 2),
    st.booleans(),
)
def test_mutated_files_are_read_or_refused(is_packed, name, mutations, which, with_labels):
    files = {file: text.encode() if isinstance(text, str) else text for file, text in READABLE[name][0].items()}
    names = list(files)
    damaged = names[which % len(names)]
    if is_packed:
        files[damaged] = pa.Codec("zstd").compress(files[damaged], asbytes=True)
    files[damaged] = mutated(files[damaged], mutations)
    with tempfile.TemporaryDirectory() as folder:
        for file, content in files.items():
            Path(folder, file).write_bytes(content)
        path, report = Path(folder, names[0]), SkipReport()
        options = ReadOptions(format=name, on_error="skip")
        try:
            documents = list(iterate_documents(path, options, with_labels=with_labels, report=report))
        except DataError:
            return
    for document in documents:
        "".join([document.id, document.text, *document.labels]).encode()
    if name in BLANK_LINES_DO_NOT_COUNT and not is_packed:
        lines = files[names[0]].removeprefix(b"\xef\xbb\xbf").split(b"\n")
        assert len(documents) + report.n_skipped == sum(line.strip(b" \r") != b"" for line in lines)
    elif name in ("parallel", "pecos", "parquet"):
        assert len(documents) + report.n_skipped >= 1


@settings(max_examples=150, deadline=None)
@given(st.lists(MUTATION, min_size=1, max_size=3))
def test_checksums_find_damaged_tables(mutations):
    texts = [f"text number {i}" for i in range(40)]
    content = parquet(text=texts, labels=[["x"]] * 40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.parquet")
        path.write_bytes(mutated(content, mutations))
        try:
            documents = list(iterate_documents(path, ReadOptions(format="parquet"), with_labels=True))
        except DataError:
            return
    assert [document.id for document in documents] == [str(i + 1) for i in range(len(documents))]
    assert all(isinstance(document, Document) for document in documents)
