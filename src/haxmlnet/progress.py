"""How long work reports itself: silent in the library, bars and lines on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Progress:
    """Receives news of long work; this one stays silent."""

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Open a stage, of known length or not; call what it gives with the units done and perhaps a short note."""
        yield lambda n, note="": None

    def say(self, line: str) -> None:
        """Report one line worth keeping."""
