from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from haxmlnet.cpu import freed_memory
from haxmlnet.cpu.freed_memory import give_memory_back, kept_memory

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(freed_memory._glibc() is None, reason="needs glibc")


def faults_of_many_arrays() -> int:
    """Fill 60 arrays of 8 MB one after the other, up to 12 of them alive; count the pages asked for."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    kept: list[torch.Tensor] = []
    for i in range(60):
        kept = [*kept[-11:], torch.full((2_000_000,), float(i))]
        if i % 12 == 11:
            kept = []
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_freed_arrays_are_used_again_inside():
    with kept_memory():
        faults_of_many_arrays()
        again = faults_of_many_arrays()
    with kept_memory():
        next_block = faults_of_many_arrays()
    give_memory_back()
    outside = faults_of_many_arrays()
    assert again < outside / 4
    assert next_block < outside / 4


def test_threads_keep_their_memory_as_well():
    with kept_memory(), ThreadPoolExecutor(1) as thread:
        thread.submit(faults_of_many_arrays).result()
        assert thread.submit(faults_of_many_arrays).result() < 2_000


def test_blocks_nest():
    with kept_memory():
        with kept_memory():
            pass
        assert freed_memory._n_blocks == 1
        faults_of_many_arrays()
        assert faults_of_many_arrays() < 2_000
    assert freed_memory._n_blocks == 0


def test_elsewhere_it_does_nothing(monkeypatch):
    monkeypatch.setattr(freed_memory, "_glibc", lambda: None)
    with kept_memory():
        assert freed_memory._n_blocks == 0
    give_memory_back()
