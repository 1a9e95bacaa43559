"""How many CPU cores there are to use."""

from __future__ import annotations

import os


def count_cores() -> int:
    """Count the cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
