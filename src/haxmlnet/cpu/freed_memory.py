"""What becomes of freed memory while a network runs."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# Numbers of glibc's malloc.h.
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
USUAL_TOP_PAD = 128 * 1024
MAX_MMAP_THRESHOLD = 32 * 2**20
"""The most that glibc takes, and what it arrives at by itself when arrays of this size come and go."""

# The memory belongs to the process, and so does the number of blocks that want it kept.
_lock = threading.Lock()
_n_blocks = 0


@contextmanager
def kept_memory() -> Iterator[None]:
    """Let the process keep what it frees inside the block, for the next arrays of the same size.

    Otherwise every batch gives its arrays back to the system and is handed empty pages again: an eighth of the time
    of a training step. It stays with the process for the next block, until `give_memory_back`. Only where glibc
    manages memory and nobody has told it how; elsewhere this does nothing.
    """
    global _n_blocks
    libc = _glibc()
    if libc is None:
        yield
        return
    with _lock:
        _n_blocks += 1
        libc.mallopt(MMAP_THRESHOLD, MAX_MMAP_THRESHOLD)
        libc.mallopt(TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(TOP_PAD, 2 * MAX_MMAP_THRESHOLD)  # keeps the heaps of threads, which have 64 MB each
    try:
        yield
    finally:
        with _lock:
            _n_blocks -= 1
            if _n_blocks == 0:
                # The other threshold stays: glibc no longer adjusts it, and would have raised it as far by now.
                libc.mallopt(TOP_PAD, USUAL_TOP_PAD)
                libc.mallopt(TRIM_THRESHOLD, 2 * MAX_MMAP_THRESHOLD)


def give_memory_back() -> None:
    """Return what the process has freed back to the system."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> Any:
    is_told = any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ)
    if not sys.platform.startswith("linux") or is_told:
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
