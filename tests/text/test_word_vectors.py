from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.errors import DataError
from haxmlnet.text.tfidf import unit_rows
from haxmlnet.text.word_vectors import corpus_vectors, read_vectors

WORDS = ["[PAD]", "[UNK]", "dog", "cat", "我", "rare"]
GLOVE = "the 9 9 9\ndog 0.5 -1 2e-1\nCat 1 2 3\n我 4 5 6\n"
EXPECTED = np.array([[0.5, -1, 0.2], [1, 2, 3], [4, 5, 6]], np.float32)


def read(path: Path, seed: int = 0) -> np.ndarray:
    return read_vectors(path, WORDS, np.random.default_rng(seed))


def error_of(path: Path) -> str:
    with pytest.raises(DataError) as error:
        read(path)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "vectors.txt"


@pytest.mark.parametrize(
    "text",
    [
        GLOVE,
        "4 3\n" + GLOVE,
        "4 3 \n" + GLOVE.replace("\n", " \n"),
        GLOVE.replace("\n", "\r\n"),
        GLOVE.rstrip("\n"),
        GLOVE.replace("\n", "\n\n"),
        GLOVE + "dog 7 7 7\nDOG 8 8 8\n",
    ],
    ids=["glove", "word2vec", "fasttext", "windows", "no last newline", "empty lines", "repeated words"],
)
@pytest.mark.parametrize("opened", [open, gzip.open], ids=["plain", "gzip"])
def test_text_formats(file, text, opened):
    with opened(file, "wb") as stream:
        stream.write(text.encode())
    vectors = read(file)
    assert (vectors.shape, vectors.dtype) == ((6, 3), np.float32)
    np.testing.assert_array_equal(vectors[2:5], EXPECTED)


def test_words_the_file_lacks_get_random_vectors_of_the_same_spread(file):
    words = ["[PAD]", "[UNK]", *(f"w{i}" for i in range(2000))]
    known = np.random.default_rng(5).normal(0, 0.3, (1000, 8))
    lines = [f"w{i} " + " ".join(f"{value:.6f}" for value in vector) for i, vector in enumerate(known)]
    file.write_text("\n".join(lines))
    vectors = read_vectors(file, words, np.random.default_rng(0))
    np.testing.assert_allclose(vectors[2:1002], known, atol=1e-6)
    assert not vectors[0].any()
    assert vectors[1].any()
    assert vectors[1002:].std() == pytest.approx(0.3, rel=0.05)
    again = read_vectors(file, words, np.random.default_rng(0))
    np.testing.assert_array_equal(vectors, again)


def test_one_constant_vector_still_gives_finite_ones(file):
    file.write_text("dog 1 1 1\n")
    assert np.isfinite(read(file)).all()


def test_lines_of_words_not_needed_are_not_parsed(file):
    file.write_text(GLOVE + "horse x y z\nbird 1\n")
    np.testing.assert_array_equal(read(file)[2:5], EXPECTED)


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "-inf", "1e400", "1e39"])
def test_numbers_that_are_not_finite_are_refused(file, value):
    file.write_text(f"{GLOVE}rare 1 {value} 3\n")
    assert error_of(file) == f"{file}:5: a number of the vector is NaN or infinite. Remove the line."


@pytest.mark.parametrize(("numbers", "n"), [("1 2", 2), ("1 2 3 4", 4)])
def test_a_wrong_width_is_refused(file, numbers, n):
    file.write_text(f"{GLOVE}rare {numbers}\n")
    assert error_of(file) == f"{file}:5: expected 3 numbers after the word, got {n}."


def test_what_is_not_a_number_is_refused(file):
    file.write_text(f"{GLOVE}rare 1 two 3\n")
    assert error_of(file) == f"{file}:5: expected numbers after the word, got '1 two 3'."


@pytest.mark.parametrize("text", ["rare\n", "rare\n" + GLOVE, GLOVE + "rare\n"])
def test_a_word_without_numbers_is_refused(file, text):
    file.write_text(text)
    line = text[: text.index("rare")].count("\n") + 1
    assert error_of(file) == f"{file}:{line}: expected numbers after the word, got none."


