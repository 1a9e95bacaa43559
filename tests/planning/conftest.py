from __future__ import annotations

import numpy as np
import pytest

from haxmlnet.data.labels import index_labels
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.text.corpus_builder import prepare_texts

Documents = tuple[list[str], list[list[str]]]


@pytest.fixture(scope="session")
def documents() -> Documents:
    """150 documents with 1 to 3 of 24 labels, two words for each of them, and six words of noise."""
    rng = np.random.default_rng(0)
    own = [rng.choice(24, rng.integers(1, 4), replace=False) for _ in range(150)]
    topics = [[f"sign{label}{side}" for label in labels for side in "ab"] for labels in own]
    texts = [" ".join([*words, *(f"noise{n}" for n in rng.integers(30, size=6))]) for words in topics]
    return texts, [[f"label {label:02}" for label in labels] for labels in own]


@pytest.fixture(scope="session")
def corpus(documents: Documents) -> PreparedCorpus:
    texts, labels = documents
    index, targets = index_labels(labels, len(texts), None)
    return prepare_texts(texts, index, targets, None)
