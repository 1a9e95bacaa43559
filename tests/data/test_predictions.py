import io
import json

import pytest

from haxmlnet.data import write_predictions
from haxmlnet.errors import SettingError

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
