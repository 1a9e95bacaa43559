"""Directories as `datasets` saves them, made here with Arrow alone."""

import importlib.util
import io
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from haxmlnet.data import Document, ReadOptions, SkipReport, find_file, iterate_documents
from haxmlnet.errors import DataError

STRING = {"dtype": "string", "_type": "Value"}
CLASSES = {"names": ["sport", "law"], "_type": "ClassLabel"}
OLD_CLASSES = {"num_classes": 2, "names": ["sport", "law"], "names_file": None, "id": None, "_type": "ClassLabel"}
# The ways in which its versions write lists of classes.
LISTS = {
    "List": {"feature": CLASSES, "_type": "List"},
    "Sequence": {"feature": OLD_CLASSES, "length": -1, "id": None, "_type": "Sequence"},
    "list": [CLASSES],
}
NUMBERS = pa.list_(pa.int64())


def arrow(table, **metadata):
    stream = io.BytesIO()
    table = table.replace_schema_metadata({name: json.dumps(value) for name, value in metadata.items()} or None)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return stream.getvalue()


def save(path, parts, features):
    """Write the files that `save_to_disk` writes."""
    path.mkdir(parents=True, exist_ok=True)
    names = [f"data-{i:05}-of-{len(parts):05}.arrow" for i in range(len(parts))]
    for name, content in zip(names, parts, strict=True):
        (path / name).write_bytes(content)
    info = {"citation": "", "description": "", "features": features, "homepage": "", "license": ""}
    (path / "dataset_info.json").write_text(json.dumps(info, indent=2))
    state = {
        "_data_files": [{"filename": name} for name in names], "_fingerprint": "e08537b3093072e9",
        "_format_columns": None, "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False,
        "_split": None,
    }  # fmt: skip
    (path / "state.json").write_text(json.dumps(state, indent=2))
    return path


def read(path, with_labels=True, report=None, **options):
    return list(iterate_documents(path, ReadOptions(**options), with_labels=with_labels, report=report))


def message_of(path, **options):
    with pytest.raises(DataError) as caught:
        read(path, **options)
    return str(caught.value)


def table(labels, texts=("one", "two", "three")):
    return pa.table({"text": list(texts), "labels": labels})


@pytest.mark.parametrize("kind", LISTS)
def test_numbers_of_classes_become_names(tmp_path, kind):
    content = arrow(table(pa.array([[0, 1], [], [1]], NUMBERS)))
    path = save(tmp_path, [content], {"text": STRING, "labels": LISTS[kind]})
    expected = [Document("1", "one", ("sport", "law")), Document("2", "two", ()), Document("3", "three", ("law",))]
    assert read(path) == read(path / "state.json") == read(path, format="huggingface") == expected
    assert read(path, with_labels=False) == [document._replace(labels=()) for document in expected]


def test_a_single_class_is_a_label_and_minus_one_is_none(tmp_path):
    content = arrow(pa.table({"text": ["t", "u"], "label": [1, -1]}))
    path = save(tmp_path, [content], {"text": STRING, "label": CLASSES})
    assert read(path, label_field="label") == [Document("1", "t", ("law",)), Document("2", "u", ())]


def test_names_of_classes_stand_in_tables_too(tmp_path):
    made = table(pa.array([[0, 1], [], [1]], NUMBERS))
    features = {"text": STRING, "labels": LISTS["List"]}
    path = save(tmp_path / "saved", [arrow(made, huggingface={"info": {"features": features}})], {})
    labels = [("sport", "law"), (), ("law",)]
    assert [document.labels for document in read(path)] == labels
    described = made.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(described, tmp_path / "a.parquet")
    assert [document.labels for document in read(tmp_path / "a.parquet")] == labels
    pq.write_table(made, tmp_path / "a.parquet")
    assert [document.labels for document in read(tmp_path / "a.parquet")] == [("0", "1"), (), ("1",)]


def test_strings_and_shards_and_rows_that_are_counted_on(tmp_path):
    parts = [arrow(table([["a"], ["b"], []])), arrow(table([["c"], [], ["a", "b"]]))]
    path = save(tmp_path, parts, {"text": STRING, "labels": {"feature": STRING, "_type": "List"}})
    documents = read(path)
    assert [document.id for document in documents] == list("123456")
    assert [document.labels for document in documents] == [("a",), ("b",), (), ("c",), (), ("a", "b")]


