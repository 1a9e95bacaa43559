"""Threads: each runs the network on a part of the documents, or does one of the jobs that a single document needs.

On a CPU, one thread for each part is faster than all threads on every small matmul of one large batch: they never
wait for each other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, TypeVar

import torch

R = TypeVar("R")

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Applies a function to parts, side by side, and gives the results in their order."""

_inside = threading.local()


@contextmanager
def workers(n_workers: int) -> Iterator[Map]:
    """Return a `map` that works in so many threads, which share the CPU threads of torch; one: no threads."""
    n_threads = torch.get_num_threads()
    if n_workers <= 1:
        yield map
        return
    n_own = max(n_threads // n_workers, 1)
    try:
        with ThreadPoolExecutor(n_workers, initializer=torch.set_num_threads, initargs=(n_own,)) as pool:
            yield pool.map
    finally:
        # A thread that sets its own number also sets what later threads start with.
        torch.set_num_threads(n_threads)


def side_by_side(jobs: Sequence[Callable[[], R]]) -> list[R]:
    """Run jobs at the same time, without gradients and with one torch thread each; return their results in order.

    The first runs here, the others in a thread that waits for such work; one that nobody has begun when its result is
    needed runs here as well. The first may have jobs of its own: these go first, and the others behind them.
    """
    outer: _Others | None = getattr(_inside, "others", None)
    if outer is None and torch.get_num_threads() == 1:
        return [_run(job) for job in jobs]
    others = _Others(jobs[1:])
    if outer is not None:
        others.begin()
        outer.begin()
        return [_run(jobs[0]), *others.finish()]
    _inside.others = others
    try:
        with one_thread():
            return [_run(jobs[0]), *others.finish()]
    finally:
        _inside.others = None
        others.cancel()


class _Others(Generic[R]):
    """Jobs that the waiting thread does once they are begun."""

    def __init__(self, jobs: Sequence[Callable[[], R]]) -> None:
        self.jobs = jobs
        self.futures: list[Future[R]] = []

    def begin(self) -> None:
        """Hand the jobs over."""
        if not self.futures:
            self.futures = [helper_thread(os.getpid()).submit(_run, job) for job in self.jobs]

    def finish(self) -> list[R]:
        """Return the results; what the thread has not begun is done here."""
        self.begin()
        pairs = zip(self.jobs, self.futures, strict=True)
        return [_run(job) if future.cancel() else future.result() for job, future in pairs]

    def cancel(self) -> None:
        """Forget what has not begun."""
        for future in self.futures:
            future.cancel()


def _run(job: Callable[[], R]) -> R:
    with torch.inference_mode():  # each thread has its own mode
        return job()


@cache
def helper_thread(process: int) -> ThreadPoolExecutor:
    """Return the thread that waits for jobs: a process that is a copy of another one has none of its threads."""
    return ThreadPoolExecutor(1, "haxmlnet", torch.set_num_threads, (1,))


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
