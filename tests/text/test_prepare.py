from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from haxmlnet import Corpus, PreparedCorpus, prepare
from haxmlnet.data import ReadOptions
from haxmlnet.data.labels import index_labels
from haxmlnet.errors import DataError
from haxmlnet.progress import Progress
from haxmlnet.text.corpus_builder import prepare_texts

ROWS = [{"text": f"word{i} common", "labels": [f"label {i % 3}", "all"]} for i in range(8)]
READ = "haxmlnet.text.prepare.iterate_documents"


class Remarks(Progress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def fail(*arguments: Any, **options: Any) -> None:
    raise AssertionError("the texts were read again")


def write(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "train.jsonl")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def entries(cache: Path) -> list[str]:
    return sorted(os.listdir(cache))


def test_a_file_is_as_the_lists_it_holds(file, cache):
    corpus = prepare(file, cache=cache)
    read = Corpus.read(file)
    other = prepare_texts(read.texts, *index_labels(read.labels, len(read)))
    assert corpus.digest == other.digest
    assert corpus.words() == other.words()
    assert corpus.label_index.names.tolist() == other.label_index.names.tolist()
    assert corpus.source == str(file)


def test_the_second_time_the_texts_are_not_read(file, cache, monkeypatch):
    first = prepare(file, cache=cache)
    monkeypatch.setattr(READ, fail)
    remarks = Remarks()
    assert prepare(file, cache=cache, progress=remarks).digest == first.digest
    assert remarks.lines == [f"{file} was prepared before; opened {first.directory}"]


def test_the_same_bytes_under_another_name_are_found(file, cache, monkeypatch, tmp_path):
    first = prepare(file, cache=cache)
    (tmp_path / "elsewhere").mkdir()
    copy = Path(shutil.copy(file, tmp_path / "elsewhere" / "other.json"))
    monkeypatch.setattr(READ, fail)
    again = prepare(copy, cache=cache)
    assert again.directory == first.directory
    assert again.source == str(copy)


def test_other_content_and_other_options_are_other_entries(file, cache):
    directories = {prepare(file, cache=cache).directory}
    directories.add(prepare(write(file, [*ROWS[:-1], {**ROWS[-1], "labels": ["new"]}]), cache=cache).directory)
    directories.add(prepare(file, options=ReadOptions(text_field=("text", "text")), cache=cache).directory)
    directories.add(prepare(file, options=ReadOptions(on_error="skip"), cache=cache).directory)
    assert len(directories) == 4
    assert len(entries(cache)) == 4


def parallel(folder: Path, label: str) -> Path:
    (folder / "train_labels.txt").write_text(f"a\n{label}\n")
    (folder / "train_texts.txt").write_text("one\ntwo\n")
    return folder / "train_texts.txt"


def repository(folder: Path, label: str) -> Path:
    (folder / "lbl.json.gz").write_bytes(gzip.compress(f'{{"title": "a"}}\n{{"title": "{label}"}}\n'.encode()))
    rows = [{"uid": str(i), "title": "t", "content": "c", "target_ind": [i]} for i in range(2)]
    return write(folder / "trn.json", rows)


def pecos(folder: Path, label: str) -> Path:
    (folder / "X.trn.txt").write_text("one\ntwo\n")
    sp.save_npz(folder / "Y.trn.npz", sp.csr_matrix(np.eye(2, dtype=np.float32)))
    (folder / "output-items.txt").write_text(f"a\n{label}\n")
    return folder / "X.trn.txt"


@pytest.mark.parametrize("write_files", [parallel, repository, pecos])
def test_files_beside_belong_to_the_content(tmp_path, cache, write_files):
    path = write_files(tmp_path, "b")
    assert prepare(path, cache=cache).label_index.names.tolist() == ["a", "b"]
    assert prepare(write_files(tmp_path, "c"), cache=cache).label_index.names.tolist() == ["a", "c"]


def test_skipped_documents_are_remembered_under_the_name_now_given(tmp_path, cache, monkeypatch):
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + "{\n")
    options = ReadOptions(on_error="skip")
    first = prepare(path, options=options, cache=cache)
    monkeypatch.setattr(READ, fail)
    path.rename(tmp_path / "new.jsonl")
    again = prepare(tmp_path / "new.jsonl", options=options, cache=cache)
    assert first.skipped.n_skipped == again.skipped.n_skipped == 1
    assert first.skipped.messages[0].startswith(f"{path}:9: ")
    assert again.skipped.messages[0] == first.skipped.messages[0].replace("train.jsonl", "new.jsonl")