def test_splits_are_directories_of_their_own(tmp_path):
    for split, text in (("train", "t"), ("test", "u")):
        save(tmp_path / split, [arrow(table([["a"]], [text]))], {"text": STRING})
    (tmp_path / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    assert read(tmp_path) == [Document("1", "t", ("a",))]
    assert read(tmp_path, split="test") == [Document("1", "u", ("a",))]
    assert find_file(tmp_path, ReadOptions()) == tmp_path / "train" / "state.json"


def damage(path, name, change):
    (path / name).write_bytes(change((path / name).read_bytes()))
    return path


@pytest.fixture
def saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = arrow(table(pa.array([[0, 1], [], [1]], NUMBERS)))
    save(tmp_path / "d", [content], {"text": STRING, "labels": LISTS["List"]})
    return tmp_path / "d"


ARROW = "data-00000-of-00001.arrow"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("state.json", b'{"_data_files": []}', "d/state.json: '_data_files' must name the Arrow files, got []. Save"),
        ("state.json", b'{"_data_files": [{"filename": "../x"}]}', "d/state.json: '_data_files' must name the Arrow"),
        ("state.json", b'{"_data_files": {"x": 1}}', "d/state.json: '_data_files' must name the Arrow files, got {"),
        ("state.json", b'{"_data_files": 7}', "d/state.json: '_data_files' must name the Arrow files, got 7. Save"),
        ("state.json", b'{"_data_files": [{"filename": "x"}]}', "d/state.json: there is no 'x' beside it, which"),
        ("state.json", b'{"_data_files": [', "d/state.json: not JSON ("),
        ("state.json", b'["_data_files"]', "d/state.json: must be one JSON object, got ['_data_files']. Save"),
        ("state.json", b'{"_data_files": [{"filename": "x"}], "_indices_data_files": [1]}', "d/state.json: the order "),
        ("state.json", b"", "d/state.json: the file is empty."),
        ("dataset_info.json", b"{", "d/dataset_info.json: not JSON ("),
        ("dataset_info.json", b"\xff\xfe{", "d/dataset_info.json: the file is UTF-16 text"),
        (ARROW, b"", f"d/{ARROW}: the Arrow data is damaged ("),
        (ARROW, b"ARROW1\0\0", f"d/{ARROW}: the Arrow data is damaged ("),
        (ARROW, arrow(table([["x"]], ["t"]))[:-8], f"d/{ARROW}: the Arrow data is damaged (it does not end where the"),
        (ARROW, arrow(table([["x"]], ["t"])) + b"\0" * 8, f"d/{ARROW}: the Arrow data is damaged (it does not end"),
        (ARROW, arrow(table([["x"]], ["t"]))[:-30], f"d/{ARROW}: the Arrow data is damaged ("),
        (ARROW, arrow(pa.table({"body": ["t"]})), f"d/{ARROW}: there is no 'text', got the fields ['body']. Use"),
        (ARROW, arrow(pa.table({"text": ["t"]})), f"d/{ARROW}: there is no 'labels', got the fields ['text']. Use"),
        (ARROW, arrow(table([["x"]], [1])), f"d/{ARROW}: the column 'text' must hold strings, got 'int64'. Use"),
        (ARROW, arrow(table([[0.5]], ["t"])), f"d/{ARROW}: the column 'labels' must hold lists of strings, or strings"),
        (ARROW, arrow(table([[0], [2]], ["t", "u"])), f"d/{ARROW}:2: 'labels' has the class 2, but there are 2, from "),
        (ARROW, arrow(table([[0], [-1]], ["t", "u"])), f"d/{ARROW}:2: 'labels' has the class -1, but there are 2, fro"),
        (ARROW, arrow(table([[0], [1]], ["t", None])), f"d/{ARROW}:2: 'text' must be a string, got None. Fix"),
        (ARROW, arrow(table([[0], None], ["t", "u"])), f"d/{ARROW}:2: 'labels' must be a list of strings, got None."),
    ],
)  # fmt: skip
def test_malformed_directories_are_told_where_and_what(saved, name, content, message):
    damage(saved, name, lambda _: content)
    shown = message_of("d", format="huggingface")
    assert shown.startswith(message.replace("/", os.sep))
    assert "\n" not in shown
    assert len(shown) < 250
    assert shown.endswith(".")


def test_a_cut_between_two_batches_is_noticed(saved):
    whole = (saved / ARROW).read_bytes()
    end = whole.rindex(b"\xff\xff\xff\xff", 0, len(whole) - 8)  # where the second batch begins
    assert pa.ipc.open_stream(whole[:end]).read_all().num_rows == 2  # pyarrow does not mind
    damage(saved, ARROW, lambda _: whole[:end])
    assert "it does not end where the table ends" in message_of("d")


def test_bad_rows_are_skipped_if_asked(saved):
    damage(saved, ARROW, lambda _: arrow(table([[0], [5], [1]])))
    report = SkipReport()
    assert [document.id for document in read("d", on_error="skip", report=report)] == ["1", "3"]
    assert report.n_skipped == 1


@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="datasets is not installed")
def test_what_datasets_saves(tmp_path):
    import datasets

    classes = datasets.Sequence(datasets.ClassLabel(names=["sport", "law"]))
    features = datasets.Features({"text": datasets.Value("string"), "labels": classes})
    made = datasets.Dataset.from_dict({"text": list("tuv"), "labels": [[0, 1], [], [1]]}, features=features)
    datasets.DatasetDict({"train": made, "test": made.select([2])}).save_to_disk(
        tmp_path, num_shards={"train": 2, "test": 1}
    )
    assert [document.labels for document in read(tmp_path)] == [("sport", "law"), (), ("law",)]
    assert read(tmp_path, split="test") == [Document("1", "v", ("law",))]
