from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from haxmlnet.training import trainer as trainer_module


@pytest.fixture
def two_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Split every batch of six documents into two parts, in two threads."""
    monkeypatch.setattr(trainer_module, "MIN_PART", 3)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)
