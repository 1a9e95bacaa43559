"""Read a hundred thousand damaged files of every format: never a traceback, a hang or a document lost in silence.

    python -m benchmarks.fuzz --files 100000 --seed 0

prints a table and, as its last line, JSON. What fails is kept in a folder of its own, with the command that reads it
again.
"""

from __future__ import annotations

import argparse
import gc
import json
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
from typing import Any

from benchmarks.fuzz_cases import CASE_FILE, Case, keep_case, kept_case, make_case, write_files
from benchmarks.fuzz_reading import SECONDS, Result, run_case
from benchmarks.fuzz_samples import FILTER, VECTORS, Sample, all_samples
from haxmlnet.data import FORMATS

CHUNK = 200
KEPT_OF_A_KIND = 3
PATIENCE = 4 * SECONDS
"""A worker that is silent for so long hangs where no signal reaches it."""
MEMORY_LIMIT = 256 << 20
"""More than a file of a few kilobytes may add to the memory of its reader."""
ADDRESS_LIMIT = 8 << 30
OPEN_FILES_LIMIT = 20
READABLE = (*FORMATS, FILTER, VECTORS)
OUTCOMES = ("read", "partly", "refused", "failed")


@dataclass
class Tally:
    """What came of the files so far."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Failures by format and kind."""
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    peak_memory: int = 0

    def add(self, format_name: str, result: Result, is_counted: bool) -> int:
        """Count a result; give how many failures of its kind there are, 0 if it is none."""
        outcomes = self.outcomes.setdefault(format_name, Counter())
        outcomes[result.outcome] += 1
        outcomes["counted"] += is_counted and result.outcome in ("read", "partly")
        if result.outcome != "failed":
            return 0
        kind = (format_name, result.reason.split("\n")[0])
        self.kinds[kind] += 1
        return self.kinds[kind]


def fuzz(n_files: int, seed: int, n_workers: int, out: Path, formats: list[str] | None = None) -> Tally:
    """Read damaged files in several processes and count what comes."""
    samples = all_samples()
    samples = {name: samples.get(name, []) for name in (formats or READABLE)}
    missing = [name for name, found in samples.items() if not found]
    if missing:
        raise SystemExit(f"no sample of {', '.join(missing)}: add one to fuzz_samples.py.")
    _check_samples(samples)
    tally = Tally()
    chunks = iter([range(start, min(start + CHUNK, n_files)) for start in range(0, n_files, CHUNK)])
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        workers = [Worker(samples, seed, Path(folder, str(i)), chunks) for i in range(n_workers)]
        while any(worker.is_busy for worker in workers):
            wait([worker.connection for worker in workers if worker.is_busy], timeout=0.5)
            for worker in workers:
                for number, format_name, result, is_counted in worker.results(tally):
                    if 0 < tally.add(format_name, result, is_counted) <= KEPT_OF_A_KIND:
                        keep_case(*make_case(samples, seed, number), result.reason, out / f"{seed}-{number}")
    return tally


def _check_samples(samples: dict[str, list[Sample]]) -> None:
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
        self.connection: Connection
        self._process: mp.process.BaseProcess
        self._left: range = range(0)
        self._heard = time.monotonic()
        self._start()
        self.is_busy = self._send(range(0))

    def results(self, tally: Tally) -> Iterator[tuple[int, str, Result, bool]]:
        """Give what the process has answered since, and what its end means."""
        while self.is_busy and self.connection.poll():
            try:
                answer = self.connection.recv()
            except (EOFError, OSError):
                yield self._restarted(f"crash: the process ended with {self._exit_code()}")
                return
            self._heard = time.monotonic()
            if isinstance(answer, dict):
                for name, seconds in answer["seconds"].items():
                    tally.seconds[name] += seconds
                tally.peak_memory = max(tally.peak_memory, answer["memory"])
                self.is_busy = self._send(range(0))
            else:
                self._left = range(answer[0] + 1, self._left.stop)
                yield answer
        if self.is_busy and time.monotonic() - self._heard > PATIENCE:
            self._process.kill()
            yield self._restarted(f"hang: no answer after {PATIENCE:g} s, and no signal was heard")

    def _start(self) -> None:
        self.connection, theirs = mp.Pipe()
        self._process = mp.get_context("fork").Process(
            target=_work, args=(theirs, self._samples, self._seed, self._folder), daemon=True
        )
        self._process.start()
        theirs.close()

    def _send(self, numbers: range) -> bool:
        """Let the process read the cases that are left, or those of the next chunk, or end."""
        self._left = numbers or next(self._chunks, range(0))
        self._heard = time.monotonic()
        # Closing the pipe would not end it: workers that were forked later hold it, too.
        self.connection.send(self._left)
        if not self._left:
            self._process.join()
        return bool(self._left)

    def _restarted(self, reason: str) -> tuple[int, str, Result, bool]:
        number = self._left.start
        case, _ = make_case(self._samples, self._seed, number)
        self._process.join()
        self._start()
        self.is_busy = self._send(range(number + 1, self._left.stop))
        return number, case.format, Result("failed", reason), False

    def _exit_code(self) -> int | None:
        self._process.join()
        return self._process.exitcode


