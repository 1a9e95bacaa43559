"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.bootstrap import N_RESAMPLES, Difference
from benchmarks.judging import PARTS, RANKED
from benchmarks.summaries import Group, Row

NO_FIGURE = "-"
ABLATION_METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@5")
SUMMARY_METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "RP@5", "PSP@1", "PSP@5")
TIMES = {
    "train_seconds": ("training s", "{:,.0f}"), "batch_ms": ("batch ms/doc", "{:.2f}"),
    "single_ms": ("single ms/doc", "{:.1f}"),
}  # fmt: skip
SIZES = {"peak_memory_mb": ("training memory MB", "{:,.0f}"), "model_mb": ("model MB", "{:,.1f}")}


def accuracy_table(group: Group) -> str:
    """P, nDCG, RP and PSP."""
    return _table(["method", *RANKED], [[_name(row), *_metric_cells(group, row, RANKED)] for row in group.rows])


def frequency_table(group: Group) -> str:
    """What frequent and rare labels contribute to P@5, and whether scores are probabilities."""
    metrics = [f"{part} P@5" for part in PARTS]
    least = min(row.mean("ECE") for row in group.rows)
    rows = []
    for row in group.rows:
        error = f"{row.mean('ECE'):.4f}"
        rows.append([_name(row), *_metric_cells(group, row, metrics), _bold(error, row.mean("ECE") == least)])
    return _table(["method", *metrics, "ECE"], rows)


def cost_table(group: Group) -> str:
    """Time and memory of training, time of prediction, size of the model."""
    rows = []
    for row in group.rows:
        times = {name: _figure(row.cost(name), form) for name, (_, form) in TIMES.items()}
        sizes = {name: _figure(row.size(name), form) for name, (_, form) in SIZES.items()}
        rows.append([_name(row), *times.values(), *sizes.values(), str(len(row.runs))])
    heads = [head for head, _ in (*TIMES.values(), *SIZES.values())]
    return _table(["method", *heads, "seeds"], rows)


def summary_table(group: Group) -> str:
    """The figures most people look for, in one table."""
    rows = []
    for row in group.rows:
        times = [_figure(row.cost(name), TIMES[name][1]) for name in ("train_seconds", "batch_ms")]
        rows.append([_name(row), *_metric_cells(group, row, SUMMARY_METRICS), *times])
    return _table(["method", *SUMMARY_METRICS, "training s", "ms/doc"], rows)


def difference_table(group: Group) -> str:
    """Points above or below the best peer of each column, with 95 % intervals."""
    rows = []
    for row in group.rows:
        found = group.differences.get(row.name)
        if found is not None and not row.is_peer:
            gaps = (_interval(found[metric]) if metric in found else NO_FIGURE for metric in SUMMARY_METRICS)
            rows.append([_name(row), *gaps])
    best = {metric: value.peer for row in group.differences.values() for metric, value in row.items()}
    if not rows:
        return ""
    peers = ["*best peer*", *(best.get(metric, NO_FIGURE) for metric in SUMMARY_METRICS)]
    return _table(["method", *SUMMARY_METRICS], [*rows, peers])


def ablation_table(group: Group) -> str:
    """What a setting is worth: each row with changed settings, and its difference to the same one without.

    A row with several changes is compared with the one that has the most of its first ones.
    """
    rows = []
    for row in group.rows:
        changed = row.name.removeprefix(row.unchanged).strip(" ()")
        found = group.changes.get(row.name)
        if not changed and not any(group.without_change(other) == row.name for other in group.rows):
            continue
        metrics = [f"{row.mean(metric):.2f}" for metric in ABLATION_METRICS]
        gaps = [NO_FIGURE if found is None else _interval(found[metric]) for metric in ("P@1", "nDCG@5", "PSP@5")]
        rows.append([f"`{changed}`" if changed else row.name, *metrics, *gaps])
    heads = [*ABLATION_METRICS, "P@1: difference", "nDCG@5: difference", "PSP@5: difference"]
    return _table(["", *heads], rows)


def notes(group: Group) -> str:
    """Return how the tables are to be read."""
    first = group.rows[0].runs[0]
    threads = " or ".join(sorted({str(run["threads"]) for row in group.rows for run in row.runs}))
    lines = [
        f"{first['n_train']:,} documents to train on, {first['n_judged']:,} judged, {first['n_labels']:,} labels in "
        f"training; {threads} threads. Metrics in percent; **bold** is the best of a column. "
        "In PSP, as in all metrics, true labels that training never saw count as missed."
    ]
    if any(row.spread("P@1") is not None for row in group.rows):
        lines.append("± is the standard deviation over the seeds.")
    if group.differences:
        lines.append(
            "† is above and ‡ below the best peer of the column: the 95 % interval of the difference leaves out 0 "
            f"(paired bootstrap over the documents, {N_RESAMPLES:,} resamples; seeds are averaged first)."
        )
        compared = {metric for found in group.differences.values() for metric in found}
        left_out = [metric for metric in RANKED if metric not in compared]
        if left_out:
            lines.append(f"Not compared, as the best peer's predictions are of another machine: {', '.join(left_out)}.")
    lines.append(
        "Peers (\\*) are others' methods and the linear baseline. Times run from texts in memory: those of the "
        "linear peers include their TF-IDF. ECE: expected calibration error of the five best scores, 15 bins."
    )
    if any(row.cost("train_seconds") is None for row in group.rows):
        lines.append(f"Times taken while other work ran on the machine are left out ({NO_FIGURE}).")
    return "\n".join(lines)


TABLES: dict[str, Callable[[Group], str]] = {
    "summary": summary_table, "accuracy": accuracy_table, "frequency": frequency_table, "cost": cost_table,
    "differences": difference_table, "ablations": ablation_table, "notes": notes,
}  # fmt: skip


def all_tables(group: Group, figures: str) -> str:
    """Everything about a group, under a heading, with its figures from the folder `figures`."""
    parts = [f"### {group.data}, {group.split} split", notes(group), accuracy_table(group)]
    if difference_table(group):
        parts += ["Difference to the best peer, in points:", difference_table(group)]
    parts += [frequency_table(group), cost_table(group)]
    if group.split == "test":
        parts += [f"![{text}]({figures}/{name}_{group.data}.svg)" for name, text in FIGURES.items()]
    return "\n\n".join(parts)


FIGURES = {"accuracy_time": "Accuracy against training time", "reliability": "Score against share of true labels"}


def _metric_cells(group: Group, row: Row, metrics: Sequence[str]) -> list[str]:
    cells = []
    for metric in metrics:
        best = max(f"{other.mean(metric):6.2f}" for other in group.rows)  # as printed: equal figures are equally best
        text = f"{row.mean(metric):.2f}"
        cells.append(_bold(text, text == best.strip()) + _spread(row, metric) + _mark(group, row, metric))
    return cells


def _mark(group: Group, row: Row, metric: str) -> str:
    difference = group.differences.get(row.name, {}).get(metric)
    if difference is None or row.is_peer or not difference.is_significant:
        return ""
    return " †" if difference.low > 0 else " ‡"


def _spread(row: Row, metric: str) -> str:
    spread = row.spread(metric)
    return "" if spread is None else f" ± {spread:.2f}"


def _interval(difference: Difference) -> str:
    return f"{difference.points:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]"


def _name(row: Row) -> str:
    return row.name + (" \\*" if row.is_peer else "")


def _bold(text: str, is_best: bool) -> str:
    return f"**{text}**" if is_best else text


def _figure(value: float | None, form: str) -> str:
    return NO_FIGURE if value is None else form.format(value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
