"""The memory that is left, from the files of the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from haxmlnet.planning.available_memory import available_memory


def machine_root(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:       9000 kB\nMemAvailable:   8000 kB\nHugePages_Total:       0\n"}


def test_available_memory_is_what_the_system_says(tmp_path: Path) -> None:
    assert available_memory(machine_root(tmp_path, MEMINFO)) == 8000 * 1024
    assert (available_memory() or 1) > 0


@pytest.mark.parametrize(
    ("group", "folder", "files"),
    [
        ("0::/job\n", "sys/fs/cgroup/job", ("memory.max", "memory.current", "inactive_file 50")),
        ("0::/elsewhere\n", "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file 50")),
        (
            "4:cpu,memory:/job\n0::/\n",
            "sys/fs/cgroup/memory/job",
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file 50"),
        ),
    ],
)
def test_limits_of_containers_count(tmp_path: Path, group: str, folder: str, files: tuple[str, str, str]) -> None:
    limit, used, droppable = files
    root = machine_root(
        tmp_path,
        {
            **MEMINFO, "proc/self/cgroup": group, f"{folder}/{limit}": "1000\n", f"{folder}/{used}": "300\n",
            f"{folder}/memory.stat": f"anon 250\n{droppable}\n",
        },
    )  # fmt: skip
    assert available_memory(root) == 1000 - 300 + 50
    (root / folder / limit).write_text("max\n")
    assert available_memory(root) == 8000 * 1024
