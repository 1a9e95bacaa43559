"""Memory and speed of preparation at the size of a published data set, on synthetic text.

    python -m benchmarks.preparation --dataset amazon-670k --scale 1.0

prints a table of what must hold and, as its last line, JSON with all figures. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import preparation_parts as parts
from benchmarks.measuring import Figures, round_figures, run_alone
from benchmarks.processes import OthersClock
from benchmarks.synthetic import STATISTICS

MOST_GIGABYTES = 6.0
LEAST_TOKENIZING, LEAST_READING = 5.0, 1.0
MOST_SECONDS_TO_OPEN = 1.0
COMPARED_DOCUMENTS = 60_000
"""scikit-learn needs some 15 seconds for so many documents of 250 words; the ratio is the same with more."""


class Claim(NamedTuple):
    """A figure and what must hold of it."""

    what: str
    figure: str
    limit: str
    holds: bool


def measure(name: str, scale: float, seed: int, folder: Path, n_compared: int, n_rounds: int) -> Figures:
    """Run all parts, one after the other, each in a process of its own."""
    text, prepared = folder / "train.jsonl", folder / "prepared"
    others = OthersClock()
    figures: Figures = {"text": run_alone(parts.write_text, name, scale, seed, text)}
    n_documents, n_tokens = figures["text"]["documents"], figures["text"]["tokens"]
    megabytes, seconds = figures["text"]["bytes"] / 1e6, figures["text"]["seconds"]
    print(
        f"{n_documents:,} documents of {n_tokens / n_documents:.1f} words, {megabytes:,.0f} MB, {seconds:.1f} s",
        flush=True,
    )
    figures["preparation"] = run_alone(parts.prepare_everything, text, prepared)
    figures["opening"] = run_alone(parts.open_prepared, prepared)
    some = folder / "some.jsonl"
    parts.copy_lines(text, some, n_compared)
    for key, part in (("tokenizing", parts.compare_tokenizing), ("reading", parts.compare_reading)):
        work = folder / key
        work.mkdir()
        figures[key] = run_alone(part, some, work, n_rounds)
    figures["others_share"] = others.share()
    return figures


def check_limits(figures: Figures) -> Iterator[Claim]:
    """Set each figure beside its limit."""
    whole, opening = figures["preparation"], figures["opening"]
    peak, anonymous = whole["peak_bytes"] / 1e9, whole["peak_anonymous_bytes"] / 1e9
    yield Claim("peak memory of preparation, GB", f"{peak:.2f}", f"< {MOST_GIGABYTES:g}", peak < MOST_GIGABYTES)
    yield Claim(
        "  without pages mapped from files, GB", f"{anonymous:.2f}", f"< {MOST_GIGABYTES:g}", anonymous < MOST_GIGABYTES
    )
    ratio = figures["tokenizing"]["ratio"]
    yield Claim("text to ids, x CountVectorizer", f"{ratio:.2f}", f">= {LEAST_TOKENIZING:g}", ratio >= LEAST_TOKENIZING)
    ratio = figures["reading"]["ratio"]
    yield Claim("reading JSON lines, x pyarrow", f"{ratio:.2f}", f">= {LEAST_READING:g}", ratio >= LEAST_READING)
    seconds = opening["seconds"]
    yield Claim("opening, s", f"{seconds:.3f}", f"< {MOST_SECONDS_TO_OPEN:g}", seconds < MOST_SECONDS_TO_OPEN)


def print_report(figures: Figures) -> None:
    """Print what must hold, then what it is made of."""
    print(f"\n{'':<42}{'figure':>10}{'limit':>10}")
    for claim in check_limits(figures):
        print(f"{claim.what:<42}{claim.figure:>10}{claim.limit:>10}  {'holds' if claim.holds else 'DOES NOT HOLD'}")
    whole, opening = figures["preparation"], figures["opening"]
    print(f"\npreparation: {whole['seconds']:.1f} s, {whole['words']:,} words, {whole['labels']:,} labels")
    known = sum(whole["stages"].values())
    for stage, seconds in [*whole["stages"].items(), ("other", whole["seconds"] - known)]:
        print(f"  {stage:<20}{seconds:>8.1f} s")
    uses = ("to open", f"to read {parts.DOCUMENTS_USED:,} documents", "to read all words")
    for use, own, mapped in zip(uses, opening["own_bytes"], opening["mapped_bytes"], strict=True):
        print(f"  {use:<28}{own / 1e6:>8.1f} MB more of its own, {mapped / 1e6:,.1f} MB mapped from files")
    for key, unit, other in (("tokenizing", "tokens", "CountVectorizer"), ("reading", "documents", "pyarrow")):
        compared = figures[key]
        ours, theirs = compared[f"ours_{unit}_per_second"], compared[f"theirs_{unit}_per_second"]
        print(f"{key}: {ours:,.0f} {unit}/s, {other} {theirs:,.0f}, on {compared[unit]:,} {unit}")
    print(f"other processes used {100 * figures['others_share']:.0f}% of the processors")


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; return 1 if a limit does not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preparation", description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", choices=sorted(STATISTICS), default="amazon-670k")
    parser.add_argument("--scale", type=float, default=1.0, help="part of its documents and labels (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compared", type=int, default=COMPARED_DOCUMENTS, help="documents for the two comparisons")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each comparison, the best of which counts")
    parser.add_argument("--folder", type=Path, help="where a temporary folder is made (default: that of the system)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="preparation-", dir=chosen.folder) as folder:
        figures = measure(
            chosen.dataset, chosen.scale, chosen.seed, Path(folder), chosen.compared, max(chosen.rounds, 1)
        )
    print_report(figures)
    holds = all(claim.holds for claim in check_limits(figures))
    print(json.dumps({"dataset": chosen.dataset, "scale": chosen.scale, "holds": holds, **round_figures(figures)}))
    return int(not holds)


if __name__ == "__main__":
    raise SystemExit(main())