def _work(connection: Connection, samples: dict[str, list[Sample]], seed: int, folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_LIMIT, ADDRESS_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    n_open = _open_files()
    while numbers := connection.recv():
        seconds: dict[str, float] = defaultdict(float)
        for number in numbers:
            started = time.perf_counter()
            answer = _read_case(samples, seed, number, folder)
            seconds[answer[1]] += time.perf_counter() - started
            if number == numbers[-1] and (n_left := _open_files() - n_open) > OPEN_FILES_LIMIT:
                answer[2].outcome = "failed"
                answer[2].reason = f"files left open\n{n_left} by this case and those before it"
            connection.send(answer)
        connection.send({"seconds": dict(seconds), "memory": _peak_memory()})


def _read_case(samples: dict[str, list[Sample]], seed: int, number: int, folder: Path) -> tuple[int, str, Result, bool]:
    case, files = make_case(samples, seed, number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    write_files(files, folder)
    memory = _peak_memory()
    result = run_case(case, folder)
    grown = _peak_memory() - memory
    size = sum(map(len, files.values()))
    if result.outcome != "failed" and grown > MEMORY_LIMIT + 40 * size:
        result = Result("failed", f"memory\n{grown >> 20} MB more for {size} bytes")
    # The folder's name differs from run to run.
    result.reason = result.reason.replace(str(folder), "DIR")
    return number, case.format, result, case.n_records is not None


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _open_files() -> int:
    gc.collect()
    return len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def print_table(tally: Tally) -> None:
    """Print a row for each format, then the failures by kind."""
    print(f"{'format':<15}{'files':>8}{'read':>8}{'partly':>8}{'refused':>9}{'counted':>9}{'failed':>8}{'ms each':>9}")
    for name, outcomes in sorted(tally.outcomes.items()):
        n_files = sum(outcomes[outcome] for outcome in OUTCOMES)
        cells = [outcomes["read"], outcomes["partly"], outcomes["refused"], outcomes["counted"], outcomes["failed"]]
        widths = (8, 8, 9, 9, 8)
        row = "".join(f"{cell:>{width},}" for cell, width in zip(cells, widths, strict=True))
        print(f"{name:<15}{n_files:>8,}{row}{1000 * tally.seconds[name] / n_files:>9.2f}")
    for (name, kind), count in tally.kinds.most_common():
        print(f"FAILED {count:>6,} x {name}: {kind}")


def summary(tally: Tally, seconds: float) -> dict[str, Any]:
    """Put everything into one object for other programs."""
    total: Counter[str] = sum(tally.outcomes.values(), Counter())
    return {
        "files": sum(total[outcome] for outcome in OUTCOMES),
        **{outcome: total[outcome] for outcome in OUTCOMES},
        "counted": total["counted"],
        "seconds": round(seconds, 1),
        "peak_memory_mb": tally.peak_memory >> 20,
        "formats": {name: dict(outcomes) for name, outcomes in sorted(tally.outcomes.items())},
        "failures": [{"format": name, "kind": kind, "count": n} for (name, kind), n in tally.kinds.most_common()],
    }


def run_again(folder: Path) -> Result:
    """Read a kept case once more, in a copy of its folder."""
    case = kept_case(folder)
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns(CASE_FILE))
        return run_case(case, Path(copy))


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and give 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=100_000, help="damaged files to read (default: 100,000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--format", action="append", choices=sorted(READABLE), help="only this format; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("runs/fuzz"), help="folder for what fails")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="read one kept case again, and do nothing else")
    chosen = parser.parse_args(arguments)
    if chosen.again:
        result = run_again(chosen.again)
        print(f"{result.outcome}: {result.reason}")
        return int(result.outcome == "failed")
    started = time.perf_counter()
    tally = fuzz(chosen.files, chosen.seed, chosen.workers, chosen.out, chosen.format)
    print_table(tally)
    if tally.kinds:
        print(f"Files are in {chosen.out}. To read one again: python -m benchmarks.fuzz --again {chosen.out}/FOLDER")
    print(json.dumps(summary(tally, time.perf_counter() - started)))
    return int(bool(tally.kinds))


if __name__ == "__main__":
    sys.exit(main())
