"""Label propensities: how likely a true label is to be among those a document was given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from haxmlnet.errors import SettingError


def propensities(label_counts: ArrayLike, n_documents: int, a: float = 0.55, b: float = 1.5) -> NDArray[np.float64]:
    """Estimate the propensity of every label from how many training documents have it.

    p = 1 / (1 + C (count + b)^-a) with C = (ln n_documents - 1)(b + 1)^a, the model of Jain, Prabhu and Varma
    (2016). The usual a, b are 0.6, 2.6 for Amazon sets, 0.5, 0.4 for Wikipedia sets, 0.55, 1.5 for others.
    With fewer than three training documents C would be negative; it is 0 then, and every propensity 1.
    """
    if not (0 <= a < np.inf and 0 < b < np.inf):
        raise SettingError(f"propensity: a must be at least 0 and b above 0, got a={a} and b={b}. Try 0.55, 1.5.")
    counts = np.asarray(label_counts, np.float64)
    c = max(np.log(max(n_documents, 1)) - 1, 0) * (b + 1) ** a
    return 1 / (1 + c * (counts + b) ** -a)
