"""What to change where a training does not fit into memory: every proposal is planned again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from haxmlnet.planning.model_shape import ModelShape
from haxmlnet.planning.training_memory import Memory


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


def halve_to(least: int) -> Callable[[int], Iterable[int]]:
    """Try half of a number, half of that, and so on."""
    return lambda now: [now >> n for n in range(1, now.bit_length()) if now >> n >= least]


def switch_to(value: Any) -> Callable[[Any], Iterable[Any]]:
    """Try one other value."""
    return lambda now: [] if now == value else [value]


# What is tried, from the value as it is. The gentlest first: those on top change the least of what is learned.
VALUES: dict[str, Callable[[Any], Iterable[Any]]] = {
    "batch_size": halve_to(16),
    "averaging_start": switch_to(1.0),
    "vocabulary_size": halve_to(50_000),
    "n_trees": lambda now: range(now - 1, 0, -1),
    "candidates": halve_to(200),
    "max_first_level": halve_to(128),
    "row_moments": switch_to(True),
    "hidden_size": halve_to(64),
    "linear": switch_to(False),
    "max_length": halve_to(100),
    "word_size": halve_to(50),
    "train_word_vectors": switch_to(False),
    "own_outputs": switch_to(False),
}
WORTH_NAMING = 0.02


def advise(shape: ModelShape, available: int) -> list[Change]:
    """Return the changes that make a training fit, the gentlest first; where none does alone, those that do together.

    Where even all of them together do not, the last one says so: it does not fit.
    """
    together: list[Change] = []
    while changes := [change for name in VALUES if (change := find_change(shape, name, available)) is not None]:
        enough = [change for change in changes if change.fits]
        if enough:
            return [*together, enough[0]] if together else enough
        # The one that saves most; after it, another part may be the largest.
        together.append(max(changes, key=lambda change: change.saved))
        shape = shape.with_settings(**{together[-1].setting: together[-1].value})
    return together


def find_change(shape: ModelShape, name: str, available: int) -> Change | None:
    """Find the smallest change of a setting that is enough, or else the one that saves most."""
    peak, found = Memory(shape).training_peak, None
    now = shape.settings[name]
    if name == "vocabulary_size":
        now = min(now, shape.vocabulary)
    if name == "word_size" and shape.config.text.vectors is not None:
        return None
    for value in VALUES[name](now):
        memory = Memory(shape.with_settings(**{name: value}))
        saved = peak - memory.training_peak
        if saved > WORTH_NAMING * peak and (found is None or saved > found.saved):
            found = Change(name, value, saved, memory.needed <= available)
        if found is not None and found.fits:
            break
    return found
