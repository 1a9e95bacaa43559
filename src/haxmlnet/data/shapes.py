"""Sizes of arrays, rounded up so that few different ones occur.

The matmul library of a CPU compiles a kernel for each shape, which takes as long as a small matmul, and caches
about a thousand of them.
"""

from __future__ import annotations

# Up to here sizes stay as they are.
SMALL = 32


def round_length(n_tokens: int) -> int:
    """Round the tokens of the longest document of a batch; usual limits, as 200 tokens, stay as they are."""
    return _round_up(n_tokens, 8 if n_tokens <= 64 else 20)


def round_count(n_candidates: int) -> int:
    """Round the candidates of the document that has the most in a batch."""
    return _round_up(n_candidates, 16 if n_candidates <= 128 else 64)


def round_rows(n: int) -> int:
    """Round the rows of a long matrix."""
    return _round_up(n, 256)


def _round_up(n: int, step: int) -> int:
    return n if n <= SMALL else -(-n // step) * step
