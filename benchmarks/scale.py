"""The whole way at any size: text, preparation, tree, training for some steps, saving, loading, predicting, judging.

    python -m benchmarks.scale --labels 67009 --documents 49044 --words 42978 --steps 20

prints the time and the peak memory of each stage and, as its last line, JSON. The documents are synthetic, with the
statistics of Amazon-670K but for the sizes given. Each stage runs in a process of its own, in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import scale_stages as stages
from benchmarks.preparation_parts import Figures, rounded, run_alone
from benchmarks.synthetic import STATISTICS, Statistics

DATA = "amazon-670k"
MOST_GIGABYTES = 24.0


def statistics_of(labels: int, documents: int, words: int, length: float, judged: int) -> Statistics:
    """Take the published statistics with other sizes; documents get more labels where all would not fit."""
    published = STATISTICS[DATA]
    least = 1.2 * labels / documents
    return replace(
        published, n_train=documents, n_test=judged, n_words=words, n_labels=labels, words_train=length,
        words_test=length, labels_per_document=max(published.labels_per_document, least),
    )  # fmt: skip


def planned(statistics: Statistics, seed: int, steps: int, folder: Path) -> Iterator[tuple[str, Callable[[], Figures]]]:
    """Give the stages in their order, each with what runs it."""
    text, judged = folder / "train.jsonl", folder / "test.jsonl"
    corpus, model = folder / "corpus", folder / "model"
    yield "text", lambda: run_alone(stages.write_text, statistics, seed, text, judged)
    yield "prepare", lambda: run_alone(stages.prepare_corpus, text, corpus)
    yield "tree", lambda: run_alone(stages.build_tree, corpus, seed)
    yield "train and save", lambda: run_alone(stages.train_and_save, corpus, model, steps, seed)
    yield "load, predict, evaluate", lambda: run_alone(stages.load_and_judge, model, judged)


def print_stage(name: str, figures: Figures) -> None:
    """Print a stage, then its parts."""
    memory = f"{figures['peak_bytes'] / 1e9:>10.2f}{figures['peak_anonymous_bytes'] / 1e9:>12.2f}"
    print(f"{name:<36}{sum(figures['seconds'].values()):>10.1f}{memory}")
    for part, seconds in figures["seconds"].items():
        print(f"  {part:<34}{seconds:>10.2f}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Go the whole way and print; give 1 if it took more memory than there should be."""
    chosen = _parser().parse_args(arguments)
    statistics = statistics_of(chosen.labels, chosen.documents, chosen.words, chosen.length, chosen.judged)
    print(f"{'':<36}{'seconds':>10}{'peak, GB':>10}{'own, GB':>12}")
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="scale-", dir=chosen.folder) as folder:
        for name, stage in planned(statistics, chosen.seed, chosen.steps, Path(folder)):
            measured[name] = stage()
            print_stage(name, measured[name])
    peak = max(figures["peak_anonymous_bytes"] for figures in measured.values()) / 1e9
    sizes = {name: getattr(chosen, name) for name in ("labels", "documents", "words", "steps")}
    print(json.dumps(rounded({**sizes, "peak_gigabytes": peak, "holds": peak < MOST_GIGABYTES, "stages": measured})))
    return int(peak >= MOST_GIGABYTES)


def _parser() -> argparse.ArgumentParser:
    published = STATISTICS[DATA]
    parser = argparse.ArgumentParser(
        "python -m benchmarks.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labels", type=int, default=published.n_labels, help="labels (default: %(default)s)")
    parser.add_argument("--documents", type=int, default=published.n_train, help="training documents (%(default)s)")
    parser.add_argument("--words", type=int, default=published.n_words, help="different words (%(default)s)")
    parser.add_argument("--length", type=float, default=published.words_train, help="words of a document (%(default)s)")
    parser.add_argument("--judged", type=int, default=2_000, help="documents predicted and judged (%(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="training steps of each level (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where a temporary folder is made (default: that of the system)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
