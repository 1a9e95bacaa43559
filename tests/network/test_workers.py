from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from haxmlnet.network.workers import workers


@pytest.fixture(autouse=True)
def _four_threads() -> Iterator[None]:
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(1)


def threads_of_a_new_thread() -> int:
    numbers: list[int] = []
    thread = threading.Thread(target=lambda: numbers.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return numbers[0]


def test_results_come_in_the_order_of_the_parts():
    def slow_at_first(part: int) -> int:
        time.sleep(0.02 if part == 0 else 0)
        return part * part

    for n_workers in (1, 3):
        with workers(n_workers) as run:
            assert list(run(slow_at_first, range(8))) == [part * part for part in range(8)]


def test_parts_run_side_by_side():
    met = threading.Barrier(2, timeout=30)
    with workers(2) as run:
        assert sorted(run(lambda part: met.wait(), range(2))) == [0, 1]


def test_one_worker_is_the_thread_itself():
    with workers(1) as run:
        assert list(run(lambda part: threading.current_thread(), "ab")) == [threading.current_thread()] * 2


@pytest.mark.parametrize(("n_workers", "share"), [(0, 4), (1, 4), (2, 2), (3, 1), (4, 1), (9, 1)])
def test_workers_share_the_threads_and_give_them_back(n_workers, share):
    with workers(n_workers) as run:
        assert set(run(lambda part: torch.get_num_threads(), range(20))) == {share}
        assert torch.get_num_threads() == 4
    assert torch.get_num_threads() == 4
    assert threads_of_a_new_thread() == 4


def test_workers_inside_of_workers_give_the_threads_back():
    with workers(2) as outer:
        assert list(outer(lambda part: torch.get_num_threads(), "ab")) == [2, 2]
        with workers(4) as inner:
            assert list(inner(lambda part: torch.get_num_threads(), "ab")) == [1, 1]
        assert list(outer(lambda part: torch.get_num_threads(), "ab")) == [2, 2]
        assert torch.get_num_threads() == 4
    assert threads_of_a_new_thread() == 4


@pytest.mark.parametrize("n_workers", [1, 2])
def test_an_exception_passes_through_and_ends_the_work(n_workers):
    done: list[int] = []

    def fail_early(part: int) -> None:
        if part == 1:
            raise ValueError("part 1")
        time.sleep(0.001)
        done.append(part)

    with pytest.raises(ValueError, match="part 1"), workers(n_workers) as run:
        list(run(fail_early, range(1000)))
    assert len(done) < 1000
    assert torch.get_num_threads() == 4
    assert threads_of_a_new_thread() == 4


def test_an_exception_between_the_parts_does_not_wait_for_all_of_them():
    done: list[int] = []

    def work(part: int) -> None:
        time.sleep(0.001)
        done.append(part)

    def interrupted_work() -> None:
        with workers(2) as run:
            for _ in run(work, range(1000)):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_work()
    assert len(done) < 1000
    assert threads_of_a_new_thread() == 4
