"""Figures: accuracy against training time, and how far scores are probabilities."""

from __future__ import annotations

import math

from benchmarks.summaries import Group
from benchmarks.svg import FAINT, INK, Drawing, Scale

OURS = ("#c2410c", "#7c3aed", "#be185d", "#b45309", "#4d7c0f", "#0e7490")
PEERS = ("#1d4ed8", "#0f766e", "#475569", "#0369a1", "#4338ca", "#78716c")
METRIC = "nDCG@5"
UNTIMED = 705
"""Where rows stand that were not run on an idle machine."""
MARKS = ((1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (36_000, "10 h"), (360_000, "100 h"))


def draw_accuracy_time(group: Group) -> str:
    """Draw nDCG@5 over the training time, ours as discs and peers as squares; those without a time stand behind."""
    drawing = Drawing(760, 460, f"{group.data}: {METRIC} against training time")
    timed = [(row, seconds) for row in group.rows if (seconds := row.cost("train_seconds")) is not None]
    drawing.text(70, 24, f"{group.data}, {group.split} split: {METRIC} against training time")
    if not timed:
        drawing.text(380, 230, "no times were taken on an idle machine yet", anchor="middle")
        return drawing.render()
    untimed = [row for row in group.rows if row.cost("train_seconds") is None]
    x = _time_scale([seconds for _, seconds in timed], 660 if untimed else 730)
    values = [row.mean(METRIC) for row in group.rows]
    margin = max(0.1 * (max(values) - min(values)), 0.5)
    y = Scale(min(values) - margin, max(values) + margin, 410, 45)
    _draw_axes(drawing, x, y)
    drawing.taken.append((0, 0, x.start, drawing.height))
    if untimed:
        drawing.line([(UNTIMED, y.start), (UNTIMED, y.end)], FAINT, dash="4 4")
        drawing.text(UNTIMED, y.start + 18, "not timed", anchor="middle")
    places = [(x(seconds), row) for row, seconds in timed] + [(float(UNTIMED), row) for row in untimed]
    colors = _colors(group)
    for place, row in places:
        drawing.mark(place, y(row.mean(METRIC)), colors[row.name], not row.is_peer)
    for place, row in sorted(places, key=lambda pair: -pair[1].mean(METRIC)):
        drawing.label(place, y(row.mean(METRIC)), row.name, colors[row.name])
    return drawing.render()


def draw_reliability(group: Group) -> str:
    """Draw the share of true labels over the mean score; probabilities lie on the diagonal."""
    drawing = Drawing(760, 460, f"{group.data}: share of true labels against score")
    x, y = Scale(0, 1, 70, 430), Scale(0, 1, 410, 50)
    drawing.text(70, 24, f"{group.data}, {group.split} split: how many of the labels with a score are true")
    for tenth in range(0, 11, 2):
        value = tenth / 10
        drawing.line([(x(value), y(0)), (x(value), y(1))], FAINT)
        drawing.line([(x(0), y(value)), (x(1), y(value))], FAINT)
        drawing.text(x(value), y(0) + 18, f"{value:g}", anchor="middle")
        drawing.text(x(0) - 8, y(value) + 4, f"{value:g}", anchor="end")
    drawing.line([(x(0), y(0)), (x(1), y(1))], INK, dash="4 4")
    drawing.text(x(0.5), 448, "mean score", anchor="middle")
    drawing.text(24, y(0.5), "share of true labels", anchor="middle", turn=-90)
    colors = _colors(group)
    for place, row in enumerate(group.rows):
        bins = row.runs[0]["reliability"]
        points = [(x(min(max(s, 0.0), 1.0)), y(t)) for s, t in zip(bins["scores"], bins["true"], strict=True)]
        drawing.line(points, colors[row.name], 2, dash="6 3" if row.is_peer else "")
        drawing.line(
            [(450, 60 + 22 * place), (474, 60 + 22 * place)], colors[row.name], 2, "6 3" if row.is_peer else ""
        )
        drawing.text(482, 64 + 22 * place, f"{row.name}, ECE {row.mean('ECE'):.3f}", colors[row.name])
    return drawing.render()


def _draw_axes(drawing: Drawing, x: Scale, y: Scale) -> None:
    for seconds, words in MARKS:
        if x.low <= seconds <= x.high:
            drawing.line([(x(seconds), y.start), (x(seconds), y.end)], FAINT)
            drawing.text(x(seconds), y.start + 18, words, anchor="middle")
    step = _step(y.high - y.low)
    for count in range(math.ceil(y.low / step), math.floor(y.high / step) + 1):
        drawing.line([(x.start, y(count * step)), (x.end, y(count * step))], FAINT)
        drawing.text(x.start - 8, y(count * step) + 4, f"{count * step:g}", anchor="end")
    drawing.line([(x.start, y.end), (x.start, y.start), (x.end, y.start)], INK)
    drawing.text((x.start + x.end) / 2, 448, "training time, logarithmic", anchor="middle")
    drawing.text(24, (y.start + y.end) / 2, METRIC, anchor="middle", turn=-90)


def _time_scale(seconds: list[float], end: float) -> Scale:
    marks = [mark for mark, _ in MARKS]
    low = max([mark for mark in marks if mark <= min(seconds)], default=min(seconds) / 2)
    high = min([mark for mark in marks if mark >= max(seconds)], default=max(seconds) * 2)
    return Scale(low, high if high > low else 2 * low, 70, end, is_log=True)


def _step(span: float) -> float:
    """Choose 1, 2 or 5 times a power of ten, so that there are four to ten lines."""
    power = 10.0 ** math.floor(math.log10(span / 4))
    return next(factor * power for factor in (5, 2, 1) if factor * power <= span / 4)


def _colors(group: Group) -> dict[str, str]:
    ours = [row.name for row in group.rows if not row.is_peer]
    peers = [row.name for row in group.rows if row.is_peer]
    return {name: OURS[i % len(OURS)] for i, name in enumerate(ours)} | {
        name: PEERS[i % len(PEERS)] for i, name in enumerate(peers)
    }
