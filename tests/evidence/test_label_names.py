from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from frames import config_of, frame_of

from haxmlnet.data.labels import LabelIndex
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray
from haxmlnet.errors import ModelError
from haxmlnet.evidence import label_names
from haxmlnet.evidence.label_names import LabelNames, NameFindings, have_letters
from haxmlnet.evidence.protocol import Documents
from haxmlnet.ranking import ABSENT
from haxmlnet.text.tokenizer import WordTokenizer
from haxmlnet.tree import LabelTree

N_WORDS = 30


def random_names(
    seed: int, n_proposals: int = 40, n_labels: int = 40
) -> tuple[list[list[int]], np.ndarray, LabelNames]:
    """Names of no to four words, some unknown, some twice."""
    rng = np.random.default_rng(seed)
    words = [rng.integers(1, N_WORDS, rng.integers(0, 5)).tolist() for _ in range(n_labels)]
    idf = rng.uniform(1, 9, N_WORDS).astype(np.float32)
    tokens = TokenArray.from_lists([np.array(name, np.int32) for name in words], N_WORDS)
    return words, idf, LabelNames.from_words(tokens, idf, n_proposals)


def examine(names: LabelNames, features: sp.csr_array) -> NameFindings:
    return names.examine(Documents(None, np.zeros(0, np.float32), features))


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
def test_features_equal_a_count_by_hand(seed):
    words, idf, names = random_names(seed)
    documents = random_documents(seed)
    labels = np.random.default_rng(seed).integers(-1, 40, (25, 6)).astype(np.int32)
    features = examine(names, documents).features(labels)
    for row in range(25):
        document = set(documents[[row]].indices.tolist())
        for place, label in enumerate(labels[row].tolist()):
            found, total = (0.0, 0.0) if label == ABSENT else by_hand(words, idf, document, label)
            expected = [found / max(total, 1e-6), found, total - found]
            np.testing.assert_allclose(features[row, place], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_mentioned_labels_have_most_of_their_name_in_the_document(seed, monkeypatch):
    monkeypatch.setattr(label_names, "INDEXED_WORDS", 9)  # every word leads to its labels
    words, idf, names = random_names(seed)
    documents = random_documents(seed)
    mentioned = examine(names, documents).proposals
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
    names = LabelNames.from_words(TokenArray.from_lists([np.array([2, 3, 4, 5], np.int32)], 6), idf, 4)
    assert names.labels_of.nonzero()[0].tolist() == [4, 5]


def test_no_more_labels_are_looked_at_than_allowed(monkeypatch):
    monkeypatch.setattr(label_names, "MAX_VISITED", 3)
    idf = np.ones(5, np.float32)
    one_word = [np.array([2 + (label > 0)], np.int32) for label in range(6)]  # word 2: one label, word 3: five
    names = LabelNames.from_words(TokenArray.from_lists(one_word, 5), idf, 4)
    both = sp.csr_array(np.array([[0, 0, 1, 1, 0]], np.float32))
    assert examine(names, both).proposals.tolist() == [[0, ABSENT, ABSENT, ABSENT]]


@pytest.mark.parametrize("seed", range(3))
def test_fewer_proposals_are_the_first_of_more(seed, monkeypatch):
    documents = random_documents(seed)
    few, many = (examine(random_names(seed, n)[2], documents).proposals for n in (3, 40))
    assert few.tolist() == many[:, :3].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_the_reasons_are_the_words_of_the_name_that_the_document_has(seed):
    words, idf, names = random_names(seed)
    documents = random_documents(seed)
    findings = examine(names, documents)
    labels = np.tile(np.arange(40, dtype=np.int32), (25, 1))
    features = findings.features(labels)
    for row in range(25):
        document = set(documents[[row]].indices.tolist())
        for label in range(40):
            reasons = findings.reasons(row, label)
            assert reasons.words.keys() == (set(words[label]) & document) - {UNKNOWN_ID}
            assert sum(reasons.words.values()) == pytest.approx(features[row, label, 1], rel=1e-4)
            for word, weight in reasons.words.items():
                assert weight == pytest.approx(words[label].count(word) * idf[word], rel=1e-5)


def fold_of(names: list[str], tokenizer: WordTokenizer | None) -> SimpleNamespace:
    idf = np.array([0, 0, 2, 3], np.float32)
    return SimpleNamespace(label_index=LabelIndex(np.array(names, object)), tokenizer=tokenizer, idf=idf)


def test_the_words_of_names_are_those_of_the_documents():
    tokenizer, run = WordTokenizer.from_words(["fish", "red"]), SimpleNamespace(config=config_of(9, 2, n_candidates=6))
    names = LabelNames.train(fold_of(["Red fish", "blue"], tokenizer), LabelTree((), 2), run)
    np.testing.assert_array_equal(names.words.toarray(), [[0, 0, 2, 3], [0, 0, 0, 0]])
    assert names.totals.tolist() == [5, 3]  # an unknown word weighs as much as the rarest
    assert names.n_proposals == 3


@pytest.mark.parametrize(("names", "has_words"), [(["17", "18"], True), (["red", "fish"], False)])
def test_names_of_numbers_or_beside_sparse_features_are_no_evidence(names, has_words):
    tokenizer = WordTokenizer.from_words(["fish", "red"]) if has_words else None
    run = SimpleNamespace(config=config_of(9, 2))
    assert LabelNames.train(fold_of(names, tokenizer), LabelTree((), 2), run) is None


def test_no_documents():
    findings = examine(random_names(0)[2], random_documents(0)[:0])
    assert findings.proposals.shape == (0, 40)
    assert findings.features(np.zeros((0, 2), np.int32)).shape == (0, 2, 3)


def test_names_are_saved_and_checked():
    _, _, names = random_names(0, n_proposals=8)
    arrays = names.to_arrays()
    again = LabelNames.from_arrays(arrays, frame_of(40, N_WORDS, n_candidates=16))
    documents = random_documents(0)
    assert examine(again, documents).proposals.tolist() == examine(names, documents).proposals.tolist()
    with pytest.raises(ModelError, match="some file: expected names of 41 labels, got 40"):
        LabelNames.from_arrays(arrays, frame_of(41, N_WORDS))
    with pytest.raises(ModelError, match="some file: does not hold the names of 40 labels"):
        LabelNames.from_arrays({**arrays, "columns": arrays["columns"] + N_WORDS}, frame_of(40, N_WORDS))
    del arrays["totals"]
    with pytest.raises(ModelError, match="names"):
        LabelNames.from_arrays(arrays, frame_of(40, N_WORDS))


def test_numbers_say_nothing():
    assert not have_letters(np.array(["2457", "17", "1-2", "x1"], object))
    assert have_letters(np.array(["fishing", "quota", "17"], object))
