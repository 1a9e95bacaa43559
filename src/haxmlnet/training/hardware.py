"""Where the work runs: the device, the dtype, the threads, and whether a CPU gets the fast forms of `cpu`.

No other module knows `cpu`, which is faster but not needed: with `USE_CPU_ROOM` off, or without that room, networks are
those of `network` on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import numba
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from haxmlnet.data.cores import count_cores
from haxmlnet.errors import SettingError
from haxmlnet.network.network import LabelAttentionNetwork
from haxmlnet.training.lazy_adam import LazyAdam, RowAdam, RowSums, TableAdam

try:
    from haxmlnet import cpu
except ImportError:
    USE_CPU_ROOM = False
else:
    USE_CPU_ROOM = True

R = TypeVar("R")

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Applies a function to parts, perhaps side by side, and gives the results in their order."""


def choose_device(name: str) -> torch.device:
    """Turn a setting into a device; `auto` takes CUDA, else Apple's MPS, else the CPU."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(device for device in ("cuda", "mps", "cpu") if available[device])
    if not available[name]:
        raise SettingError(f"device: this machine has no {name}. Use 'auto' or 'cpu'.")
    return torch.device(name)


def choose_available_device(name: str) -> torch.device:
    """Take the device a model was made for, or what this machine has instead."""
    try:
        return choose_device(name)
    except SettingError:
        return choose_device("auto")


def uses_cpu_room(device: torch.device) -> bool:
    """Return whether what runs on a device has its fast form."""
    return USE_CPU_ROOM and device.type == "cpu"


def choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Turn a setting into the dtype of what is multiplied; `auto` takes bfloat16 where it is faster."""
    is_faster = uses_cpu_room(device) and cpu.has_bfloat16_matmul()
    if device.type == "cuda":
        is_faster = torch.cuda.is_bf16_supported(including_emulation=False)  # older cards only act as if they had it
    return torch.bfloat16 if precision == "auto" and is_faster else torch.float32


def place(network: LabelAttentionNetwork, device: torch.device, precision: str) -> LabelAttentionNetwork:
    """Move a network to its device, for training as for prediction; on a CPU, give it its fast form."""
    network.to(device)
    network.dtype = choose_dtype(precision, device)
    return cpu.accelerate(network, network.dtype) if uses_cpu_room(device) else network


def lazy_adam(table: Tensor, row_moments: bool) -> LazyAdam:
    """Return the optimizer of a table: with `row_moments` in a quarter of the memory beside the weights."""
    if not uses_cpu_room(table.device):
        return RowAdam(table, RowSums()) if row_moments else TableAdam(table)
    return RowAdam(table, cpu.FastRowSums(table), cpu.lazy_zeros) if row_moments else cpu.FastTableAdam(table)


def moment_bytes(n_numbers: int) -> int:
    """Return the bytes of each of the two moments of a table's number on a CPU."""
    return 2 if USE_CPU_ROOM and cpu.has_bfloat16_moments(n_numbers) else 4


def holds_weights(n_weights: int) -> bool:
    """Return whether attention on a CPU holds so many weights of a batch; if not, it goes by document."""
    return not USE_CPU_ROOM or n_weights <= cpu.MAX_HELD_WEIGHTS


def workers(n_workers: int) -> AbstractContextManager[Map]:
    """Return a `map` that works in so many threads, which share the CPU threads of torch; one: no threads."""
    return cpu.workers(n_workers) if USE_CPU_ROOM else nullcontext(map)


def side_by_side(jobs: Sequence[Callable[[], R]]) -> list[R]:
    """Run the few jobs of a single document, without gradients, in two threads; return their results in order."""
    return cpu.side_by_side(jobs) if USE_CPU_ROOM else [torch.inference_mode()(job)() for job in jobs]


def one_thread() -> AbstractContextManager[None]:
    """Keep torch to one thread inside the block, where more would wait for each other."""
    return cpu.one_thread() if USE_CPU_ROOM else nullcontext()


@contextmanager
def kept_memory(device: torch.device) -> Iterator[None]:
    """Let the process keep what it frees inside the block, for the next arrays of the same size."""
    with cpu.kept_memory() if uses_cpu_room(device) else nullcontext():
        yield


def give_memory_back() -> None:
    """Return what the process has freed back to the system."""
    if USE_CPU_ROOM:
        cpu.give_memory_back()


@contextmanager
def cpu_threads(n_jobs: int | None) -> Iterator[None]:
    """Use so many CPU threads inside the block; none: all cores."""
    before_torch, before_numba = torch.get_num_threads(), numba.get_num_threads()
    n_threads = n_jobs or count_cores()
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
    with threadpool_limits(n_jobs or count_cores()), cpu_threads(n_jobs):
        yield
