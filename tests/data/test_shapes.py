from __future__ import annotations

import pytest

from haxmlnet.data.shapes import round_count, round_length, round_rows


@pytest.mark.parametrize("rounded", [round_length, round_count, round_rows])
def test_sizes_are_rounded_up_to_few(rounded):
    sizes = [rounded(n) for n in range(1, 1001)]
    assert all(size >= n for n, size in enumerate(sizes, 1))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) < 100
    assert [rounded(size) for size in sizes] == sizes


@pytest.mark.parametrize("n", [1, 20, 32, 40, 100, 200, 300, 500])
def test_usual_limits_of_words_stay_as_they_are(n):
    assert round_length(n) == n
