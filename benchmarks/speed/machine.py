"""The machine: how fast it multiplies matrices, the base of ratios.

torch has two libraries for that: the one behind `@`, and oneDNN, which is up to 2.3 times as fast on processors that
are not Intel's. The faster one counts.
"""

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
    """Multiply large matrices some times in each way; the fastest time counts."""
    import torch

    from haxmlnet.cpu.matmul import matmul

    torch.set_num_threads(n_threads)
    a, b = torch.rand(size, size), torch.rand(size, size)
    gigaflops = {}
    for way, multiply_them in {"torch": torch.mm, "onednn": matmul}.items():
        seconds = []
        for _ in range(n_products):
            started = time.perf_counter()
            multiply_them(a, b)
            seconds.append(time.perf_counter() - started)
        gigaflops[way] = 2 * size**3 / min(seconds) / 1e9
    return {"gigaflops": max(gigaflops.values()), "ways": gigaflops, "threads": n_threads, "size": size}
