from __future__ import annotations

import numba
import numpy as np
import pytest
import torch

from haxmlnet.cpu.bfloat16 import array_of, narrow, round_to_bfloat16, wide

HALF_WAY = [1.00390625, 1.01171875, -1.00390625]  # between two that bfloat16 has
RANDOM = torch.randn(1000, generator=torch.Generator().manual_seed(0))
NUMBERS = torch.cat([RANDOM, torch.tensor([0, -0.0, 1e-40, 3e38, *HALF_WAY])])


@numba.njit
def write(numbers, array):
    for i in range(len(numbers)):
        array[i] = narrow(numbers[i], array[i])


@numba.njit
def read(array, numbers):
    for i in range(len(numbers)):
        numbers[i] = wide(array[i])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_are_written_as_torch_rounds_them_and_read_as_they_are(dtype):
    written = torch.empty(len(NUMBERS), dtype=dtype)
    write(NUMBERS.numpy(), array_of(written))
    torch.testing.assert_close(written, NUMBERS.to(dtype), rtol=0, atol=0)
    seen = np.zeros(len(NUMBERS), np.float32)
    read(array_of(written), seen)
    np.testing.assert_array_equal(seen, written.float().numpy())


def test_float32_is_rounded_in_place_as_torch_rounds_it():
    numbers = NUMBERS.clone()
    assert round_to_bfloat16(numbers) is numbers
    torch.testing.assert_close(numbers, NUMBERS.bfloat16().float(), rtol=0, atol=0)
