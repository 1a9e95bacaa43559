"""From text to metrics at any size: preparation, training for some steps, saving, loading, predicting, judging.

    python -m benchmarks.scale --labels 67009 --documents 49044 --words 42978 --steps 20
    python -m benchmarks.scale --data amazon-3m --set linear=false --keep runs/scale-3m --markdown scale.md

prints the time and the peak memory of each stage and, as its last line, JSON. The documents are synthetic, with the
statistics of a published data set but for the sizes given. Each stage runs in a process of its own. What it takes to
write and prepare the text is noted beside the corpus: a run that finds the corpus of an earlier one shows its figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks import scale_stages as stages
from benchmarks.__main__ import parse_changes
from benchmarks.measuring import Figures, round_figures, run_alone
from benchmarks.speed.models import LABELS_TO_GIVE
from benchmarks.synthetic import STATISTICS, Statistics
from haxmlnet.data import replace_file
from haxmlnet.errors import HaxmlnetError, SettingError
from haxmlnet.settings import check_settings

DATA = "amazon-670k"
MOST_GIGABYTES = 24.0
SIZES = ("labels", "documents", "words", "length")
MADE = "made.json"
MEMORY = ("peak_bytes", "peak_anonymous_bytes")


def statistics_of(
    published: Statistics, labels: int, documents: int, words: int, length: float, judged: int
) -> Statistics:
    """Take the published statistics with other sizes; documents get more labels where all would not fit."""
    least = LABELS_TO_GIVE * labels / documents
    return replace(
        published, n_train=documents, n_test=judged, n_words=words, n_labels=labels, words_train=length,
        words_test=length, labels_per_document=max(published.labels_per_document, least),
    )  # fmt: skip


def run_stages(
    statistics: Statistics, seed: int, settings: Figures, folder: Path, corpus_folder: Path
) -> Iterator[tuple[str, Figures]]:
    """Run the stages in their order and give the figures of each."""
    corpus, judged, model = corpus_folder / "corpus", corpus_folder / "test.jsonl", folder / "model"
    yield from (find_corpus(corpus_folder, statistics, seed) or make_corpus(corpus_folder, statistics, seed)).items()
    yield "train and save", run_alone(stages.train_and_save, corpus, model, settings)
    yield "load, predict, evaluate", run_alone(stages.load_and_judge, model, judged)


def make_corpus(folder: Path, statistics: Statistics, seed: int) -> dict[str, Figures]:
    """Write and prepare the documents; the note of how it went is written last, when all is there."""
    text = folder / "train.jsonl"
    made = {
        "text": run_alone(stages.write_text, statistics, seed, text, folder / "test.jsonl"),
        "prepare": run_alone(stages.prepare_corpus, text, folder / "corpus"),
    }
    text.unlink(missing_ok=True)
    with replace_file(folder / MADE) as temporary:
        temporary.write_text(json.dumps({"statistics": asdict(statistics), "seed": seed, "stages": made}), "utf-8")
    return made


def find_corpus(folder: Path, statistics: Statistics, seed: int) -> dict[str, Figures] | None:
    """Return the figures of the run that left its corpus in a folder; None where there is none."""
    if not (folder / MADE).exists():
        return None
    made = json.loads((folder / MADE).read_text("utf-8"))
    found, wanted = {**made["statistics"], "seed": made["seed"]}, {**asdict(statistics), "seed": seed}
    differences = [f"{name} {found[name]}, not {value}" for name, value in wanted.items() if found[name] != value]
    if differences:
        raise SettingError(
            f"--keep {folder}: holds a corpus with {'; '.join(differences)}. Remove it or choose another directory."
        )
    return {name: {**figures, "is_found": True} for name, figures in made["stages"].items()}


def print_stage(name: str, figures: Figures) -> None:
    """Print a stage, then its parts."""
    shown = f"{name} (earlier run)" if figures.get("is_found") else name
    for part, seconds, memory in look_up(shown, "  {}", figures):
        print(f"{part:<36}{seconds:>10.1f}{_format_memory(memory, '{:>10.2f}')}", flush=True)


def look_up(name: str, part_form: str, figures: Figures) -> Iterator[tuple[str, float, list[float]]]:
    """Return name, seconds and memory (all of it, and what the process has for itself) of a stage and of its parts."""
    yield name, sum(figures["seconds"].values()), [figures[name] for name in MEMORY]
    for part, seconds in figures["seconds"].items():
        memory = figures.get("memory", {}).get(part)
        yield part_form.format(part), seconds, [] if memory is None else [memory["resident"], memory["own"]]


def _format_memory(memory: Iterable[float], form: str) -> str:
    return "".join(form.format(n_bytes / 1e9) for n_bytes in memory)


def markdown_table(title: str, measured: dict[str, Figures]) -> str:
    """Write stages and their parts as a table in Markdown."""
    lines = [title, "", "| stage | seconds | peak, GB | own, GB |", "|---|---:|---:|---:|"]
    for name, figures in measured.items():
        for part, seconds, memory in look_up(f"**{name}**", "– {}", figures):
            lines.append(f"| {part} | {seconds:,.1f} |{_format_memory(memory, ' {:.2f} |') or ' | |'}")
    return "\n".join(lines) + "\n"


def title_of(statistics: Statistics, settings: Figures) -> str:
    """Say in a sentence what was trained."""
    changes = ", ".join(f"{name}={json.dumps(value)}" for name, value in settings.items() if name != "random_state")
    documents = f"{statistics.n_train:,} synthetic documents of {statistics.words_train:g} words"
    of_each = f"{statistics.labels_per_document:.4g} labels each"
    return f"{statistics.n_labels:,} labels, {documents} and {of_each}; HAXMLNet with {changes}."


def main(arguments: list[str] | None = None) -> int:
    """Run all stages and print; return 1 if it took more memory than there should be, 2 after a mistake."""
    chosen = _parser().parse_args(arguments)
    try:
        return _run(chosen, {"max_steps": chosen.steps, "random_state": chosen.seed, **parse_changes(chosen.changes)})
    except HaxmlnetError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _run(chosen: argparse.Namespace, settings: Figures) -> int:
    settings, published = check_settings(settings), STATISTICS[chosen.data]
    defaults = (published.n_labels, published.n_train, published.n_words, published.words_train)
    sizes: dict[str, Any] = {
        name: default if getattr(chosen, name) is None else getattr(chosen, name)
        for name, default in zip(SIZES, defaults, strict=True)
    }
    statistics = statistics_of(published, **sizes, judged=chosen.judged)
    measured: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="scale-", dir=chosen.folder) as folder:
        corpus_folder = chosen.keep or Path(folder)
        corpus_folder.mkdir(parents=True, exist_ok=True)
        print(f"{'':<36}{'seconds':>10}{'peak, GB':>10}{'own, GB':>10}")
        for name, figures in run_stages(statistics, chosen.seed, settings, Path(folder), corpus_folder):
            measured[name] = figures
            print_stage(name, figures)
    if chosen.markdown is not None:
        with replace_file(chosen.markdown) as temporary:
            temporary.write_text(markdown_table(title_of(statistics, settings), measured), "utf-8")
    peak, own = (max(figures[name] for figures in measured.values()) / 1e9 for name in MEMORY)
    found = {"peak_gigabytes": peak, "own_gigabytes": own, "limit": chosen.limit, "holds": peak < chosen.limit}
    asked = {"data": chosen.data, **sizes, "steps": chosen.steps, "settings": settings}
    print(json.dumps(round_figures({**asked, **found, "stages": measured})))
    return int(peak >= chosen.limit)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=sorted(STATISTICS), default=DATA, help="whose statistics (%(default)s)")
    for name, what in (("labels", "labels"), ("documents", "training documents"), ("words", "different words")):
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"{what} (default: those of the data set)")
    parser.add_argument("--length", type=float, metavar="N", help="words of a document (default: as in the data set)")
    parser.add_argument("--judged", type=int, default=2_000, help="documents predicted and judged (%(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="training steps of each level (%(default)s)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="changes", help="a setting of HAXMLNet"
    )
    parser.add_argument(
        "--limit", type=float, default=MOST_GIGABYTES, metavar="GB", help="most memory, with mapped pages (%(default)s)"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the corpus here, or use the one that is here")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table here, too, as Markdown")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where a temporary folder is made (default: that of the system)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
