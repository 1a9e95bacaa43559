from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

Case = tuple[NDArray[np.int32], sp.csr_array]


@pytest.fixture
def random_case() -> Callable[..., Case]:
    """Make random rankings (some cut short) and truth (some rows empty) that overlap often."""

    def make(seed: int, n: int = 40, n_labels: int = 12, width: int = 6) -> Case:
        rng = np.random.default_rng(seed)
        ids = np.argsort(rng.random((n, n_labels)), axis=1)[:, :width].astype(np.int32)
        ids[np.arange(ids.shape[1]) >= rng.integers(0, 2 * width, n)[:, None]] = -1
        truth = rng.random((n, n_labels)) < rng.choice([0, 0.2, 0.6], n)[:, None]
        return ids, sp.csr_array(truth.astype(np.int8))

    return make
