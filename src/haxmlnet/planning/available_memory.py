"""How much memory a process can still have on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Of each version of control groups: where they lie, the limit, what is in use, and what of that can be dropped.
_GROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that are free or can be freed, within the limits of a container; None: unknown."""
    known = list(_available_in_groups(root))
    kilobytes = _read_fields(root / "proc/meminfo").get("MemAvailable:")
    if kilobytes is not None:
        known.append(kilobytes * 1024)
    else:
        names = getattr(os, "sysconf_names", {})
        pages = [name for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES") if name in names and "SC_PAGE_SIZE" in names]
        known += [int(os.sysconf(name)) * int(os.sysconf("SC_PAGE_SIZE")) for name in pages[:1]]
    return min(known, default=None)


def _available_in_groups(root: Path) -> Iterator[int]:
    """Return what is left in each control group that this process is in."""
    for line in (line for line in _read_lines(root / "proc/self/cgroup") if line.count(":") >= 2):
        number, controllers, path = line.split(":", 2)
        version = 0 if number == "0" else 1
        if version == 1 and "memory" not in controllers.split(","):
            continue
        mount, limit_name, used_name, droppable_name = _GROUPS[version]
        # Inside a container the path may be that of the machine outside, so the mount itself is looked at as well.
        own = Path(path.lstrip("/"))
        for folder in {root / mount / part for part in (own, *own.parents)}:
            limit, used = ("".join(_read_lines(folder / name)).strip() for name in (limit_name, used_name))
            if limit.isdigit() and used.isdigit():
                droppable = _read_fields(folder / "memory.stat").get(droppable_name, 0)
                yield max(int(limit) - int(used) + droppable, 0)


def _read_fields(file: Path) -> dict[str, int]:
    rows = [line.split() for line in _read_lines(file)]
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdigit()}


def _read_lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
