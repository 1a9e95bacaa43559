from __future__ import annotations

import time

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from haxmlnet.text import blocks as blocks_module
from haxmlnet.text.blocks import iterate_blocks, iterate_ranges, map_ahead


def test_results_come_in_order_whatever_takes_longer():
    def slow_first(number: int) -> int:
        time.sleep(0.02 if number % 5 == 0 else 0)
        return number

    assert list(map_ahead(slow_first, range(20), 4)) == list(range(20))


def test_blocks_are_bounded_by_texts_and_by_characters(monkeypatch):
    monkeypatch.setattr(blocks_module, "BLOCK_TEXTS", 3)
    monkeypatch.setattr(blocks_module, "BLOCK_CHARACTERS", 10)
    assert list(iterate_blocks(["a", "b", "c", "d"])) == [["a", "b", "c"], ["d"]]
    assert list(iterate_blocks(["a" * 12, "b", "c" * 9, "d"])) == [["a" * 12], ["b", "c" * 9], ["d"]]
    assert list(iterate_blocks([])) == []


@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 30))
def test_ranges_cover_all_rows_and_hold_no_more_entries_than_asked_for(sizes, n_entries):
    bounds = np.cumsum([0, *sizes])
    ranges = list(iterate_ranges(bounds, n_entries))
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(len(sizes)))
    for start, stop in ranges:
        assert sum(sizes[start:stop]) <= n_entries or stop == start + 1
        # One row more would have been too much.
        assert stop == len(sizes) or sum(sizes[start : stop + 1]) > n_entries
