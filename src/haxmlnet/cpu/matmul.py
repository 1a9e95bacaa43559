"""Matmul of float32 or bfloat16 on a CPU, by the library that is faster on it.

On CPUs that are not Intel's, the library behind torch's `@` leaves the widest instructions unused: there oneDNN,
torch's own library for layers, is up to 2.3 times as fast, and nowhere slower once it has compiled a program for the
shape, which takes 0.4 ms. On Intel's own, `@` is up to 1.8 times as fast as oneDNN: it reads transposed matrices as
they are, and writes where it is told to. Small matrices and those of other devices are torch's everywhere.

CPUs with instructions for bfloat16 multiply it at twice the speed or more. Sums are float32, and only results
are rounded.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# A call of oneDNN takes 10 microseconds longer than one of `@`.
MIN_OPERATIONS = 2_000_000
# Layers are left to torch below so many rows.
MIN_ROWS = 512


def matmul(a: Tensor, b: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Return a bᵀ, plus the bias, of matrices (m, k) and (n, k), in `out` if that is given; no gradients pass through.

    All are of one dtype; `out` may be of another.
    """
    if 2 * a.shape[0] * b.numel() >= MIN_OPERATIONS and uses_onednn(a, b):
        result: Tensor = torch.ops.mkldnn._linear_pointwise.default(a, b, bias, "none", (), "")
        return result if out is None else out.copy_(result)
    if out is None:
        return F.linear(a, b, bias)
    if out.dtype != a.dtype:
        return out.copy_(F.linear(a, b, bias))
    return torch.mm(a, b.T, out=out) if bias is None else torch.addmm(bias, a, b.T, out=out)


def matmul_without_compiling(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """Do the same for a shape that hardly comes again: of bfloat16, oneDNN would compile a program for it.

    A float32 matmul of the same numbers, rounded once at the end, is the same up to the order of additions.
    """
    if a.dtype == torch.float32:
        return F.linear(a, b, bias)
    return F.linear(a.float(), b.float(), None if bias is None else bias.float()).to(a.dtype)


def add_matmul(target: Tensor, a: Tensor, b: Tensor) -> None:
    """Add a bᵀ to a matrix (m, n), which may be of another dtype."""
    if uses_onednn(a, b) or target.dtype != a.dtype:
        target.add_(matmul(a, b))
    else:
        torch.addmm(target, a, b.T, out=target)


def prepare_matmul(weights: Tensor, n_rows: int) -> Callable[[Tensor], Tensor]:
    """Return what multiplies many matrices of so many rows with weights (n, k), as `matmul` does.

    A result holds until the next one.
    """
    if 2 * n_rows * weights.numel() >= MIN_OPERATIONS and uses_onednn(weights, weights):
        multiply = torch.ops.mkldnn._linear_pointwise.default
        packed = torch.ops.mkldnn._reorder_linear_weight(weights, n_rows)
        return lambda x: multiply(x, packed, None, "none", (), "")
    transposed, result = weights.T.contiguous(), weights.new_empty(n_rows, len(weights))
    return lambda x: torch.mm(x, transposed, out=result)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ, plus the bias, for the last axis of x, as `torch.nn.functional.linear` does, with gradients.

    Weights are converted to the dtype of x, which is that of the result.
    """
    if not uses_onednn(x, x) or x.numel() < MIN_ROWS * x.shape[-1]:
        return F.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))
    result: Tensor = _Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias)  # type: ignore[no-untyped-call]
    return result.view(*x.shape[:-1], len(weight))


class FastLinear(nn.Linear):
    """A linear layer by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to the last axis."""
        return linear(x, self.weight, self.bias)


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        weight = weight.to(x.dtype)
        ctx.save_for_backward(x, weight)
        return matmul(x, weight, None if bias is None else bias.to(x.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x = matmul(gradient, weight.T) if ctx.needs_input_grad[0] else None
        of_bias = gradient.sum(dim=0, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        return of_x, matmul(gradient.T, x.T), of_bias


def uses_onednn(a: Tensor, b: Tensor) -> bool:
    """Return whether oneDNN multiplies them."""
    if a.device.type != "cpu" or a.dtype != b.dtype or a.dtype not in (torch.float32, torch.bfloat16):
        return False
    return _is_faster() if a.dtype == torch.float32 else has_bfloat16_matmul()


@cache
def has_bfloat16_matmul() -> bool:
    """Return whether the CPU has instructions for bfloat16 and is known to run them without harm.

    Intel's have a unit for it that virtual machines may show and not have: there a matmul ended the process.
    """
    known: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return _is_faster() and bool(known.get("avx512_bf16", False))


@cache
def _is_faster() -> bool:
    return _is_there() and not _is_intel()


def _is_there() -> bool:
    # Neither operator is a documented one: where a version of torch has none of them, `@` does the same.
    names = ("_linear_pointwise", "_reorder_linear_weight")
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    is_known = platform.machine().lower() in ("x86_64", "amd64")  # elsewhere another library is behind it
    return is_known and available and all(hasattr(torch.ops.mkldnn, name) for name in names)


def _is_intel() -> bool:
    try:
        processor = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:  # not Linux
        processor = platform.processor()
    return "GenuineIntel" in processor
