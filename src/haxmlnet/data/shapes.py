"""Sizes of arrays, rounded up so that few different ones occur.

What multiplies matrices on a processor compiles a program for each shape, in the time of a small product, and keeps
about a thousand of them.
"""

from __future__ import annotations

# Up to here sizes stay as they are.
SMALL = 32


def few_lengths(n_words: int) -> int:
    """Round the words of the longest document of a batch; usual limits, as 200 words, stay as they are."""
    return _rounded(n_words, 8 if n_words <= 64 else 20)


def few_counts(n_candidates: int) -> int:
    """Round the candidates of the document that has the most in a batch."""
    return _rounded(n_candidates, 16 if n_candidates <= 128 else 64)


def few_rows(n: int) -> int:
    """Round the rows of a long matrix."""
    return _rounded(n, 256)


def _rounded(n: int, step: int) -> int:
    return n if n <= SMALL else -(-n // step) * step
