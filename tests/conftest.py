from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep prepared corpora out of the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HAXMLNET_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
