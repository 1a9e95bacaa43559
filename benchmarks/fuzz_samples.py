"""Small valid files of every format, for the fuzz run to damage."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from haxmlnet.data import Document, FeatureCorpus, write_documents, write_features

Files = dict[str, bytes]
PACKED = (".gz", ".zst")
BINARY = (".npz", ".parquet", ".arrow")
FILTER, VECTORS = "filter", "vectors"
"""Files that are no documents, but are read as well."""


class Sample(NamedTuple):
    """Files of a format, the first of which is read; the others belong to it."""

    format: str
    files: Files
    n_documents: int


PLAIN = [
    Document("1", "first text, with commas", ("a", "b")),
    Document("2", "zweiter Täxt; naïve 日本語 😀", ()),
    Document("3", "", ("c",)),
    Document("4", "the last one", ("b", "a", "http://x/y")),
]
ODD = [
    Document("ä1", 'a "quoted"\nline\r\nand\ttab', ("with space", "a;b")),
    Document("", "\\ud83d is no escape", ("x",)),
    *[Document(f"d{i}", f"text number {i} " * 3, (f"l{i % 3}", "[x]")) for i in range(6)],
]
_WRITTEN = {
    "jsonl": "train.jsonl", "csv": "train.csv", "tsv": "train.tsv", "parquet": "train.parquet", "huggingface": "train",
    "parallel": "train_texts.txt", "xc": "trn.json", "pecos": "X.trn.txt", "libmultilabel": "train.lml",
    "fasttext": "train.fasttext", "annif-tsv": "train.annif", "annif-csv": "train.csv", "annif-jsonl": "train.jsonl",
}  # fmt: skip
_HOLD_ANYTHING = ("jsonl", "csv", "tsv", "parquet", "huggingface")
_WRITTEN_FEATURES = {"xc-sparse": "train.txt", "xc-matrices": "trn_X_Xf.txt", "pecos-npz": "X.trn.npz"}
_URIS = "<http://x/a> <http://x/b>"
_LABELS = b'{"uid": "A", "title": "a"}\n{"uid": "B", "title": "same"}\n{"uid": "C", "title": "same"}\n'
_TEXTS = "".join(f"{document.text}\n" for document in PLAIN).encode()


def all_samples() -> dict[str, list[Sample]]:
    """Make the samples of each format: with the writers, and by hand what they do not write."""
    samples = [*_written_samples(), *_text_samples(), *_feature_samples(), *_other_samples()]
    return {name: [sample for sample in samples if sample.format == name] for name in {s.format for s in samples}}


def _written_samples() -> list[Sample]:
    samples = []
    for name, file in _WRITTEN.items():
        for documents in (PLAIN, ODD) if name in _HOLD_ANYTHING else (PLAIN,):
            with tempfile.TemporaryDirectory() as folder:
                write_documents(documents, Path(folder, file), name)
                samples.append(Sample(name, _files_in(Path(folder), (file, "state.json")), len(documents)))
    return samples


def _files_in(folder: Path, firsts: tuple[str, ...]) -> Files:
    """Read all files of a folder, the one that leads to the others first."""
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.name not in firsts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _text_samples() -> list[Sample]:
    csv = f"document_id,text,subject_uris\nd1,first text,{_URIS}\nd2,zweiter Täxt,\n".encode()
    subjects = [{"uri": "http://x/a", "label": "A"}, "<http://x/b>", {"label": "C"}]
    annif: list[dict[str, Any]] = [
        {"text": "first", "subjects": subjects},
        {"document_id": 7, "text": "Täxt", "subjects": []},
    ]
    record = {"uid": "d", "title": "T ä", "content": "C c", "target_ind": [0, 2], "target_rel": [1.0, 0.5]}
    matrix = saved_matrix(sp.csr_matrix(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]], np.float32)))
    return [
        Sample("text", {"train.txt": _TEXTS}, len(PLAIN)),
        Sample("jsonl", {"train.jsonl": _json_lines([{"title": "T", "content": "c", "labels": [1, "x"]}] * 3)}, 3),
        Sample("annif-csv", {"train.csv": csv}, 2),
        Sample("annif-jsonl", {"train.jsonl": _json_lines(annif)}, 2),
        Sample("xc", {"trn.json": _json_lines([record, {**record, "uid": 2}]), "lbl.json": _LABELS}, 2),
        Sample("xc", {"trn.json": _json_lines([record] * 3)}, 3),
        Sample("pecos", {"X.trn.txt": _TEXTS, "Y.trn.npz": matrix}, len(PLAIN)),
    ]


def _feature_samples() -> list[Sample]:
    features = sp.csr_array(np.array([[0, 1, 0.5], [0, 0, 0], [2, 0, 1e-7], [0, 3, 0]], np.float32))
    targets = sp.csr_array(np.array([[1, 0], [0, 1], [0, 0], [1, 1]], np.float32))
    samples = []
    for name, file in _WRITTEN_FEATURES.items():
        for names in (None, ["first", "zweites Läbel"]):
            corpus = FeatureCorpus([str(i + 1) for i in range(4)], features, targets, names)
            with tempfile.TemporaryDirectory() as folder:
                write_features(corpus, Path(folder, file), name)
                samples.append(Sample(name, _files_in(Path(folder), (file,)), 4))
    lines = b"# a comment\n0,2 1:0.5 7:1e-3\n1 3:2\n 2:1 4:-3.25 # no label\n\n5 9:1\n"
    return [*samples, Sample("svmlight", {"train.svm": lines}, 4)]


def _other_samples() -> list[Sample]:
    pairs = b"0 0\n0 2\n3 1\n"
    names = {"trn.json": _json_lines([{"uid": "d", "content": "c", "target_ind": [0]}] * 4), "lbl.json": _LABELS}
    vectors = b"the 0.1 -0.2 3e-1\ntext 1 2 3\nother 4 5 6\n"
    return [
        Sample(FILTER, {"filter_labels_train.txt": pairs, **names}, 3),
        Sample(FILTER, {"filter_labels_train.txt": pairs, "trn_X_Xf.txt": b"4 1\n\n\n\n\n", "Y.txt": b"a\nb\nc\n"}, 3),
        Sample(VECTORS, {"glove.txt": vectors}, 3),
        Sample(VECTORS, {"words.vec": b"3 3\n" + vectors}, 3),
    ]


def _json_lines(records: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records).encode()


def saved_matrix(matrix: Any, compressed: bool = True) -> bytes:
    """Save a sparse matrix as scipy does."""
    stream = io.BytesIO()
    sp.save_npz(stream, matrix, compressed=compressed)
    return stream.getvalue()


def pack(content: bytes, suffix: str) -> bytes:
    """Compress as the suffix says."""
    if suffix == ".gz":
        return gzip.compress(content, compresslevel=6, mtime=0)
    return bytes(pa.Codec("zstd").compress(content, asbytes=True)) if suffix == ".zst" else content
