"""Figures of parts that run in processes of their own, whose memory is watched, and the time of their stages."""

from __future__ import annotations

import json
import multiprocessing as mp
import resource
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from haxmlnet.progress import Progress

Figures = dict[str, Any]
SAMPLING_SECONDS = 0.02
RSS = ("RssAnon", "RssFile", "RssShmem")


class StageClock(Progress):
    """Adds up the seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.units: dict[str, str] = {}
        self._inner: list[float] = []

    @contextmanager
    def stage(self, name: str, total: int | None, unit: str) -> Iterator[Callable[..., None]]:
        """Time a stage, without the stages within it."""
        started = time.perf_counter()
        self.units[name] = unit
        self._inner.append(0.0)
        try:
            yield lambda n, note="": None
        finally:
            seconds = time.perf_counter() - started
            self.seconds[name] += seconds - self._inner.pop()
            if self._inner:
                self._inner[-1] += seconds


def run_alone(part: Callable[..., Figures], *arguments: object) -> Figures:
    """Run a part in a new process; add its peak memory, with and without pages that are mapped from files."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_send_figures, args=(theirs, part, arguments))
    process.start()
    theirs.close()
    with MemoryWatch(process.pid or 0) as watch:
        try:
            figures: Figures = ours.recv()
        except EOFError:
            process.join()
            raise SystemExit(f"{part.__name__} ended with exit code {process.exitcode}.") from None
    process.join()
    return {**figures, "peak_anonymous_bytes": watch.peaks.get("", Memory(0, 0)).own}


def _send_figures(connection: Connection, part: Callable[..., Figures], arguments: tuple[object, ...]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures = part(*arguments)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    connection.send({**figures, "peak_bytes": peak * unit, "bytes_at_start": before * unit})
    connection.close()


class Memory(NamedTuple):
    """Bytes of memory that a process is in, and those that belong to it alone; 0 where the system does not tell."""

    resident: int
    own: int


class MemoryWatch(threading.Thread):
    """Samples the memory of a process while a block runs, and keeps the peak of each stage."""

    def __init__(self, pid: int | str = "self", stage: Callable[[], str] = lambda: "") -> None:
        super().__init__(daemon=True)
        self.peaks: dict[str, Memory] = {}
        self._pid, self._stage, self._ended = pid, stage, threading.Event()

    def run(self) -> None:
        """Sample until the block ends."""
        while not self._ended.wait(SAMPLING_SECONDS):
            stage, (own, mapped) = self._stage(), memory_bytes(self._pid)
            before = self.peaks.get(stage, Memory(0, 0))
            self.peaks[stage] = Memory(max(before.resident, own + mapped), max(before.own, own))

    def __enter__(self) -> MemoryWatch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def memory_bytes(pid: int | str = "self") -> tuple[int, int]:
    """Return the memory that a process has for itself, and what it has mapped from files; 0 where it is not told."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines) if name in RSS}
    return kilobytes.get(RSS[0], 0) * 1024, sum(kilobytes.get(name, 0) for name in RSS[1:]) * 1024


def round_figures(figures: Figures) -> Figures:
    """Shorten numbers for the line of JSON."""
    shortened: Figures = json.loads(json.dumps(figures), parse_float=lambda number: float(f"{float(number):.4g}"))
    return shortened
