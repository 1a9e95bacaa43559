"""Drawings as SVG text: axes, marks and labels, no library needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

LETTER_WIDTH, LINE_HEIGHT = 6.4, 15.0
INK, FAINT, PAPER = "#1f2937", "#d1d5db", "#ffffff"

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Scale:
    """Values to places on the paper, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        low, high, at = (math.log(v) if self.is_log else v for v in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)


@dataclass
class Drawing:
    """Elements of a picture, in the order they are painted."""

    width: float
    height: float
    title: str
    elements: list[str] = field(default_factory=list)
    taken: list[Box] = field(default_factory=list)
    """Where labels must not go."""

    def line(self, points: Sequence[tuple[float, float]], color: str, width: float = 1, dash: str = "") -> None:
        """Draw a line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.elements.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"{dashes}/>')

    def text(self, x: float, y: float, words: str, color: str = INK, anchor: str = "start", turn: float = 0) -> None:
        """Write words; `turn` is in degrees."""
        turned = f' transform="rotate({turn:g} {x:.1f} {y:.1f})"' if turn else ""
        self.elements.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}"{turned}>{escape(words)}</text>'
        )

    def mark(self, x: float, y: float, color: str, is_round: bool) -> None:
        """Draw a disc or a square."""
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5.5"' if is_round else (
            f'<rect x="{x - 4.5:.1f}" y="{y - 4.5:.1f}" width="9" height="9"'
        )  # fmt: skip
        self.elements.append(f'{shape} fill="{color}"/>')
        self.taken.append((x - 7, y - 7, x + 7, y + 7))

    def label(self, x: float, y: float, words: str, color: str) -> None:
        """Write words beside a mark, where there is room."""
        length = LETTER_WIDTH * len(words)
        places = [(x + 10, y + 4, "start"), (x - 10, y + 4, "end"), (x, y - 11, "middle"), (x, y + 20, "middle")]
        places += [(x + 10, y + shift, "start") for shift in (-9, 17, -20, 28, -32, 40)]
        places += [(x - 10, y + shift, "end") for shift in (-9, 17, -20, 28, -32, 40)]
        boxes = {place: _box(*place, length) for place in places}
        place = next((place for place in places if self._is_free(boxes[place])), places[0])
        self.taken.append(boxes[place])
        self.text(place[0], place[1], words, color, place[2])

    def render(self) -> str:
        """Return the SVG file."""
        body = "\n".join(self.elements)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" role="img" '
            'font-family="system-ui, sans-serif" font-size="12">\n'
            f"<title>{escape(self.title)}</title>\n"
            f'<rect width="100%" height="100%" fill="{PAPER}"/>\n{body}\n</svg>\n'
        )

    def _is_free(self, box: Box) -> bool:
        left, top, right, bottom = box
        inside = left > 0 and right < self.width and top > 0 and bottom < self.height
        return inside and not any(
            left < r and l < right and top < b and t < bottom
            for l, t, r, b in self.taken  # noqa: E741
        )


def _box(x: float, y: float, anchor: str, length: float) -> Box:
    left = {"start": x, "end": x - length, "middle": x - length / 2}[anchor]
    return left, y - LINE_HEIGHT + 4, left + length, y + 3
