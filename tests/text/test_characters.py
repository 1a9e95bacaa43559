from __future__ import annotations

import numpy as np
import pytest
from measure_characters import measure_characters, write_table

from haxmlnet.text.characters import (
    CODE_POINT_MASK,
    KIND_SHIFT,
    N_CODE_POINTS,
    SEVERAL,
    CharacterRuns,
    CharacterTable,
    character_table,
    unfold,
)
from haxmlnet.text.words import MAX_BYTES_PER_BYTE, MAX_WORDS_PER_BYTE


@pytest.fixture(scope="module")
def measured() -> CharacterRuns:
    return measure_characters()


def entries_of(table: CharacterTable, code_point: int) -> list[int]:
    entry = int(table.entries[code_point])
    if entry >> KIND_SHIFT != SEVERAL:
        return [entry]
    place = entry & CODE_POINT_MASK
    return table.sequences[place + 1 : place + 1 + table.sequences[place]].tolist()


def test_the_stored_table_is_what_the_rust_library_does_with_every_character(measured):
    for name, stored, fresh in zip(CharacterTable._fields, character_table(), unfold(measured), strict=True):
        np.testing.assert_array_equal(stored, fresh, err_msg=name)


def test_a_written_table_is_read_as_it_was(tmp_path, monkeypatch, measured):
    monkeypatch.setattr("measure_characters.measure_characters", lambda: measured)
    write_table(tmp_path / "table.npz")
    with np.load(tmp_path / "table.npz", allow_pickle=False) as arrays:
        for name, array in measured._asdict().items():
            np.testing.assert_array_equal(arrays[name], array)
            assert arrays[name].dtype == array.dtype


def test_no_character_becomes_more_than_the_room_made_for_it():
    table = character_table()
    changed = np.flatnonzero(table.entries & CODE_POINT_MASK != np.arange(N_CODE_POINTS))
    assert len(changed) > 2000
    for code_point in changed[changed > 127]:
        size = len(chr(code_point).encode())
        entries = entries_of(table, code_point)
        written = "".join(chr(entry & CODE_POINT_MASK) for entry in entries if entry >> KIND_SHIFT)
        assert len(written.encode()) <= MAX_BYTES_PER_BYTE * size
        # One more than its own words, as it may cut a word of its neighbours in two.
        assert n_words(entries) + 1 <= MAX_WORDS_PER_BYTE * size


def n_words(entries: list[int]) -> int:
    kinds = "".join("·a我"[entry >> KIND_SHIFT] for entry in entries)
    return kinds.count("我") + len([run for run in kinds.replace("我", "·").split("·") if run])
