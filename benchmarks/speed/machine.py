"""The machine: how fast it multiplies matrices, the base of ratios.

torch has two libraries for that: the one behind `@`, and oneDNN, which is up to 2.3 times as fast on processors that
are not Intel's. The faster one counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.measuring import Figures, run_alone
from benchmarks.speed.row import Row, Run

SIZE = 2048
MATMULS = 15


def machine(run: Run) -> Iterator[Row]:
    """Measure the sgemm peak of all threads."""
    figures = run_alone(measure_matmul, SIZE, run.threads)
    yield Row("machine: sgemm peak", figures.pop("gigaflops"), "GF/s", details=figures)


def measure_matmul(size: int, n_threads: int) -> Figures:
    """Multiply large float32 matrices some times by each library; the fastest time counts."""
    import torch

    torch.set_num_threads(n_threads)
    a, b = torch.rand(size, size), torch.rand(size, size)
    libraries = {"torch": lambda: torch.mm(a, b)}
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # not a documented operator
        libraries["onednn"] = lambda: torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")
    gigaflops = {}
    for name, multiply in libraries.items():
        seconds = []
        for _ in range(MATMULS):
            started = time.perf_counter()
            multiply()
            seconds.append(time.perf_counter() - started)
        gigaflops[name] = 2 * size**3 / min(seconds) / 1e9
    return {"gigaflops": max(gigaflops.values()), "ways": gigaflops, "threads": n_threads, "size": size}
