from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.errors import ModelError
from haxmlnet.linear import names as names_module
from haxmlnet.linear.names import LabelNames, speaking
from haxmlnet.ranking import ABSENT

N_WORDS = 30


def random_names(seed: int, n_labels: int = 40) -> tuple[list[list[int]], np.ndarray, LabelNames]:
    """Names of no to four words, some unknown, some twice."""
    rng = np.random.default_rng(seed)
    words = [rng.integers(1, N_WORDS, rng.integers(0, 5)).tolist() for _ in range(n_labels)]
    idf = rng.uniform(1, 9, N_WORDS).astype(np.float32)
    tokens = TokenArray.from_lists([np.array(name, np.int32) for name in words], N_WORDS)
    return words, idf, LabelNames.from_words(tokens, idf)


def random_documents(seed: int, n_documents: int = 25) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    matrix = sp.csr_array(sp.random_array((n_documents, N_WORDS), density=0.3, rng=rng, format="csr", dtype=np.float32))
    matrix.sort_indices()
    return matrix


def by_hand(words: list[list[int]], idf: np.ndarray, document: set[int], label: int) -> tuple[float, float]:
    """Weight of the words of a name that a document has, and of all words of the name."""
    weight = {word: float(idf.max()) if word == UNKNOWN_ID else float(idf[word]) for word in range(N_WORDS)}
    found = sum(weight[word] for word in words[label] if word in document and word != UNKNOWN_ID)
    return found, sum(weight[word] for word in words[label])


@pytest.mark.parametrize("seed", range(5))
def test_signals_equal_a_count_by_hand(seed):
    words, idf, names = random_names(seed)
    documents = random_documents(seed)
    labels = np.random.default_rng(seed).integers(-1, 40, (10, 6)).astype(np.int32)
    signals = names.signals(documents, range(5, 15), labels)
    for i, row in enumerate(range(5, 15)):
        document = set(documents[[row]].indices.tolist())
        for place, label in enumerate(labels[i].tolist()):
            found, total = (0.0, 0.0) if label == ABSENT else by_hand(words, idf, document, label)
            expected = [found / max(total, 1e-6), found, total - found]
            np.testing.assert_allclose(signals[i, place], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_mentioned_labels_have_most_of_their_name_in_the_document(seed, monkeypatch):
    monkeypatch.setattr(names_module, "INDEXED_WORDS", 9)  # every word leads to its labels
    words, idf, names = random_names(seed)
    documents = random_documents(seed)
    mentioned = names.mentioned(documents, range(25), 40)
    for row in range(25):
        document = set(documents[[row]].indices.tolist())
        strengths = {}
        for label in range(40):
            found, total = by_hand(words, idf, document, label)
            if total > 0 and found / total >= 0.6:
                strengths[label] = found * found / total
        given = [label for label in mentioned[row].tolist() if label != ABSENT]
        assert set(given) == set(strengths)
        ordered = [strengths[label] for label in given]
        assert all(a >= b - 1e-3 for a, b in pairwise(ordered))


def test_a_label_is_found_by_the_rarest_words_of_its_name():
    idf = np.array([0, 0, 1, 2, 8, 9], np.float32)
    names = LabelNames.from_words(TokenArray.from_lists([np.array([2, 3, 4, 5], np.int32)], 6), idf)
    assert names.labels_of.nonzero()[0].tolist() == [4, 5]


def test_no_more_labels_are_looked_at_than_allowed(monkeypatch):
    monkeypatch.setattr(names_module, "MOST_VISITED", 3)
    idf = np.ones(5, np.float32)
    one_word = [np.array([2 + (label > 0)], np.int32) for label in range(6)]  # word 2: one label, word 3: five
    names = LabelNames.from_words(TokenArray.from_lists(one_word, 5), idf)
    both = sp.csr_array(np.array([[0, 0, 1, 1, 0]], np.float32))
    assert names.mentioned(both, range(1), 4).tolist() == [[0, ABSENT, ABSENT, ABSENT]]


def test_names_are_saved_and_checked():
    _, _, names = random_names(0)
    arrays = names.to_arrays()
    again = LabelNames.from_arrays(arrays, 40, N_WORDS)
    documents = random_documents(0)
    assert again.mentioned(documents, range(25), 8).tolist() == names.mentioned(documents, range(25), 8).tolist()
    with pytest.raises(ModelError, match="expected those of 41 labels"):
        LabelNames.from_arrays(arrays, 41, N_WORDS)
    with pytest.raises(ModelError, match="names"):
        LabelNames.from_arrays({**arrays, "columns": arrays["columns"] + N_WORDS}, 40, N_WORDS)


def test_numbers_do_not_speak():
    assert not speaking(np.array(["2457", "17", "1-2", "x1"], object))
    assert speaking(np.array(["fishing", "quota", "17"], object))
