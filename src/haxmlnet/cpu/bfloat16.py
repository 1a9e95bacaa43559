"""bfloat16 (float32 without its last 16 bits) in loops that numba compiles.

Neither numpy nor numba knows it, so an array holds its bits as integers. A loop that works on arrays of either dtype
reads with `wide` and writes with `narrow`; for float32 both do nothing. Loops that numba has compiled and cached do not
notice a change of this file.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

_SHORT, _LONG, _FLOAT = ir.IntType(16), ir.IntType(32), ir.FloatType()


def array_of(tensor: Tensor) -> NDArray[Any]:
    """Return the memory of a tensor as an array; of bfloat16, its bits."""
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


# Written with numba's own integers, both keep loops from being compiled to vector instructions: ten times slower.


def _wide(_typing, number):  # type: ignore[no-untyped-def]
    """Return an element of an array as float32."""

    def shift(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(builder.shl(builder.zext(arguments[0], _LONG), _LONG(16)), _FLOAT)

    def keep(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return arguments[0]

    return types.float32(number), shift if number == types.uint16 else keep


def _narrow(_typing, number, like):  # type: ignore[no-untyped-def]
    """Return a float32 in the dtype of another element, rounded to the nearest; a tie goes to the even one."""

    def round_bits(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        bits = builder.bitcast(arguments[0], _LONG)
        is_odd = builder.and_(builder.lshr(bits, _LONG(16)), _LONG(1))
        almost_half = builder.add(_LONG(0x7FFF), is_odd)
        return builder.trunc(builder.lshr(builder.add(bits, almost_half), _LONG(16)), _SHORT)

    def keep(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return arguments[0]

    return like(number, like), round_bits if like == types.uint16 else keep


wide: Any = intrinsic(_wide)
narrow: Any = intrinsic(_narrow)


def round_to_bfloat16(x: Tensor) -> Tensor:
    """Round a float32 tensor, in place, to numbers that bfloat16 has."""
    _round(x.view(-1).numpy())
    return x


@numba.njit(cache=True, nogil=True)
def _round(numbers):  # type: ignore[no-untyped-def]
    for i in range(len(numbers)):
        numbers[i] = wide(narrow(numbers[i], np.uint16(0)))
