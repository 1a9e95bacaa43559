"""A process and all it starts, watched: its peak memory, and how busy others kept the machine meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SAMPLING_SECONDS = 0.1
BUSY_SHARE = 0.05
"""Times are not published when others used more of the processors than this."""


@dataclass(frozen=True)
class Watched:
    """What was seen of a process; shares and memory are 0 where the system does not tell."""

    exit_code: int
    seconds: float
    peak_memory: int
    """Most bytes held by the process and its children together, as sampled."""
    others_share: float
    """The part of all processor time that went to other processes."""


def watch(command: Sequence[str], log: Path, environment: Mapping[str, str], directory: Path) -> Watched:
    """Run a command to its end; interrupted, end it and everything it started."""
    others = OthersClock()
    with open(log, "ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=directory,
            start_new_session=True,
        )  # fmt: skip
        peak = 0
        try:
            while process.poll() is None:
                peak = max(peak, sum(_resident(pid) for pid in _family(process.pid)))
                time.sleep(SAMPLING_SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
    return Watched(process.returncode, others.seconds(), peak, others.share())


class OthersClock:
    """Tells how much of the processors went to other processes since it was made; 0 where the system does not tell."""

    def __init__(self) -> None:
        self._started, self._busy, self._own = self._read()

    def seconds(self) -> float:
        """Return the seconds passed."""
        return time.perf_counter() - self._started

    def share(self) -> float:
        """Return the part of all processor time that others used."""
        now, busy, own = self._read()
        others = busy - self._busy - (own - self._own)
        # The system counts in hundredths of a second.
        return min(max(others, 0) / ((now - self._started) * (os.cpu_count() or 1)), 1.0)

    def _read(self) -> tuple[float, float, float]:
        """Return the time, and the CPU time of all processes, and of this one and its children that have ended."""
        try:
            user, nice, system, _, _, *rest = map(int, Path("/proc/stat").read_text().split()[1:9])
            busy = (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")
        except OSError:
            busy = 0.0
        return time.perf_counter(), busy, sum(os.times()[:4])


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _family(int(child))
    except OSError:  # the process has ended meanwhile
        return


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
