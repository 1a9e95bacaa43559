from __future__ import annotations

import pytest
import torch

from haxmlnet.training import hardware
from haxmlnet.training.hardware import chosen_kind


@pytest.mark.parametrize(
    ("precision", "device", "has_short_products", "expected"),
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
def test_numbers_have_16_bits_where_those_are_faster_and_nothing_else_is_asked_for(
    monkeypatch, precision, device, has_short_products, expected
):
    monkeypatch.setattr(hardware, "has_short_products", lambda: has_short_products)
    monkeypatch.setattr(hardware, "_cuda_has_short_products", lambda: has_short_products)
    assert chosen_kind(precision, torch.device(device)) == expected
