"""The machine: how fast it multiplies matrices, the base of ratios."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.preparation_parts import Figures, run_alone
from benchmarks.speed.row import Row, Run

SIZE = 2048
PRODUCTS = 15


def machine(run: Run) -> Iterator[Row]:
    """Measure the sgemm peak of all threads."""
    figures = run_alone(multiply, SIZE, PRODUCTS, run.threads)
    yield Row("machine: sgemm peak", figures.pop("gigaflops"), "GF/s", details=figures)


def multiply(size: int, n_products: int, n_threads: int) -> Figures:
    """Multiply large matrices some times; the fastest time counts."""
    import torch

    torch.set_num_threads(n_threads)
    a, b = torch.rand(size, size), torch.rand(size, size)
    best = float("inf")
    for _ in range(n_products):
        started = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - started)
    return {"gigaflops": 2 * size**3 / best / 1e9, "threads": n_threads, "size": size}
