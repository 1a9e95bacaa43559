"""Threads that each run the network on a part of the documents, or on one direction of a single document.

On a processor, one thread for each part is faster than all threads on every small product of one large batch:
they never wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import torch

P = TypeVar("P")
R = TypeVar("R")

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Applies a function to parts, side by side, and gives the results in their order."""


@contextmanager
def workers(n_workers: int) -> Iterator[Map]:
    """Give a `map` that works in so many threads, which share the processor threads of torch; one: no threads."""
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


@contextmanager
def one_thread_each(behind: Callable[[], R]) -> Iterator[tuple[Map, Callable[[], R]]]:
    """Give a `map` of two jobs at a time, one of them in a thread that waits for such work, each with one thread.

    That thread goes on with the work `behind`; the second that is given waits for it, or does it if nobody has begun.
    Nothing in it learns: gradients are off.
    """
    helper = _helper(os.getpid()) if torch.get_num_threads() > 1 else None
    begun: list[Future[R]] = []

    def run(function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        if helper is None:
            yield from map(function, jobs)
            return
        first, *others = jobs
        waiting = [(job, helper.submit(_without_gradients, function, job)) for job in others]
        if not begun:
            begun.append(helper.submit(_without_gradients, lambda _: behind(), None))
        yield function(first)
        for job, result in waiting:  # the helper may still be busy with the document of another thread
            yield function(job) if result.cancel() else result.result()

    @cache
    def work_behind() -> R:
        return behind() if not begun or begun[0].cancel() else begun[0].result()

    with one_thread():
        yield run, work_behind


def _without_gradients(function: Callable[[P], R], job: P) -> R:
    with torch.inference_mode():  # each thread has its own mode
        return function(job)


@cache
def _helper(process: int) -> ThreadPoolExecutor:
    # A process that is a copy of another one has none of its threads.
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
