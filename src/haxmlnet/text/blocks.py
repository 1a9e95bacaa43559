"""Cutting texts and matrices into blocks, and working on the blocks with threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

# Large enough that a word of a block is looked up once for its many uses, small enough to stay in a cache.
BLOCK_CHARACTERS = 1_000_000
BLOCK_TEXTS = 10_000

Item = TypeVar("Item")
Result = TypeVar("Result")


def iterate_blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Collect texts into lists of at most `BLOCK_TEXTS` texts and about `BLOCK_CHARACTERS` characters."""
    block: list[str] = []
    n_characters = 0
    for text in texts:
        block.append(text)
        n_characters += len(text)
        if n_characters >= BLOCK_CHARACTERS or len(block) == BLOCK_TEXTS:
            yield block
            block, n_characters = [], 0
    if block:
        yield block


def iterate_ranges(bounds: NDArray[np.int64], n_entries: int) -> Iterator[tuple[int, int]]:
    """Cut rows that end at `bounds[1:]` into ranges (start, stop) of about `n_entries` entries, at least one row."""
    start, n_rows = 0, len(bounds) - 1
    while start < n_rows:
        stop = int(np.searchsorted(bounds, bounds[start] + n_entries, side="right")) - 1
        stop = min(max(stop, start + 1), n_rows)
        yield start, stop
        start = stop


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item], n_threads: int) -> Iterator[Result]:
    """Yield the results of the items in order, while threads work on the few items that follow."""
    if n_threads == 1:
        yield from map(function, items)
        return
    ahead: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for item in items:
                ahead.append(pool.submit(function, item))
                if len(ahead) > n_threads + 1:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