def test_a_damaged_entry_is_made_anew(file, cache):
    first = prepare(file, cache=cache)
    digest = first.digest
    os.truncate(first.directory / "ids.npy", 140)
    remarks = Remarks()
    assert prepare(file, cache=cache, progress=remarks).digest == digest
    assert len(remarks.lines) == 1
    assert "damaged" in remarks.lines[0]
    assert entries(cache) == [first.directory.name]


def test_a_half_written_entry_is_not_used(file, cache):
    first = prepare(file, cache=cache)
    killed = cache / f".{first.directory.name}.0123abcd.new"
    first.directory.rename(killed)
    (killed / "arrays.json").unlink()
    assert prepare(file, cache=cache).directory == first.directory
    assert entries(cache) == [killed.name, first.directory.name]


def test_a_failure_leaves_no_entry(file, cache):
    file.write_text(file.read_text() + "{\n")
    with pytest.raises(DataError, match="jsonl:9: "):
        prepare(file, cache=cache)
    assert entries(cache) == []


def test_a_cache_that_cannot_be_written_is_done_without(file, tmp_path):
    (tmp_path / "blocked").write_text("in the way")
    remarks = Remarks()
    corpus = prepare(file, cache=tmp_path / "blocked", progress=remarks)
    assert (len(corpus), corpus.directory) == (8, None)
    assert len(remarks.lines) == 1
    assert "cannot be written" in remarks.lines[0]


def test_a_directory_of_ones_own(file, tmp_path):
    corpus = prepare(file, tmp_path / "own" / "corpus")
    assert corpus.directory == tmp_path / "own" / "corpus"
    assert PreparedCorpus.open(tmp_path / "own" / "corpus").digest == corpus.digest
    again = prepare(write(file, ROWS[:5]), tmp_path / "own" / "corpus")
    assert len(again) == 5
    assert os.listdir(tmp_path / "own") == ["corpus"]


def test_a_prepared_corpus_is_opened(file, tmp_path, cache):
    first = prepare(file, tmp_path / "corpus")
    assert prepare(tmp_path / "corpus", cache=cache).digest == first.digest
    assert not cache.exists()


@pytest.mark.parametrize("what", ["file", "folder"])
def test_nothing_else_is_overwritten(file, tmp_path, what):
    target = tmp_path / "precious"
    if what == "folder":
        target.mkdir()
        (target / "thesis.tex").write_text("text")
    else:
        target.write_text("text")
    with pytest.raises(DataError, match="precious: exists and is no prepared corpus"):
        prepare(file, target)
    assert target.read_text() == "text" if what == "file" else os.listdir(target) == ["thesis.tex"]


@pytest.mark.parametrize("named", [False, True])
def test_standard_input(file, tmp_path, monkeypatch, cache, named):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    directory = tmp_path / "own" if named else None
    corpus = prepare("-", directory, cache=cache)
    assert corpus.digest == prepare(file, cache=cache).digest
    assert corpus.directory == directory


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_read_once(file, tmp_path, cache):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(file.read_bytes(),))
    writer.start()
    corpus = prepare(tmp_path / "pipe", cache=cache)
    writer.join()
    assert corpus.digest == prepare(file, cache=cache).digest
    assert corpus.directory is None


def test_the_stage_knows_how_many_documents_will_come(file, cache, tmp_path):
    class Totals(Progress):
        def __init__(self) -> None:
            self.totals: dict[str, int | None] = {}

        def stage(self, name: str, total: int | None, unit: str):
            self.totals[name] = total
            return super().stage(name, total, unit)

    progress = Totals()
    prepare(file, cache=cache, progress=progress)
    assert progress.totals["words"] == 8
    packed = tmp_path / "train.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    prepare(packed, cache=cache, progress=progress)
    assert progress.totals["words"] is None


def test_a_table_is_prepared_as_a_file_with_the_same_rows(file, cache, tmp_path):
    table = pa.table({name: [row[name] for row in ROWS] for name in ROWS[0]})
    assert prepare(table).digest == prepare(file, cache=cache).digest
    on_disk = prepare(table, tmp_path / "prepared")
    assert on_disk.directory == tmp_path / "prepared"
    assert on_disk.digest == prepare(table).digest
