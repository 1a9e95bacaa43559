"""Differences to the best peer, and to the same without a change, from the predictions of the runs."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.bootstrap import Difference, Differences, differences_to_best
from benchmarks.inputs import SUMMARY, write_json
from benchmarks.judging import METRICS, Truth, document_values, read_predictions
from benchmarks.summaries import Group, Row, run_of

SEED = 0


def add_differences(groups: list[Group], work: Path, store: Path) -> list[Group]:
    """Add the differences: the stored ones, if they are of the same runs, else computed anew, else none.

    Rows whose predictions are not at hand keep what was computed of the same runs before. A metric is compared if the
    peer that is best in it is at hand.
    """
    stored: dict[str, Any] = json.loads(store.read_text("utf-8")) if store.exists() else {}
    completed = []
    for group in groups:
        entry = stored.get(group.name, {})
        if entry.get("keys") != group.keys:
            known = replace(group, rows=[row for row in group.rows if _is_at_hand(row, work)])
            best = _best_peers(group)
            peers = [row.name for row in known.rows if row.is_peer]
            metrics = [metric for metric in METRICS if best.get(metric) in [None, *peers]]
            to_peers, to_unchanged = compute_differences(known, work) if metrics else ({}, {})
            to_peers = {name: {metric: row[metric] for metric in metrics} for name, row in to_peers.items()}
            before = _still_true(entry, group)
            if to_peers or to_unchanged:
                earlier = [key for key in entry.get("keys", []) if key in group.keys and key not in known.keys]
                entry = stored[group.name] = {
                    "keys": [*known.keys, *earlier],
                    "differences": before["differences"] | _as_json(to_peers),
                    "changes": before["changes"] | _as_json(to_unchanged),
                }
            else:
                entry = before
        differences, changes = (_from_json(entry.get(part, {})) for part in ("differences", "changes"))
        completed.append(replace(group, differences=differences, changes=changes))
    if stored:
        write_json(store, stored)
    return completed


def _best_peers(group: Group) -> dict[str, str]:
    """Name the best peer in each metric; empty where there is none."""
    peers = [row for row in group.rows if row.is_peer]
    if not peers:
        return {}
    return {metric: max(peers, key=lambda row: row.mean(metric)).name for metric in METRICS}


def _still_true(entry: dict[str, Any], group: Group) -> dict[str, Any]:
    """Keep the differences between runs that have not changed; those to the best peer if it is the same run still."""
    known = {row.name for row in group.rows if set(row.keys) <= set(entry.get("keys", []))}
    references = {row.name: group.without_change(row) for row in group.rows}
    same = [metric for metric, peer in _best_peers(group).items() if peer in known]
    return {
        "differences": {
            name: {metric: value for metric, value in row.items() if metric in same}
            for name, row in entry.get("differences", {}).items()
            if name in known and same
        },
        "changes": {
            name: value for name, value in entry.get("changes", {}).items() if {name, references.get(name)} <= known
        },
    }


def _is_at_hand(row: Row, work: Path) -> bool:
    return all(file.exists() for file in _prediction_files(row, work))


def compute_differences(group: Group, work: Path) -> tuple[Differences, Differences]:
    """Compare all rows with the best peer in each metric, and rows with a change with the same one without.

    Both are empty where predictions or inputs are not at hand.
    """
    numerators, denominators = _values(group, work)
    if not numerators:
        return {}, {}
    peers = [row.name for row in group.rows if row.is_peer]
    to_peers = _differences(numerators, denominators, peers) if peers else {}
    to_unchanged: Differences = {}
    for row in group.rows:
        reference = group.without_change(row)
        if reference is not None:
            both = {name: numerators[name] for name in (reference, row.name)}
            to_unchanged[row.name] = _differences(both, denominators, [reference])[row.name]
    return to_peers, to_unchanged


def _values(group: Group, work: Path) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]]:
    """Return the numerators of the metrics for each row, and their denominators, by document; none: not at hand."""
    nothing: tuple[dict[str, NDArray[np.float64]], NDArray[np.float64]] = {}, np.zeros((0, 0))
    inputs = work / "inputs" / f"{group.data}-{group.split}"
    files = {row.name: _prediction_files(row, work) for row in group.rows}
    if not group.rows or not all(_is_at_hand(row, work) for row in group.rows):
        return nothing
    digest = group.rows[0].runs[0]["digest"]
    if not (inputs / SUMMARY).exists() or json.loads((inputs / SUMMARY).read_text("utf-8"))["digest"] != digest:
        return nothing
    truth = Truth.read(inputs)
    numerators = {}
    for name, of_seeds in files.items():
        values = [document_values(read_predictions(file)[0], truth) for file in of_seeds]
        numerators[name] = np.mean([of_seed for of_seed, _ in values], axis=0)
        denominators = values[0][1]  # the same for all
    return numerators, denominators


def _differences(
    numerators: dict[str, NDArray[np.float64]], denominators: NDArray[np.float64], references: list[str]
) -> Differences:
    return differences_to_best(numerators, denominators, references, METRICS, np.random.default_rng(SEED))


def _prediction_files(row: Row, work: Path) -> list[Path]:
    return [work / "predictions" / f"{run_of(run).file_name}.npz" for run in row.runs]


def _as_json(found: Differences) -> dict[str, Any]:
    return {name: {metric: asdict(value) for metric, value in row.items()} for name, row in found.items()}


def _from_json(entry: dict[str, Any]) -> Differences:
    return {name: {metric: Difference(**value) for metric, value in row.items()} for name, row in entry.items()}
