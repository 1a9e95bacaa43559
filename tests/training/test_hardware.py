from __future__ import annotations

import pytest
import torch

from haxmlnet.training import hardware
from haxmlnet.training.hardware import choose_dtype


@pytest.mark.parametrize(
    ("precision", "device", "is_faster", "expected"),
    [
        ("auto", "cpu", True, torch.bfloat16),
        ("auto", "cpu", False, torch.float32),
        ("auto", "cuda", True, torch.bfloat16),
        ("auto", "cuda", False, torch.float32),
        ("auto", "mps", True, torch.float32),
        ("float32", "cpu", True, torch.float32),
        ("float32", "cuda", True, torch.float32),
    ],
)
def test_bfloat16_is_multiplied_where_it_is_faster_and_nothing_else_is_asked_for(
    monkeypatch, precision, device, is_faster, expected
):
    monkeypatch.setattr(hardware.cpu, "has_bfloat16_matmul", lambda: is_faster)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: is_faster)
    assert choose_dtype(precision, torch.device(device)) == expected
