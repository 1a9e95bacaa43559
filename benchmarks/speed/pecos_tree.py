"""The tree of libpecos, in its own environment: `python -m benchmarks.speed.pecos_tree MATRIX LEAF THREADS SEED OUT`.

Writes the group of each label to OUT and prints the seconds as JSON. Reading the matrix is not timed.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import scipy.sparse as sp
from pecos.xmc import Indexer  # type: ignore[import-not-found]


def main(matrix: str, leaf_size: str, threads: str, seed: str, out: str) -> None:
    """Cluster the rows of the matrix by spherical 2-means with its own settings but the size of a leaf."""
    features = sp.csr_matrix(sp.load_npz(matrix), dtype=np.float32)
    started = time.perf_counter()
    chain = Indexer.gen(
        features, indexer_type="hierarchicalkmeans", max_leaf_size=int(leaf_size), threads=int(threads),
        seed=int(seed), spherical=True,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    np.save(out, chain[-1].tocsr().indices.astype(np.int32))
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
