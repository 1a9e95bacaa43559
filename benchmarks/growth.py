"""How the time for a document grows with the number of labels: HAXMLNet with its defaults, on synthetic documents.

    python -m benchmarks.growth --labels 4000 16000 60000 250000 670000 --steps 20

Only the number of labels differs: documents have 50 words and 5 labels, as many as bring all labels into training,
and a batch has 64 documents. For each number a model is trained for a few batches, as a good one predicts no faster.

- training: seconds of `--steps` whole batches (candidates, forward, backward, optimizer) after some to warm up, over
  the documents in them. Tokenization, label features, tree, validation and the linear part are not in it.
- nodes scored: those of all levels that a training document is compared with.
- batch: all `--documents-predicted` texts in one call, from text to ranking, over their number; the median of three.
- single: the median of texts one by one.
- peak memory: what the process of training, linear part included, has for itself.

Training and each prediction run in a process of their own, on an otherwise idle machine if figures are to be published.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measuring import Figures, round_figures, run_alone
from benchmarks.speed import one_document
from benchmarks.speed.models import fewest_documents, texts_of_length, training_documents
from benchmarks.speed.row import ROOT, median_seconds
from benchmarks.speed.training import WARM_UP, StepClock
from benchmarks.svg import FAINT, INK, Drawing, Scale
from benchmarks.synthetic import Statistics
from haxmlnet.data import replace_file
from haxmlnet.settings import Settings

if TYPE_CHECKING:  # torch stays out of the memory of the process that only starts others
    from benchmarks.speed.flops import Call

LABELS = (4_000, 16_000, 60_000, 250_000, 670_000)
WORDS, DIFFERENT_WORDS, LABELS_PER_DOCUMENT, BATCH_SIZE = 50, 100_000, 5.0, 64
# With fewer, so few are held out that the fusion cannot be fitted and the linear part is missing.
MIN_DOCUMENTS_OF_BATCH = 1_500
SINGLE_TEXTS, ROUNDS = 200, 3
FIGURE = ROOT / "benchmarks/figures/growth.svg"
LINES = {"training_ms": ("training", "#c2410c"), "batch_ms": ("prediction", "#1d4ed8")}
COLUMNS = {
    "labels": ("labels", "{:,}"), "levels": ("nodes of the levels above", "{}"), "documents": ("documents", "{:,}"),
    "nodes_scored": ("nodes scored", "{:,.0f}"), "training_ms": ("training, ms", "{:.2f}"),
    "batch_ms": ("batch, ms", "{:.3f}"), "single_ms": ("single, ms", "{:.2f}"),
    "peak_gigabytes": ("peak, GB", "{:.2f}"),
}  # fmt: skip
WIDTHS = (9, 27, 11, 14, 14, 11, 12, 10)


def statistics_of(n_labels: int, steps: int) -> Statistics:
    """Take as few documents as have all labels and are enough for the steps; texts are cut to half their words."""
    # A pass ends with validation, which is no part of a step, so that all steps are those of one pass.
    of_one_pass = math.ceil(total_steps(steps) * BATCH_SIZE / (1 - Settings().validation_fraction))
    n_documents = max(fewest_documents(n_labels, LABELS_PER_DOCUMENT), of_one_pass, MIN_DOCUMENTS_OF_BATCH)
    return Statistics(n_documents, 1, DIFFERENT_WORDS, n_labels, LABELS_PER_DOCUMENT, 2.0 * WORDS, 2.0 * WORDS)


def total_steps(steps: int) -> int:
    """Add up the steps of a training: warm-up, timed ones, and one that is not timed, as it ends with validation."""
    return WARM_UP + steps + 1


def measure(n_labels: int, steps: int, n_predicted: int, n_threads: int, seed: int, folder: Path) -> Figures:
    """Train a model, then predict texts of the same length by it, all at once and one by one."""
    statistics, directory = statistics_of(n_labels, steps), folder / f"model-{n_labels}"
    training = run_alone(train, statistics, steps, n_threads, seed, directory)
    texts = texts_of_length(statistics, seed, n_predicted, WORDS, folder / "texts.jsonl")
    batch = run_alone(predict_at_once, directory, texts, n_threads)
    one_by_one = [*islice(cycle(texts), one_document.WARM_UP), *texts[:SINGLE_TEXTS]]
    single = run_alone(one_document.predict_one_by_one, directory, one_by_one, n_threads)
    return {
        "labels": n_labels,
        "levels": " > ".join(f"{size:,}" for size in single["level_sizes"][:-1]) or "none",
        "documents": statistics.n_train,
        "nodes_scored": training["nodes_scored"],
        "training_ms": training["training_ms"],
        "batch_ms": batch["batch_ms"],
        "single_ms": single["median_ms"],
        "peak_gigabytes": training["peak_anonymous_bytes"] / 1e9,
        "details": {"training": training, "batch": batch, "single": single},
    }


def train(statistics: Statistics, steps: int, n_threads: int, seed: int, directory: Path) -> Figures:
    """Train a default model for some steps, time them, and keep the model."""
    from benchmarks.speed.flops import record_calls
    from haxmlnet import HAXMLNet

    n_steps = total_steps(steps)
    texts, labels = training_documents(statistics, seed, directory.with_suffix(".jsonl"))
    texts = [" ".join(text.split()[:WORDS]) for text in texts]
    model = HAXMLNet(max_steps=n_steps, batch_size=BATCH_SIZE, n_jobs=n_threads, random_state=seed)
    with record_calls() as calls:
        clock = StepClock(lambda: len(calls), n_steps + 1)  # the training stops by itself, and the model is whole
        model.fit(texts, labels, progress=clock)
    clock.ends.pop()  # the last step ends with validation
    seconds, timed = clock.after(WARM_UP)
    model.save(directory)
    figures = divide_by_documents(calls[timed], seconds)
    return {**figures, "step_seconds": seconds, "training_seconds": model.training_["seconds"]}


def divide_by_documents(calls: Sequence[Call], seconds: Sequence[float]) -> Figures:
    """Divide the time of some steps, and the nodes scored in them, by their documents."""
    from benchmarks.speed.flops import EncoderCall

    n_documents = n_words = n_scored = 0
    for call in calls:
        if isinstance(call, EncoderCall):
            n_documents, n_words = n_documents + len(call.lengths), n_words + int(call.lengths.sum())
        else:
            n_scored += int(call.n_scored().sum())
    return {
        "training_ms": 1000 * sum(seconds) / n_documents,
        "nodes_scored": n_scored / n_documents,
        "words": n_words / n_documents,
        "documents_timed": n_documents,
    }


def predict_at_once(directory: Path, texts: list[str], n_threads: int) -> Figures:
    """Time all texts in one call after a warm-up."""
    import haxmlnet

    model: Any = haxmlnet.load_model(directory)
    model.n_jobs = n_threads
    model.predict(texts, k=one_document.K)
    seconds, all_seconds = median_seconds(lambda: model.predict(texts, k=one_document.K), ROUNDS)
    return {"batch_ms": 1000 * seconds / len(texts), "texts": len(texts), "seconds": all_seconds}


def draw_growth(rows: Sequence[Figures]) -> str:
    """Draw milliseconds for a document over the number of labels, both logarithmic."""
    drawing = Drawing(760, 460, "Time for a document against the number of labels")
    values = [row[name] for row in rows for name in LINES]
    x = Scale(*_bounds([row["labels"] for row in rows]), 80, 730, is_log=True)
    y = Scale(*_bounds(values), 400, 50, is_log=True)
    drawing.text(80, 24, f"Milliseconds for a document of {WORDS} words against the number of labels")
    _draw_axes(drawing, x, y)
    for name, (words, color) in LINES.items():
        points = [(x(row["labels"]), y(row[name])) for row in rows]
        drawing.line(points, color, 2)
        for point in points:
            drawing.mark(*point, color, is_round=True)
        for (at_x, at_y), row in zip(points, rows, strict=True):
            drawing.label(at_x, at_y, f"{row[name]:.2g}", color)
        drawing.label(points[-1][0], points[-1][1] - 18, words, color)
    return drawing.render()


def _draw_axes(drawing: Drawing, x: Scale, y: Scale) -> None:
    for value in round_numbers(x.low, x.high):
        drawing.line([(x(value), y.start), (x(value), y.end)], FAINT)
        drawing.text(x(value), y.start + 18, f"{value:,.0f}", anchor="middle")
    for value in round_numbers(y.low, y.high):
        drawing.line([(x.start, y(value)), (x.end, y(value))], FAINT)
        drawing.text(x.start - 8, y(value) + 4, f"{value:g}", anchor="end")
    drawing.line([(x.start, y.end), (x.start, y.start), (x.end, y.start)], INK)
    drawing.text((x.start + x.end) / 2, 446, "labels, logarithmic", anchor="middle")
    drawing.text(24, (y.start + y.end) / 2, "ms for a document, logarithmic", anchor="middle", turn=-90)
    drawing.taken.append((0, 0, x.start, drawing.height))


def round_numbers(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, from the last one below `low` to the first one above `high`."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
    numbers = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)]
    first = max(i for i, number in enumerate(numbers) if number <= low)
    last = min(i for i, number in enumerate(numbers) if number >= high)
    return numbers[first : max(last, first + 1) + 1]


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    numbers = round_numbers(min(values), max(values))
    return numbers[0], numbers[-1]


def format_row(row: Mapping[str, Any]) -> str:
    """Write the figures of one number of labels as a line of the table."""
    cells = [form.format(row[name]) for name, (_, form) in COLUMNS.items()]
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def main(arguments: list[str] | None = None) -> int:
    """Measure each number of labels, print a table and JSON, and draw the figure."""
    chosen = _parser().parse_args(arguments)
    titles = [title for title, _ in COLUMNS.values()]
    print("".join(f"{title:>{width}}" for title, width in zip(titles, WIDTHS, strict=True)), flush=True)
    rows = []
    for n_labels in sorted(chosen.labels):
        with tempfile.TemporaryDirectory(prefix="growth-", dir=chosen.folder) as folder:
            rows.append(
                measure(n_labels, chosen.steps, chosen.documents_predicted, chosen.threads, chosen.seed, Path(folder))
            )
        print(format_row(rows[-1]), flush=True)
    chosen.figure.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(chosen.figure) as temporary:
        temporary.write_text(draw_growth(rows), "utf-8")
    print(f"{chosen.figure}: drawn", file=sys.stderr)
    print(json.dumps(round_figures({"steps": chosen.steps, "threads": chosen.threads, "words": WORDS, "rows": rows})))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=_positive, nargs="+", default=LABELS, metavar="N", help="numbers of labels")
    parser.add_argument("--steps", type=_positive, default=20, help="training steps that are timed (%(default)s)")
    parser.add_argument("--documents-predicted", type=_positive, default=500, metavar="N", help="texts (%(default)s)")
    parser.add_argument("--figure", type=Path, default=FIGURE, metavar="FILE", help="the figure, SVG")
    parser.add_argument("--threads", type=_positive, default=2, metavar="N", help="threads (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where temporary folders are made (default: that of the system)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number


if __name__ == "__main__":
    raise SystemExit(main())
