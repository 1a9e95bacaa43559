"""What the tests of all formats share."""

from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write files into the working directory and name the first."""
    monkeypatch.chdir(tmp_path)

    def write_files(files):
        for name, content in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return next(iter(files))

    return write_files
