"""Damaged files read by several processes, each replaced when it dies or hangs, and what came of them all."""

from __future__ import annotations

import gc
import multiprocessing as mp
import os
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.cases import Case, make_case, save_case
from tests.fuzz.judge import SECONDS, Result, run_case
from tests.fuzz.samples import READABLE, VECTORS, Sample, all_samples, write_files

from haxmlnet.data import FORMATS

CHUNK = 200
SAVED_OF_A_KIND = 3
PATIENCE = 4 * SECONDS
"""A worker that is silent for so long hangs where no signal reaches it."""
MEMORY_LIMIT = 256 << 20
"""More than a file of a few kilobytes may add to the memory of its reader."""
ADDRESS_LIMIT = 8 << 30
OPEN_FILES_LIMIT = 20


class Answer(NamedTuple):
    """The result of the case with a number."""

    number: int
    format: str
    result: Result
    is_counted: bool = False
    """Whether the number of its records is known."""


@dataclass
class Tally:
    """What came of the files so far."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By format and kind."""
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    peak_memory: int = 0

    def add(self, answer: Answer) -> int:
        """Count a result; give how many failures of its kind there are, 0 if it is none."""
        _, format_name, result, is_counted = answer
        outcomes = self.outcomes.setdefault(format_name, Counter())
        outcomes[result.outcome] += 1
        outcomes["counted"] += is_counted and result.outcome in ("read", "partly")
        if result.outcome != "failed":
            return 0
        kind = (format_name, result.reason.split("\n")[0])
        self.failures[kind] += 1
        return self.failures[kind]


def fuzz(n_files: int, seed: int, n_workers: int, out: Path, formats: list[str] | None = None) -> Tally:
    """Read damaged files in several processes and count what comes."""
    samples = all_samples()
    samples = {name: samples.get(name, []) for name in (formats or READABLE)}
    missing = [name for name, found in samples.items() if not found]
    if missing:
        raise SystemExit(f"no sample of {', '.join(missing)}: add one to samples.py.")
    check_samples(samples)
    tally = Tally()
    chunks = iter([range(start, min(start + CHUNK, n_files)) for start in range(0, n_files, CHUNK)])
    in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory) as folder:
        workers = [Worker(samples, seed, Path(folder, str(i)), chunks) for i in range(n_workers)]
        while any(worker.is_busy for worker in workers):
            wait([worker.connection for worker in workers if worker.is_busy], timeout=0.5)
            for answer in (answer for worker in workers for answer in worker.answers(tally)):
                if 0 < tally.add(answer) <= SAVED_OF_A_KIND:
                    case, files = make_case(samples, seed, answer.number)
                    save_case(case, files, answer.result.reason, out / f"{seed}-{answer.number}")
    return tally


def check_samples(samples: dict[str, list[Sample]]) -> None:
    """Read what is not damaged, which also compiles what is compiled before the workers are forked."""
    for sample in (sample for found in samples.values() for sample in found):
        path, given = next(iter(sample.files)), sample.format if sample.format in FORMATS else None
        n_records = None if sample.format == VECTORS else sample.n_documents
        case = Case(sample.format, path, given, sample.format != "text", "stop", n_records)
        with tempfile.TemporaryDirectory() as folder:
            write_files(sample.files, Path(folder))
            result = run_case(case, Path(folder), seconds=60)
        if result.outcome != "read":
            raise SystemExit(f"a sample of {sample.format} is not read: {result.reason}")


class Worker:
    """A process that reads one chunk of cases after the other, replaced by another when it dies or hangs."""

    def __init__(self, samples: dict[str, list[Sample]], seed: int, folder: Path, chunks: Iterator[range]) -> None:
        self._samples, self._seed, self._folder, self._chunks = samples, seed, folder, chunks
        self._start()
        self._send(range(0))

    def answers(self, tally: Tally) -> Iterator[Answer]:
        """Give what the process has answered since, and what its end means."""
        while self.is_busy and self.connection.poll():
            try:
                answer = self.connection.recv()
            except (EOFError, OSError):
                self._process.join()
                yield self._restart(f"crash: the process ended with {self._process.exitcode}")
                return
            self._heard = time.monotonic()
            if isinstance(answer, Answer):
                self._left = range(answer.number + 1, self._left.stop)
                yield answer
                continue
            for name, seconds in answer["seconds"].items():
                tally.seconds[name] += seconds
            tally.peak_memory = max(tally.peak_memory, answer["memory"])
            self._send(range(0))
        if self.is_busy and time.monotonic() - self._heard > PATIENCE:
            self._process.kill()
            yield self._restart(f"hang: no answer after {PATIENCE:g} s, and no signal was heard")

    def _start(self) -> None:
        self.connection, theirs = mp.Pipe()
        self._process = mp.get_context("fork").Process(
            target=_work, args=(theirs, self._samples, self._seed, self._folder), daemon=True
        )
        self._process.start()
        theirs.close()

    def _send(self, numbers: range) -> None:
        """Let the process read the cases that are left, or those of the next chunk, or end."""
        self._left = numbers or next(self._chunks, range(0))
        self._heard = time.monotonic()
        # Closing the pipe would not end it: workers that were forked later hold it, too.
        self.connection.send(self._left)
        self.is_busy = bool(self._left)
        if not self.is_busy:
            self._process.join()

    def _restart(self, reason: str) -> Answer:
        number = self._left.start
        case, _ = make_case(self._samples, self._seed, number)
        self._process.join()
        self._start()
        self._send(range(number + 1, self._left.stop))
        return Answer(number, case.format, Result("failed", reason))


def _work(connection: Connection, samples: dict[str, list[Sample]], seed: int, folder: Path) -> None:
    # A worker begins with the addresses of the process that it is a copy of.
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ADDRESS_LIMIT, taken + ADDRESS_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    n_open = _count_open_files()
    while numbers := connection.recv():
        seconds: dict[str, float] = defaultdict(float)
        for number in numbers:
            started = time.perf_counter()
            answer = _read_case(samples, seed, number, folder)
            seconds[answer.format] += time.perf_counter() - started
            if number == numbers[-1] and (n_left := _count_open_files() - n_open) > OPEN_FILES_LIMIT:
                failure = Result("failed", f"files left open\n{n_left} by this case and those before it")
                answer = answer._replace(result=failure)
            connection.send(answer)
        connection.send({"seconds": dict(seconds), "memory": _peak_memory()})


def _read_case(samples: dict[str, list[Sample]], seed: int, number: int, folder: Path) -> Answer:
    case, files = make_case(samples, seed, number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_files(files, folder)
    before = _peak_memory()
    result = run_case(case, folder)
    grown, size = _peak_memory() - before, sum(map(len, files.values()))
    if result.outcome != "failed" and grown > MEMORY_LIMIT + 40 * size:
        result = Result("failed", f"memory\n{grown >> 20} MB more for {size} bytes")
    # The folder's name differs from run to run.
    result.reason = result.reason.replace(str(folder), "DIR")
    return Answer(number, case.format, result, case.n_records is not None)


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _count_open_files() -> int:
    gc.collect()
    return len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0
