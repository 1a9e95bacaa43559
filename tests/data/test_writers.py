import io
import json
import os
from pathlib import Path

import pytest

from haxmlnet.data import replace_file, write_predictions
from haxmlnet.errors import DataError, SettingError

IDS = ["7", "tab\there"]
RANKING = [[("law", 0.97), ("größe\nx\\y", 1 / 3)], []]


def written(ids, ranking, format):
    stream = io.StringIO()
    write_predictions(stream, ids, ranking, format)
    return stream.getvalue()


def test_json_lines_have_one_object_a_document():
    lines = written(IDS, RANKING, "jsonl").splitlines()
    assert lines[0].startswith('{"id": "7", "labels": [{"label": "law", "score": 0.97}, {"label": "größe')
    assert [json.loads(line) for line in lines] == [
        {"id": "7", "labels": [{"label": "law", "score": 0.97}, {"label": "größe\nx\\y", "score": 0.333333}]},
        {"id": "tab\there", "labels": []},
    ]


def test_tsv_has_one_line_a_label_with_escapes():
    ranking = [RANKING[0], [("b", 1.25e-9)]]
    assert written(IDS, ranking, "tsv").split("\n") == [
        "7\tlaw\t0.97",
        "7\tgröße\\nx\\\\y\t0.333333",
        "tab\\there\tb\t1.25e-09",
        "",
    ]


def test_an_unknown_format_is_refused():
    with pytest.raises(SettingError, match="format must be one of jsonl, tsv, got 'xml'"):
        written(IDS, RANKING, "xml")


def test_ids_and_rankings_of_different_length_are_a_mistake():
    with pytest.raises(ValueError, match="shorter"):
        written(IDS, RANKING[:1], "tsv")


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
