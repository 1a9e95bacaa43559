from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from frames import frame_of

from haxmlnet.data.tokens import TokenArray
from haxmlnet.errors import ModelError
from haxmlnet.evidence.label_frequency import LabelFrequency
from haxmlnet.evidence.protocol import Documents
from haxmlnet.ranking import ABSENT
from haxmlnet.tree import LabelTree

FREQUENCY = LabelFrequency(np.array([0, 1, 9, 3]))


def documents_of(n_documents: int) -> Documents:
    return Documents(TokenArray.from_lists([np.array([2], np.int32)] * n_documents), np.ones(3, np.float32))


def test_the_documents_kept_are_counted():
    targets = sp.csr_array(np.array([[1, 0, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]], np.float32))
    frequency = LabelFrequency.train(SimpleNamespace(kept_targets=targets), LabelTree((), 5), None)
    assert frequency.counts.tolist() == [3, 1, 1, 0, 0]


def test_the_feature_is_the_logarithm_of_one_more():
    findings = FREQUENCY.examine(documents_of(2))
    features = findings.features(np.array([[2, 0, 1], [3, 3, ABSENT]], np.int32))
    assert features.dtype == np.float32
    assert features.shape == (2, 3, len(FREQUENCY.feature_names))
    np.testing.assert_allclose(features[0, :, 0], np.log([10, 1, 2]), rtol=1e-6)
    np.testing.assert_allclose(features[1, :2, 0], np.log([4, 4]), rtol=1e-6)


@pytest.mark.parametrize("n_documents", [0, 3])
def test_nothing_is_proposed(n_documents):
    assert FREQUENCY.examine(documents_of(n_documents)).proposals.shape == (n_documents, 0)


def test_the_reason_is_the_count():
    findings = FREQUENCY.examine(documents_of(2))
    assert [findings.reasons(1, label).count for label in range(4)] == [0, 1, 9, 3]


def test_counts_are_saved_and_checked():
    arrays = FREQUENCY.to_arrays()
    again = LabelFrequency.from_arrays(arrays, frame_of(4, 10))
    np.testing.assert_array_equal(again.counts, FREQUENCY.counts)
    with pytest.raises(ModelError, match="some file: expected counts of 5 labels"):
        LabelFrequency.from_arrays(arrays, frame_of(5, 10))
    with pytest.raises(ModelError, match="some file: expected counts of 4 labels"):
        LabelFrequency.from_arrays({}, frame_of(4, 10))
