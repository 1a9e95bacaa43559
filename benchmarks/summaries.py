"""Results in order: for each split of a data set, one row for each configuration."""

from __future__ import annotations

import json
import statistics
import zlib
from dataclasses import dataclass, field
from itertools import groupby

from benchmarks.bootstrap import Differences
from benchmarks.configurations import CONFIGURATIONS
from benchmarks.records import Record, Run
from haxmlnet.models import METHODS

NAMED = {*CONFIGURATIONS, *METHODS}
ORDER = {name: place for place, name in enumerate(CONFIGURATIONS)}


@dataclass(frozen=True)
class Row:
    """The runs of one configuration with different seeds."""

    name: str
    runs: list[Record]

    @property
    def is_peer(self) -> bool:
        """Whether others are compared with it."""
        return bool(self.runs[0]["peer"])

    @property
    def keys(self) -> list[str]:
        """Tell the runs and what came out: a run that was repeated with another result has another key."""
        crc = [zlib.crc32(json.dumps(run["metrics"], sort_keys=True).encode()) for run in self.runs]
        return [f"{run['key']} {number:08x}" for run, number in zip(self.runs, crc, strict=True)]

    @property
    def unchanged(self) -> str:
        """Name the configuration of which settings were changed with --set, or the configuration itself."""
        return next((name for name in NAMED if self.name.startswith(f"{name} (")), self.name)

    def mean(self, metric: str) -> float:
        """Return the mean over the seeds."""
        return statistics.fmean(run["metrics"][metric] for run in self.runs)

    def spread(self, metric: str) -> float | None:
        """Return the standard deviation over the seeds, if there are several."""
        values = [run["metrics"][metric] for run in self.runs]
        return statistics.stdev(values) if len(values) > 1 else None

    def cost(self, name: str) -> float | None:
        """Return the median of a time over the seeds; times taken on a busy machine do not count."""
        values = [run[name] for run in self.runs if not run["busy"]]
        return statistics.median(values) if values else None

    def size(self, name: str) -> float:
        """Return the median of a size over the seeds: other work on the machine does not change it."""
        return float(statistics.median(run[name] for run in self.runs))


@dataclass(frozen=True)
class Group:
    """All rows of one split of one data set, ours first."""

    data: str
    split: str
    rows: list[Row]
    differences: Differences = field(default_factory=dict)
    """Of each row, in each metric, to the best peer; empty where the predictions are not at hand."""
    changes: Differences = field(default_factory=dict)
    """Of each row with changed settings, in each metric, to the row without."""

    @property
    def name(self) -> str:
        """Name it as markers do."""
        return f"{self.data}/{self.split}"

    def without_change(self, row: Row) -> str | None:
        """Name the row that one with changed settings is compared with: the one with the most of its first changes.

        None where nothing was changed, or there is no such row.
        """
        names = [other.name for other in self.rows]
        some = [name for name in names if name.endswith(")") and row.name.startswith(f"{name[:-1]}, ")]
        unchanged = [row.unchanged] if row.unchanged != row.name and row.unchanged in names else []
        return max([*unchanged, *some], key=len, default=None)

    @property
    def keys(self) -> list[str]:
        """Tell all runs and what came out."""
        return [key for row in self.rows for key in row.keys]


def run_of(record: Record) -> Run:
    """Return the run that a result is of."""
    return Run(record["data"], record["split"], record["configuration"], record["identity"], record["seed"])


def group_records(records: list[Record]) -> list[Group]:
    """Sort results into groups and rows.

    Where a configuration was run with other settings before, or on other documents, only the newest count. Of
    test splits only what has a name counts: settings are tried out, with --set, on dev.
    """
    groups = []
    counted = [record for record in records if record["split"] != "test" or record["configuration"] in NAMED]
    ordered = sorted(counted, key=lambda record: (record["data"], record["split"]))  # stable: newest last
    for (data, split), members in groupby(ordered, key=lambda record: (record["data"], record["split"])):
        found = list(members)
        rows: dict[str, list[Record]] = {}
        for record in reversed([record for record in found if record["digest"] == found[-1]["digest"]]):
            row = rows.setdefault(record["configuration"], [])
            if not row or row[0]["identity"] == record["identity"]:
                row.append(record)
        made = [Row(name, sorted(runs, key=lambda run: run["seed"])) for name, runs in rows.items()]
        groups.append(Group(data, split, sorted(made, key=_place)))
    return groups


def _place(row: Row) -> tuple[bool, int, str]:
    known = next(
        (ORDER[name] for name in sorted(ORDER, key=len, reverse=True) if row.name.startswith(name)), len(ORDER)
    )
    return row.is_peer, known, row.name
