"""Word vectors: read from a file for the words of the vocabulary, or computed from the training corpus."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.tokens import PAD_ID
from haxmlnet.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"


def read_vectors(path: str | Path, words: Sequence[str], rng: np.random.Generator) -> NDArray[np.float32]:
    """Read the vectors of the words from a GloVe, word2vec or fastText text file, plain or .gz.

    The file is streamed. Words it lacks get random vectors with the same standard deviation; padding is zero.
    """
    wanted = {word: i for i, word in enumerate(words)}
    found: dict[int, NDArray[np.float32]] = {}
    width = 0
    for number, line in _iterate_lines(Path(path)):
        word, _, numbers = line.rstrip(b"\r\n ").partition(b" ")
        index = wanted.get(word.decode("utf-8", "replace").lower())
        if index is None or (index in found):
            width = width or len(numbers.split())
            continue
        vector = _parse_vector(path, number, numbers)
        width = width or len(vector)
        if len(vector) != width:
            raise DataError(f"{path}:{number}: expected {width} numbers after the word, got {len(vector)}.")
        found[index] = vector
    if not found:
        raise DataError(f"{path}: holds no vector for any of the {len(words)} words of the training texts.")
    known = np.stack(list(found.values()))
    vectors = rng.normal(0, known.std(), (len(words), width)).astype(np.float32)
    vectors[list(found)] = known
    vectors[PAD_ID] = 0
    return vectors


def vector_width(path: str | Path) -> int:
    """Return how many numbers each vector of a file has, judged by its first line."""
    for number, line in _iterate_lines(Path(path)):
        return len(_parse_vector(path, number, line.rstrip(b"\r\n ").partition(b" ")[2]))
    raise DataError(f"{path}: holds no vectors.")


def corpus_vectors(
    features: sp.csr_array, by_label: sp.csr_array, size: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Compute word vectors from TF-IDF documents (n x words) and the labels' features (labels x words).

    Words that occur in the same documents and with the same labels get similar vectors: a truncated
    singular value decomposition of the words' side of [documents ; labels].
    """
    from sklearn.utils.extmath import randomized_svd

    words = sp.csr_array(sp.hstack([features.T, by_label.T], format="csr"))
    n_words = words.shape[0]
    rank = min(size, min(words.shape) - 1)
    vectors = np.zeros((n_words, size), np.float32)
    if rank > 0:
        seed = int(rng.integers(2**31))
        left, values, _ = randomized_svd(words, rank, n_iter=3, random_state=seed)
        vectors[:, :rank] = left * np.sqrt(values)

    # Rows are scaled to one length: a rare word must be as loud as a frequent one. Empty rows become random.
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    noise = rng.normal(0, 1 / np.sqrt(size), vectors.shape).astype(np.float32)
    vectors = np.where(lengths > 1e-6, vectors / np.maximum(lengths, 1e-6), noise)
    vectors[PAD_ID] = 0
    # GloVe's numbers have a standard deviation of about 0.4: the layers above are tuned to inputs of that size.
    return (vectors * (0.4 * np.sqrt(size))).astype(np.float32)


def _iterate_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number and content of each line that holds a vector."""
    try:
        with path.open("rb") as start:
            compressed = start.read(2) == GZIP_MAGIC
        with gzip.open(path, "rb") if compressed else path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                parts = line.split(maxsplit=2)
                is_header = number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts)
                if parts and not is_header:
                    yield number, line
    except FileNotFoundError:
        raise DataError(f"{path}: no such file of word vectors.") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as word vectors ({error}).") from None


def _parse_vector(path: str | Path, number: int, numbers: bytes) -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what is too large for a float becomes infinite, and is refused
            vector = np.array(numbers.split(), dtype=np.float32)
    except ValueError:
        shown = numbers[:40].decode("utf-8", "replace")
        raise DataError(f"{path}:{number}: expected numbers after the word, got {shown!r}.") from None
    if len(vector) == 0:
        raise DataError(f"{path}:{number}: expected numbers after the word, got none.")
    if not np.isfinite(vector).all():
        raise DataError(f"{path}:{number}: a number of the vector is NaN or infinite. Remove the line.")
    return vector
