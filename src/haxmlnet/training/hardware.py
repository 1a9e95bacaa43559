"""Where the work runs: the device of the networks and the threads of the processor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba
import torch
from threadpoolctl import threadpool_limits

from haxmlnet.data.cores import usable_cores
from haxmlnet.errors import SettingError
from haxmlnet.network.products import has_short_products


def chosen_device(name: str) -> torch.device:
    """Turn a setting into a device; `auto` takes CUDA, else Apple's MPS, else the processor."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(device for device in ("cuda", "mps", "cpu") if available[device])
    if not available[name]:
        raise SettingError(f"device: this machine has no {name}. Use 'auto' or 'cpu'.")
    return torch.device(name)


def chosen_kind(precision: str, device: torch.device) -> torch.dtype:
    """Turn a setting into the kind of numbers that are multiplied; `auto` takes 16 bits where they are faster."""
    if precision == "auto" and device.type == "cpu" and has_short_products():
        return torch.bfloat16
    if precision == "auto" and device.type == "cuda" and _cuda_has_short_products():
        return torch.bfloat16
    return torch.float32


def name_of(kind: torch.dtype) -> str:
    """Name a kind of numbers as torch does."""
    return str(kind).removeprefix("torch.")


def _cuda_has_short_products() -> bool:
    return torch.cuda.is_bf16_supported(including_emulation=False)  # older cards only act as if they had them


def device_for_loading(name: str) -> torch.device:
    """Take the device a model was made for, or what this machine has instead."""
    try:
        return chosen_device(name)
    except SettingError:
        return chosen_device("auto")


@contextmanager
def processor_threads(n_jobs: int | None) -> Iterator[None]:
    """Use so many processor threads inside the block; none: all cores."""
    before_torch, before_numba = torch.get_num_threads(), numba.get_num_threads()
    n_threads = n_jobs or usable_cores()
    torch.set_num_threads(n_threads)
    numba.set_num_threads(
        min(
            n_threads,
            numba.config.NUMBA_NUM_THREADS,  # type: ignore[attr-defined]
        )
    )
    try:
        yield
    finally:
        torch.set_num_threads(before_torch)
        numba.set_num_threads(before_numba)


@contextmanager
def training_threads(n_jobs: int | None) -> Iterator[None]:
    """Bound the threads of numpy's and scipy's own libraries as well: a model must not depend on the cores around.

    Finding those libraries takes milliseconds, too long for the prediction of one document.
    """
    with threadpool_limits(n_jobs or usable_cores()), processor_threads(n_jobs):
        yield
