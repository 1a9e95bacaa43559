from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import torch

from haxmlnet.cpu.threads import helper_thread, side_by_side, workers


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


def test_two_jobs_have_a_thread_each_without_gradients():
    met = threading.Barrier(2, timeout=30)

    def job(number: int) -> tuple[int, int, bool]:
        met.wait()
        return number, torch.get_num_threads(), torch.is_grad_enabled()

    for _ in range(2):
        assert side_by_side([partial(job, 1), partial(job, 2)]) == [(1, 1, False), (2, 1, False)]
        assert torch.is_grad_enabled()
        assert torch.get_num_threads() == 4
        assert threads_of_a_new_thread() == 4


@contextmanager
def busy_helper() -> Iterator[None]:
    done = threading.Event()
    blocking = helper_thread(os.getpid()).submit(done.wait, 30)
    yield
    done.set()
    assert blocking.result()


def test_a_busy_helper_is_not_waited_for():
    with busy_helper():
        assert side_by_side([threading.current_thread] * 3) == [threading.current_thread()] * 3


def test_jobs_may_have_jobs_of_their_own():
    def job(depth: int) -> int:
        return 1 if depth == 0 else sum(side_by_side([partial(job, depth - 1)] * 3))

    assert job(4) == 81
    assert torch.get_num_threads() == 4


def test_the_helper_does_the_jobs_of_a_job_while_it_is_free():
    met = threading.Barrier(2, timeout=30)
    freed = threading.Event()

    def first() -> list[object]:
        assert freed.wait(30)
        return side_by_side([met.wait, met.wait])

    assert sorted(side_by_side([first, freed.set])[0]) == [0, 1]


def test_an_error_of_either_job_is_raised():
    for wrong in (1, 2):
        with pytest.raises(ZeroDivisionError):
            side_by_side([lambda number=number, wrong=wrong: 1 / (number - wrong) for number in (1, 2)])
        assert torch.get_num_threads() == 4
        assert side_by_side([lambda: 1, lambda: 2]) == [1, 2]


def test_a_job_that_nobody_has_begun_is_dropped_after_an_error():
    done: list[int] = []
    with busy_helper(), pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1 / 0, lambda: done.append(1)])
    assert side_by_side([lambda: 1, lambda: 2]) == [1, 2]
    assert not done


def test_who_may_use_one_thread_alone_gets_no_other():
    torch.set_num_threads(1)
    assert side_by_side([threading.current_thread] * 2) == [threading.current_thread()] * 2
    assert side_by_side([torch.is_grad_enabled]) == [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs copies of processes")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_copy_of_the_process_has_a_helper_of_its_own():
    side_by_side([str, str])
    process = os.fork()
    if process == 0:
        os._exit(0 if side_by_side([int, str]) == [0, ""] else 1)
    for _ in range(3000):
        finished, code = os.waitpid(process, os.WNOHANG)
        if finished:
            break
        time.sleep(0.01)
    else:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    assert (finished, code) == (process, 0)
