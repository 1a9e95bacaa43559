"""What people see of long work: bars with rates on a terminal, now and then a line in a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from haxmlnet.cli.console import LINE_SECONDS, ConsoleProgress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("haxmlnet.cli.console.time.monotonic", lambda: now[0])
    return now


def logged(progress: ConsoleProgress) -> list[str]:
    assert isinstance(progress.console.file, io.StringIO)
    return progress.console.file.getvalue().splitlines()


def new_progress(terminal: bool) -> ConsoleProgress:
    progress = ConsoleProgress()
    progress.console = Console(file=io.StringIO(), force_terminal=terminal, color_system=None, width=200)
    return progress


def test_a_log_gets_a_line_every_half_minute(clock):
    progress = new_progress(terminal=False)
    with progress.stage("words", 10_000, "documents") as advance:
        for _ in range(4):
            clock[0] += LINE_SECONDS / 2
            advance(1_500)
    assert logged(progress) == [
        "words: 3,000 of 10,000 documents, 100/s, 0:01:10 left",
        "words: 6,000 of 10,000 documents, 100/s, 0:00:40 left",
    ]


def test_a_stage_of_unknown_length_says_nothing_of_the_time_left(clock):
    progress = new_progress(terminal=False)
    with progress.stage("tree 0 level 1", None, "batches") as advance:
        clock[0] += 60
        advance(30, "loss 0.5")
    assert logged(progress) == ["tree 0 level 1: 30 batches, 0.5/s, loss 0.5"]


def test_a_stage_that_does_not_move_says_so(clock):
    progress = new_progress(terminal=False)
    with progress.stage("words", 10, "documents") as advance:
        clock[0] += 60
        advance(0)
    assert logged(progress) == ["words: 0 of 10 documents, 0/s, unknown time left"]


def test_short_work_leaves_no_line(clock):
    progress = new_progress(terminal=False)
    with progress.stage("words", 10, "documents") as advance:
        clock[0] += LINE_SECONDS - 1
        advance(10)
    assert logged(progress) == []


def test_a_terminal_sees_the_rate_and_the_note():
    progress = new_progress(terminal=True)
    with progress.stage("words", 200, "documents") as advance:
        for _ in range(3):
            advance(50, "so far so good")
    shown = "\n".join(logged(progress))
    assert "150/200 documents" in shown
    assert "/s so far so good" in shown
    assert "left" in shown
