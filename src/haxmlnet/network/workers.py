"""Threads that each run the network on a part of the documents, or on one direction of a single document.

On a processor, one thread for each part is faster than all threads on every small product of one large batch:
they never wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
def one_thread_each() -> Iterator[Map]:
    """Give a `map` of two jobs at a time, one of them in a thread that waits for such work, each with one thread.

    Nothing in it learns: gradients are off.
    """
    run = _two_at_a_time if torch.get_num_threads() > 1 else map
    with one_thread():
        yield run


def _two_at_a_time(function: Callable[[P], R], jobs: Iterable[P]) -> Iterator[R]:
    first, *others = jobs
    waiting = [(job, _helper(os.getpid()).submit(_without_gradients, function, job)) for job in others]
    yield function(first)
    for job, result in waiting:  # the helper may still be busy with the document of another thread
        yield function(job) if result.cancel() else result.result()


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
