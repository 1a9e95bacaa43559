"""The end of a head, compiled by numba: from what the last layer sees of a document's nodes to their logits."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def write_logits(sums, last, bias, own, nodes, logits):  # type: ignore[no-untyped-def]
    """Write the logits of nodes (C,) whose hidden numbers (C, M), before they are cut off at zero, are known.

    `last` (M,) and `bias` are shared, `own` (N, M + 1) are those of each node, or (0, 0).
    """
    zero, n_units = np.float32(0), len(last)
    for place in range(len(sums)):
        total = bias
        if len(own) == 0:
            for unit in range(n_units):
                total += max(sums[place, unit], zero) * last[unit]
        else:
            weights = own[np.uint64(nodes[place])]
            for unit in range(n_units):
                total += max(sums[place, unit], zero) * (last[unit] + weights[unit])
            total += weights[n_units]
        logits[place] = total
