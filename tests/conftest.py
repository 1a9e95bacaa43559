from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# The first example of a test may compile loops, or wait for other work on the machine.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep prepared corpora out of the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HAXMLNET_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Let torch work in one thread: on a busy machine, several wait for each other at every tiny product."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
