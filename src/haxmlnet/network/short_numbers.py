"""Numbers of 16 bits (bfloat16: a number of 32 bits without its last 16) in loops that numba compiles.

Neither numpy nor numba knows them, so an array holds their bits as integers. A loop that works on arrays of either kind
reads with `wide` and writes with `narrow`; for numbers of 32 bits both do nothing. Loops that numba has compiled and
kept do not notice a change of this file.
"""

from __future__ import annotations

from typing import Any

import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

_SHORT, _LONG, _FLOAT = ir.IntType(16), ir.IntType(32), ir.FloatType()


def numbers_of(tensor: Tensor) -> NDArray[Any]:
    """Give the memory of a tensor as an array; of numbers of 16 bits, their bits."""
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


# Written with numba's own integers, both keep loops from being compiled to vector instructions: ten times slower.


def _wide(_typing, number):  # type: ignore[no-untyped-def]
    """Give an element of an array as a number of 32 bits."""

    def bits_in_front(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.bitcast(builder.shl(builder.zext(arguments[0], _LONG), _LONG(16)), _FLOAT)

    def itself(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return arguments[0]

    return types.float32(number), bits_in_front if number == types.uint16 else itself


def _narrow(_typing, number, like):  # type: ignore[no-untyped-def]
    """Give a number of 32 bits as one like another element, rounded to the nearest; a tie goes to the even one."""

    def rounded(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        bits = builder.bitcast(arguments[0], _LONG)
        is_odd = builder.and_(builder.lshr(bits, _LONG(16)), _LONG(1))
        almost_half = builder.add(_LONG(0x7FFF), is_odd)
        return builder.trunc(builder.lshr(builder.add(bits, almost_half), _LONG(16)), _SHORT)

    def itself(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return arguments[0]

    return like(number, like), rounded if like == types.uint16 else itself


wide: Any = intrinsic(_wide)
narrow: Any = intrinsic(_narrow)
