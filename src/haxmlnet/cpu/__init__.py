"""The network and its training, faster on a CPU.

Without this room everything works, slower: `training.hardware` is the one place that chooses it.
"""

from haxmlnet.cpu.acceleration import accelerate, plain_form
from haxmlnet.cpu.document_attention import MAX_HELD_WEIGHTS
from haxmlnet.cpu.fast_lazy_adam import FastRowSums, FastTableAdam, has_bfloat16_moments, lazy_zeros
from haxmlnet.cpu.freed_memory import give_memory_back, kept_memory
from haxmlnet.cpu.matmul import has_bfloat16_matmul
from haxmlnet.cpu.threads import one_thread, side_by_side, workers

__all__ = [
    "MAX_HELD_WEIGHTS",
    "FastRowSums",
    "FastTableAdam",
    "accelerate",
    "give_memory_back",
    "has_bfloat16_matmul",
    "has_bfloat16_moments",
    "kept_memory",
    "lazy_zeros",
    "one_thread",
    "plain_form",
    "side_by_side",
    "workers",
]
