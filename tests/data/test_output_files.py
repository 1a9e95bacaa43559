import os
from pathlib import Path

import pytest

from haxmlnet.data import replace_file
from haxmlnet.errors import DataError


def test_a_file_is_replaced_when_all_went_well(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with replace_file(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.txt"]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_file_stays_as_it_was_after_a_failure(tmp_path, failure):
    path = tmp_path / "out.txt"
    path.write_text("old")

    def write_half():
        with replace_file(path) as temporary:
            temporary.write_text("half")
            raise failure

    with pytest.raises(failure):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_the_target_of_a_link_is_replaced_and_a_device_written_to(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with replace_file(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    with replace_file("/dev/null") as device:
        assert device == Path("/dev/null")


def test_places_that_cannot_be_written_are_named(tmp_path):
    for path in (tmp_path / "absent" / "out.txt", tmp_path):
        with pytest.raises(DataError) as caught, replace_file(path):
            pass
        assert str(caught.value).startswith(f"{path}: cannot be written: ")
