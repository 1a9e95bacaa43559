"""What to change where a training does not fit into memory: every proposal is planned again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from haxmlnet.planning.memory import Memory
from haxmlnet.planning.shape import ModelShape


@dataclass(frozen=True)
class Change:
    """A change of one setting, and what it saves at the peak."""

    setting: str
    value: Any
    saved: int
    fits: bool
    """Whether this change is enough."""

    @property
    def flag(self) -> str:
        """The change as a flag of the command line."""
        name = self.setting.replace("_", "-")
        return f"--no-{name}" if self.value is False else f"--{name} {self.value}"

    @property
    def argument(self) -> str:
        """The change as an argument in Python."""
        return f"{self.setting}={self.value!r}"


def _halves(least: int) -> Callable[[int], Iterator[int]]:
    def values(now: int) -> Iterator[int]:
        while now // 2 >= least:
            now //= 2
            yield now

    return values


def _on(now: bool) -> Iterator[bool]:
    yield from [] if now else [True]


def _off(now: bool) -> Iterator[bool]:
    yield from [False] if now else []


def _never(now: float) -> Iterator[float]:
    yield from [1.0] if now < 1 else []


def _fewer(now: int) -> Iterator[int]:
    yield from range(now - 1, 0, -1)


# The gentlest first: those on top change the least of what is learned.
VALUES: dict[str, Callable[[Any], Iterator[Any]]] = {
    "batch_size": _halves(16),
    "averaging_start": _never,
    "vocabulary_size": _halves(50_000),
    "n_trees": _fewer,
    "candidates": _halves(200),
    "max_first_level": _halves(128),
    "row_moments": _on,
    "hidden_size": _halves(64),
    "linear": _off,
    "max_length": _halves(100),
    "word_size": _halves(50),
    "train_word_vectors": _off,
    "own_outputs": _off,
}
WORTH_NAMING = 0.02


def advice(shape: ModelShape, available: int) -> list[Change]:
    """Give the changes that make a training fit, the gentlest first; where none does alone, those that do together.

    Where even all of them together do not, the last one says so: it does not fit.
    """
    enough = [change for change in _changes(shape, available) if change.fits]
    return enough or _together(shape, available)


def changed(shape: ModelShape, changes: Mapping[str, Any]) -> ModelShape:
    """Give the shape with other settings."""
    return replace(shape, settings={**shape.settings, **changes})


def fits(shape: ModelShape, available: int) -> bool:
    """Say whether a training fits into so much free memory, beside what the process has already."""
    memory = Memory(shape)
    return memory.training_peak - memory.present <= available


def _changes(shape: ModelShape, available: int) -> list[Change]:
    return [change for name in VALUES if (change := _change(shape, name, available)) is not None]


def _change(shape: ModelShape, name: str, available: int) -> Change | None:
    """Find the smallest change of a setting that is enough, or else the largest."""
    peak, found = Memory(shape).training_peak, None
    now = min(shape.settings[name], shape.vocabulary) if name == "vocabulary_size" else shape.settings[name]
    if name == "word_size" and shape.settings["vectors"] is not None:
        return None
    for value in VALUES[name](now):
        other = changed(shape, {name: value})
        saved = peak - Memory(other).training_peak
        if saved > WORTH_NAMING * peak and (found is None or saved > found.saved):
            found = Change(name, value, saved, fits(other, available))
        if found is not None and found.fits:
            break
    return found


def _together(shape: ModelShape, available: int) -> list[Change]:
    """Make one change after the other, the one that saves most first, until it fits.

    After each of them another part may be the largest.
    """
    taken: list[Change] = []
    while changes := _changes(shape, available):
        enough = [change for change in changes if change.fits]
        taken.append(enough[0] if enough else max(changes, key=lambda change: change.saved))
        if enough:
            break
        shape = changed(shape, {taken[-1].setting: taken[-1].value})
    return taken
