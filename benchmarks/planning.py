"""What the command line asks for, as a list of runs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.configurations import CONFIGURATIONS, Configuration
from benchmarks.datasets import Split
from benchmarks.records import Run, identity_of, read_records
from haxmlnet.errors import SettingError
from haxmlnet.models import METHODS


@dataclass(frozen=True)
class Plan:
    """What the command line asks for."""

    sets: Mapping[str, Path]
    names: list[str]
    """Configurations or methods; none: all configurations."""
    seeds: list[int]
    split: Split
    changes: Mapping[str, Any]
    """Settings that differ from those of the configurations."""
    threads: int
    vectors: Path | None
    work: Path
    results: Path
    busy: bool = False
    again: Literal["", "busy", "all"] = ""
    """Which finished runs are repeated: none, those whose times were taken on a busy machine, all."""
    keep_models: bool = False


@dataclass(frozen=True)
class Job:
    """A run with all that it needs."""

    run: Run
    configuration: Configuration
    inputs: Path
    summary: Mapping[str, Any]


def jobs_of(plan: Plan, data: str, inputs: Path, summary: Mapping[str, Any]) -> Iterator[Job]:
    """List all runs on a data set; `summary` says which documents it has."""
    slow = left_out(plan, summary["n_labels"])
    for name, configuration in chosen_configurations(plan).items():
        if name in slow:
            continue
        identity = identity_of(
            parts=(configuration.method, dict(configuration.settings), configuration.preset),
            use_dev=configuration.use_dev, threads=plan.threads, data=summary["digest"],
        )  # fmt: skip
        for seed in plan.seeds:
            yield Job(Run(data, plan.split, name, identity, seed), configuration, inputs, summary)


def left_out(plan: Plan, n_labels: int) -> list[str]:
    """Name the configurations that are run on so many labels only where they are asked for by name."""
    most = {name: configuration.most_labels for name, configuration in chosen_configurations(plan).items()}
    return [] if plan.names else [name for name, number in most.items() if number is not None and n_labels > number]


def chosen_configurations(plan: Plan) -> dict[str, Configuration]:
    """Look up the configurations, and change the settings that the command line names."""
    chosen: dict[str, Configuration] = {}
    for name in plan.names or CONFIGURATIONS:
        if name not in CONFIGURATIONS and name not in METHODS:
            known = ", ".join(dict.fromkeys([*CONFIGURATIONS, *METHODS]))
            raise SettingError(f"--methods: there is no {name!r}. Use some of {known}.")
        configuration = CONFIGURATIONS.get(name, Configuration(name))
        if plan.changes:
            name += f" ({', '.join(f'{key}={json.dumps(value)}' for key, value in plan.changes.items())})"
            configuration = replace(configuration, settings={**configuration.settings, **plan.changes})
        chosen[name] = configuration
    return chosen


def is_finished(run: Run, plan: Plan) -> bool:
    """Return whether there is a result that need not be taken again."""
    record = next((record for record in read_records(plan.results) if record["key"] == run.key), None)
    if record is None or plan.again == "all":
        return False
    return not (plan.again == "busy" and record["busy"])


def command_of(job: Job, plan: Plan) -> str:
    """Return the command that does this run alone."""
    name = job.run.name
    if plan.changes:
        name = name[: name.rindex(" (" + next(iter(plan.changes)))]
    words = ["run", job.run.data, "--methods", name, "--seeds", str(job.run.seed), "--split", plan.split]
    for key, value in plan.changes.items():
        words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    return "python -m benchmarks " + shlex.join([*words, "--threads", str(plan.threads)])
