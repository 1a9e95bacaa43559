"""Threads: each runs the network on a part of the documents, or does one of the jobs that a single document needs.

On a CPU, one thread for each part is faster than all threads on every small matmul of one large batch: they never
wait for each other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

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
    needed runs here as well, so jobs may have jobs of their own. With one torch thread, all run here.
    """
    if getattr(_inside, "jobs", False):
        return _share(jobs)
    if torch.get_num_threads() == 1:
        return [_run(job) for job in jobs]
    _inside.jobs = True
    try:
        with one_thread():
            return _share(jobs)
    finally:
        _inside.jobs = False


def _share(jobs: Sequence[Callable[[], R]]) -> list[R]:
    futures = [helper_thread(os.getpid()).submit(_run, job) for job in jobs[1:]]
    try:
        results = [_run(job) for job in jobs[:1]]
        for job, future in zip(jobs[1:], futures, strict=True):
            results.append(_run(job) if future.cancel() else future.result())  # the helper may still be busy
    finally:
        for future in futures:
            future.cancel()
    return results


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