def test_a_missing_file_is_named(file):
    assert error_of(file) == f"{file}: no such file of word vectors."


def test_a_directory_is_refused(tmp_path):
    assert error_of(tmp_path).startswith(f"{tmp_path}: cannot be read as word vectors (")


@pytest.mark.parametrize("text", ["", "\n\n", "4 3\n", "horse 1 2 3\n"])
def test_a_file_without_needed_words_is_refused(file, text):
    file.write_text(text)
    assert error_of(file) == f"{file}: holds no vector for any of the 6 words of the training texts."


def many_vectors() -> bytes:
    rng = np.random.default_rng(0)
    lines = [f"w{i} " + " ".join(map(str, rng.random(20))) for i in range(500)]
    return gzip.compress("\n".join(lines).encode())


def test_a_truncated_gzip_file_is_refused(file):
    content = many_vectors()
    file.write_bytes(content[: len(content) // 2])
    assert error_of(file).startswith(f"{file}: cannot be read as word vectors (")


def test_a_damaged_gzip_file_is_refused(file):
    content = bytearray(many_vectors())
    content[1000:1100] = b"\xff" * 100
    file.write_bytes(content)
    assert error_of(file).startswith(f"{file}: cannot be read as word vectors (")


def vectors_of(features, targets, size, rng):
    by_label = unit_rows(sp.csr_array(targets.T.astype(np.float32) @ features))
    return corpus_vectors(features, by_label, size, rng)


def topic_corpus() -> tuple[sp.csr_array, sp.csr_array]:
    """Two topics of five words each; a document has three words and the label of its topic."""
    rng = np.random.default_rng(0)
    features, targets = np.zeros((60, 12), np.float32), np.zeros((60, 2), np.float32)
    for row in range(60):
        topic = row % 2
        features[row, 2 + 5 * topic + rng.permutation(5)[:3]] = 1
        targets[row, topic] = 1
    return unit_rows(sp.csr_array(features)), sp.csr_array(targets)


def similarities(vectors: np.ndarray) -> np.ndarray:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def test_words_of_one_topic_are_closer_than_those_of_two():
    vectors = vectors_of(*topic_corpus(), 2, np.random.default_rng(0))
    close = similarities(vectors[2:])
    assert min(close[:5, :5].min(), close[5:, 5:].min()) > close[:5, 5:].max()


def test_labels_bring_words_together_that_never_meet():
    # Each word has documents of its own; two words share label 0, two share label 1.
    features = sp.csr_array(np.eye(6, dtype=np.float32)[[2, 3, 4, 5]])
    targets = sp.csr_array(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], np.float32))
    close = similarities(vectors_of(features, targets, 2, np.random.default_rng(0))[2:])
    assert min(close[0, 1], close[2, 3]) > 0.9
    assert abs(close[:2, 2:]).max() < 0.1


def test_corpus_vectors_follow_the_seed():
    first, same, other = (vectors_of(*topic_corpus(), 4, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_padding_is_zero_and_all_other_words_are_equally_long():
    vectors = vectors_of(*topic_corpus(), 4, np.random.default_rng(0))
    assert vectors.dtype == np.float32
    assert not vectors[0].any()
    assert vectors[1].any()  # the unknown word occurs nowhere: it is random
    np.testing.assert_allclose(np.linalg.norm(vectors[2:], axis=1), 0.4 * 2, rtol=1e-4)


@pytest.mark.parametrize(
    ("n_documents", "n_words", "n_labels"), [(1, 5, 1), (5, 1, 1), (1, 1, 1), (30, 3, 2), (2, 40, 5)]
)
def test_corpora_smaller_than_the_width_of_the_vectors(n_documents, n_words, n_labels):
    rng = np.random.default_rng(0)
    features = np.zeros((n_documents, 2 + n_words), np.float32)
    features[:, 2:] = rng.random((n_documents, n_words))
    targets = np.ones((n_documents, n_labels), np.float32)
    vectors = vectors_of(sp.csr_array(features), sp.csr_array(targets), 50, rng)
    assert vectors.shape == (2 + n_words, 50)
    assert np.isfinite(vectors).all()
    assert (np.linalg.norm(vectors[1:], axis=1) > 0.1).all()
