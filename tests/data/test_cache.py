from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from haxmlnet.data.arrays import DESCRIPTION
from haxmlnet.data.cache import DEFAULT_GIGABYTES, Cache, content_key
from haxmlnet.errors import DataError, SettingError

A, B, C = ("a" * 32, "b" * 32, "c" * 32)


def key_of(*files: Path, **facts: object) -> str:
    return content_key(files, facts, lambda n: None)[0]


def test_the_key_is_that_of_the_content(tmp_path):
    for name, content in (("one", "a\nb\n"), ("two", "a\nb\n"), ("other", "a\nc\n"), ("a", "a\n"), ("b", "b\n")):
        (tmp_path / name).write_text(content)
    one, two, other, a, b = (tmp_path / name for name in ("one", "two", "other", "a", "b"))
    assert key_of(one, format="csv") == key_of(two, format="csv")
    keys = [key_of(one), key_of(other), key_of(one, format="csv"), key_of(a, b), key_of(b, a), key_of(one, a)]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 32 for key in keys)


def test_lines_of_the_first_file_and_all_bytes_are_counted(tmp_path):
    (tmp_path / "texts").write_text("a\nb\nc\n")
    (tmp_path / "labels").write_text("x\n" * 9)
    sizes: list[int] = []
    assert content_key([tmp_path / "texts", tmp_path / "labels"], {}, sizes.append)[1] == 3
    assert sum(sizes) == 6 + 18


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    with pytest.raises(DataError, match=r"gone: cannot be read: No such file"):
        key_of(tmp_path / "gone")


def test_the_flag_wins_over_the_variable_and_the_variable_over_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HAXMLNET_CACHE", str(tmp_path / "variable"))
    assert Cache.at(tmp_path / "flag").directory == tmp_path / "flag"
    assert Cache.at().directory == tmp_path / "variable"
    monkeypatch.delenv("HAXMLNET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Cache.at().directory == tmp_path / "xdg" / "haxmlnet"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert Cache.at().directory == tmp_path / "home" / ".cache" / "haxmlnet"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Cache.at().directory == tmp_path / "home" / "Library" / "Caches" / "haxmlnet"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert Cache.at().directory == tmp_path / "local" / "haxmlnet"


def test_the_size_is_that_of_the_variable(tmp_path, monkeypatch):
    assert Cache.at(tmp_path).max_bytes == DEFAULT_GIGABYTES * 1e9
    monkeypatch.setenv("HAXMLNET_CACHE_GB", "1.5")
    assert Cache.at(tmp_path).max_bytes == 1.5e9
    for wrong in ("much", "-1", "nan"):
        monkeypatch.setenv("HAXMLNET_CACHE_GB", wrong)
        with pytest.raises(SettingError, match=rf"\$HAXMLNET_CACHE_GB must be a number of at least 0, got '{wrong}'"):
            Cache.at(tmp_path)


def test_a_user_without_a_home_is_told_what_to_do(monkeypatch):
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("HAXMLNET_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(Path, "home", fail)
    with pytest.raises(SettingError, match="Use --cache DIR or --no-cache"):
        Cache.at()


def add_part(directory: Path, size: int, age: float) -> Path:
    """Make an entry, or what is kept in one, that was last used so many seconds ago."""
    directory.mkdir(parents=True)
    (directory / "ids.npy").write_bytes(bytes(size))
    (directory / DESCRIPTION).touch()
    os.utime(directory / DESCRIPTION, (time.time() - age,) * 2)
    return directory


def test_what_was_not_used_for_longest_is_removed_first(tmp_path):
    oldest, middle, newest = (add_part(tmp_path / key, 100, age) for key, age in ((A, 30), (B, 20), (C, 10)))
    Cache(tmp_path, 250).tidy(keep=newest)
    assert sorted(tmp_path.iterdir()) == [middle, newest]
    Cache(tmp_path, 250).tidy(keep=newest)
    assert sorted(tmp_path.iterdir()) == [middle, newest]
    Cache(tmp_path, 0).tidy(keep=middle)
    assert list(tmp_path.iterdir()) == [middle]
    assert not oldest.exists()


def test_what_is_kept_in_an_entry_counts_and_is_removed_by_itself(tmp_path):
    entry = add_part(tmp_path / A, 100, 0)
    old, new = add_part(entry / "tfidf-1", 500, 20), add_part(entry / "tfidf-2", 500, 10)
    other = add_part(tmp_path / B, 100, 15)
    Cache(tmp_path, 750).tidy(keep=entry)
    assert (old.exists(), new.exists(), other.exists(), entry.exists()) == (False, True, True, True)
    Cache(tmp_path, 600).tidy(keep=entry)
    assert (new.exists(), other.exists(), entry.exists()) == (True, False, True)


def test_only_our_own_and_only_old_leftovers_are_removed(tmp_path):
    entry = add_part(tmp_path / A, 100, 0)
    old, fresh = tmp_path / f".{B}.0123abcd.new", tmp_path / f".{C}.0123abcd.new"
    inner = entry / ".tfidf-1.0123abcd.new"
    for directory in (old, fresh, inner, tmp_path / "thesis", tmp_path / ".thesis.new"):
        directory.mkdir()
        (directory / "file").write_text("text")
        if directory != fresh:
            for path in (directory / "file", directory):
                os.utime(path, (time.time() - 100_000,) * 2)
    Cache(tmp_path, 0).tidy(keep=entry)
    assert sorted(os.listdir(tmp_path)) == sorted([f".{C}.0123abcd.new", ".thesis.new", A, "thesis"])
    assert not inner.exists()
