"""Files of every format, mutated: documents or one line that explains, and no document lost without a word."""

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.samples import Sample, read_sample, valid_samples

from haxmlnet.data import FEATURE_OUTPUT_FORMATS, FORMATS, OUTPUT_FORMATS, read_features
from haxmlnet.errors import DataError

SAMPLES = valid_samples()
N_DOCUMENTS = 4
PIECES = [
    b"\n", b"\r", b"\r\n", b"\t", b" ", b",", b":", b";", b"<", b"__label__", b"\0", b"\xff", b"\xef\xbb\xbf", b'"',
    b"{", b"]", b"#", b"-", b"9", b"0", b".", b"e", b"nan", b"1e999", b"99999999999999999999", b"\\ud800", b"null",
    b"[" * 50, b"",
]  # fmt: skip
MUTATION = st.tuples(st.integers(0, 5_000), st.integers(0, 4), st.sampled_from(PIECES) | st.binary(max_size=3))
PACKERS = {
    "": lambda content: content,
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".zst": lambda content: pa.Codec("zstd").compress(content, asbytes=True),
}


def mutated(content, mutations):
    for at, n_dropped, piece in mutations:
        at %= len(content) + 1
        content = content[:at] + piece + content[at + n_dropped :]
    return content


def test_there_is_a_sample_of_every_format():
    assert SAMPLES.keys() == FORMATS.keys()
    assert OUTPUT_FORMATS.keys() | FEATURE_OUTPUT_FORMATS.keys() == FORMATS.keys() - {"text", "svmlight"}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("is_told", [True, False])
def test_samples_are_valid(tmp_path, name, is_told):
    if is_told or name != "libmultilabel":
        assert read_sample(tmp_path, SAMPLES[name], is_told=is_told) == (N_DOCUMENTS, 0)
    assert read_sample(tmp_path, SAMPLES[name], with_labels=False) == (N_DOCUMENTS, 0)


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=60, deadline=None)
@given(
    which=st.integers(0, 2),
    mutations=st.lists(MUTATION, min_size=1, max_size=4),
    packing=st.sampled_from(["", "", "", ".gz", ".zst"]),
    is_packed_first=st.booleans(),
    with_labels=st.booleans(),
    on_error=st.sampled_from(["stop", "skip"]),
    is_told=st.booleans(),
)
def test_mutated_files_are_read_or_refused(
    name, which, mutations, packing, is_packed_first, with_labels, on_error, is_told
):
    files = dict(SAMPLES[name].files)
    damaged = list(files)[which % len(files)]
    pack = PACKERS[packing]
    content = mutated(pack(files[damaged]), mutations) if is_packed_first else pack(mutated(files[damaged], mutations))
    sample = Sample(name, {**files, damaged: content})
    message, outcome = "", None
    with tempfile.TemporaryDirectory() as folder:
        try:
            outcome = read_sample(Path(folder), sample, with_labels=with_labels, on_error=on_error, is_told=is_told)
        except DataError as error:
            message = str(error)
    if outcome is None:
        assert "\n" not in message.replace(folder, "")
        assert message.endswith((".", ")"))
    else:
        assert outcome.n_documents >= 1
        assert on_error == "skip" or outcome.n_skipped == 0
        if damaged != next(iter(files)) and name != "huggingface":
            # The files beside may spoil documents, but never hide them.
            assert outcome.n_documents + outcome.n_skipped == N_DOCUMENTS


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=6), st.integers(0, 3))
def test_rows_that_follow_a_header_are_counted(bad, n_missing):
    rows = [f"{i % 3} {i % 5}:1" for i in range(20)]
    words = ["x", "9:1", "0:nan", "1,2", "-1 0:1", "0:1 0:2", "3 0:1"]
    for row, word in bad:
        if row < len(rows):
            rows[row] = words[word]
    content = "\n".join(["20 5 3", *rows[: len(rows) - n_missing]]).encode()
    sample = Sample("xc-sparse", {"train.txt": content})
    with tempfile.TemporaryDirectory() as folder:
        if n_missing:
            with pytest.raises(DataError):
                read_sample(Path(folder), sample, on_error="skip")
        else:
            outcome = read_sample(Path(folder), sample, on_error="skip")
            n_bad = len({row for row, word in bad if row < 20} - {row for row in range(20) if rows[row] == "1,2"})
            assert outcome == (20 - n_bad, n_bad)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=120), st.sampled_from(sorted(SAMPLES)), st.booleans())
def test_random_bytes_are_read_or_refused(content, name, is_told):
    first = next(iter(SAMPLES[name].files))
    sample = Sample(name, {**SAMPLES[name].files, first: content})
    with tempfile.TemporaryDirectory() as folder:
        try:
            outcome = read_sample(Path(folder), sample, on_error="skip", is_told=is_told)
        except DataError:
            return
    assert outcome.n_documents >= 1


def test_values_are_never_read_as_others():
    """Whatever a row turns into, its numbers are the ones that were written."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=500).astype(np.float32) * 10.0 ** rng.integers(-30, 30, 500)
    written = [f"{value:.9g}" for value in values.astype(np.float32)]
    sample = Sample("svmlight", {"a.svm": "\n".join(f"1 {i}:{word}" for i, word in enumerate(written)).encode()})
    with tempfile.TemporaryDirectory() as folder:
        read_sample(Path(folder), sample)
        corpus = read_features(Path(folder, "a.svm"))
    np.testing.assert_array_equal(corpus.features.diagonal(), values.astype(np.float32))
