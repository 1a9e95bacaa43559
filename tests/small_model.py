"""A model directory with a file of each kind, for the tests of writing and of reading."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from haxmlnet.store import new_directory, write_arrays, write_header, write_lines

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def write_model(path: Path, mark: str = "first") -> Path:
    """Write the directory, and give its path."""
    with new_directory(path) as directory:
        write_lines(directory / "labels.txt", ["a", "b"])
        write_arrays(directory / "weights.safetensors", {"weights": WEIGHTS})
        write_header(directory, {"method": "Test", "mark": mark, "settings": {"sizes": (1, 2), "rate": 0.1}})
    return path
