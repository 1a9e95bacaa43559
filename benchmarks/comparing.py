"""Differences to the best peer, from the predictions of the runs, kept beside the results."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.bootstrap import Difference, differences_to_best
from benchmarks.inputs import SUMMARY, write_json
from benchmarks.judging import METRICS, Truth, document_values, read_predictions
from benchmarks.summaries import Group, Row, run_of

SEED = 0


def with_differences(groups: list[Group], work: Path, kept: Path) -> list[Group]:
    """Add the differences: those kept, if they are of the same runs, else computed anew, else none."""
    stored: dict[str, Any] = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    completed = []
    for group in groups:
        entry = stored.get(group.name, {})
        if entry.get("keys") != group.keys:
            found = compute_differences(group, work)
            entry = {"keys": group.keys, "differences": _as_json(found)}
            if found:
                stored[group.name] = entry
        completed.append(replace(group, differences=_from_json(entry["differences"])))
    if stored:
        write_json(kept, stored)
    return completed


def compute_differences(group: Group, work: Path) -> dict[str, dict[str, Difference]]:
    """Compare all rows with the best peer in each metric, if all predictions and inputs are at hand."""
    inputs = work / "inputs" / f"{group.data}-{group.split}"
    files = {row.name: _prediction_files(row, work) for row in group.rows}
    peers = [row.name for row in group.rows if row.is_peer]
    digest = group.rows[0].runs[0]["digest"]
    if not peers or not all(file.exists() for some in files.values() for file in some):
        return {}
    if not (inputs / SUMMARY).exists() or json.loads((inputs / SUMMARY).read_text("utf-8"))["digest"] != digest:
        return {}
    truth = Truth.read(inputs)
    numerators = {name: np.mean([_numerators(file, truth) for file in some], axis=0) for name, some in files.items()}
    denominators = document_values(read_predictions(files[peers[0]][0])[0], truth)[1]
    return differences_to_best(numerators, denominators, peers, METRICS, np.random.default_rng(SEED))


def _prediction_files(row: Row, work: Path) -> list[Path]:
    return [work / "predictions" / f"{run_of(run).file_name}.npz" for run in row.runs]


def _numerators(file: Path, truth: Truth) -> NDArray[np.float64]:
    return document_values(read_predictions(file)[0], truth)[0]


def _as_json(found: dict[str, dict[str, Difference]]) -> dict[str, Any]:
    return {name: {metric: asdict(value) for metric, value in row.items()} for name, row in found.items()}


def _from_json(entry: dict[str, Any]) -> dict[str, dict[str, Difference]]:
    return {name: {metric: Difference(**value) for metric, value in row.items()} for name, row in entry.items()}
