"""Sizes are counted or given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planned import Documents

from haxmlnet.config import TextConfig
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import SettingError
from haxmlnet.planning.sizes import DataSizes


def test_sizes_are_counted(corpus: PreparedCorpus, documents: Documents) -> None:
    texts, labels = documents
    sizes, words = DataSizes.of_corpus(corpus), [text.split() for text in texts]
    assert (sizes.n_documents, sizes.n_labels) == (150, len({label for own in labels for label in own}))
    assert sizes.labels_per_document == pytest.approx(np.mean([len(own) for own in labels]))
    assert sizes.most_labels == 3
    assert sizes.mean_length(10) == pytest.approx(np.mean([min(len(own), 10) for own in words]))
    assert sizes.longest(10_000) == max(len(own) for own in words)
    assert sizes.distinct_words(corpus.n_words) == pytest.approx(np.mean([len(set(own)) for own in words]))
    assert sizes.vocabulary(TextConfig(10**6, 9)) == corpus.vocabulary_limit(10**6, 9)
    assert sizes.vocabulary(TextConfig(7, 9)) == 9


def test_given_numbers_replace_counted_ones(corpus: PreparedCorpus) -> None:
    sizes = DataSizes.of_corpus(corpus)
    more = sizes.replace(documents=10**6, labels=10**5)
    assert (more.n_documents, more.n_labels) == (10**6, 10**5)
    assert more.labels_per_document == sizes.labels_per_document
    assert more.distinct_words(corpus.n_words) == sizes.distinct_words(corpus.n_words)
    other = sizes.replace(words=300, labels_per_document=2.5, vocabulary=5000)
    assert (other.mean_length(200), other.labels_per_document, other.n_words) == (200, 2.5, 5002)
    assert 50 < other.distinct_words(5002) < 300


@pytest.mark.parametrize("wrong", [{"labels": 0}, {"documents": -1}, {"words": 0}, {"labels_per_document": 1000}])
def test_impossible_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        DataSizes.of_numbers(100, 10).replace(**wrong)
