"""Small valid files of every format, for tests and the fuzz campaign to damage."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from haxmlnet.data import (
    FORMATS,
    Document,
    FeatureCorpus,
    ReadOptions,
    SkipReport,
    iterate_documents,
    read_features,
    write_documents,
    write_features,
)

Files = dict[str, bytes]
PACKED = (".gz", ".zst")
BINARY = (".npz", ".parquet", ".arrow")
FILTER, VECTORS = "filter", "vectors"
"""Files that hold no documents, but are read as well."""
READABLE = (*FORMATS, FILTER, VECTORS)

TEXTS = ["first text, with a comma", "zweiter Täxt", "", "the fourth text 4:5"]
LABELS = [["a", "b"], ["b"], ["c"], []]
NUMBERS = [[0, 1], [1], [2], []]
FEATURES = np.array([[0.5, 0, 0, 1.25, 0], [0, 2, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1e-3]], np.float32)
TARGETS = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]], np.float32)

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
WRITTEN = {
    "jsonl": "train.jsonl", "csv": "train.csv", "tsv": "train.tsv", "parquet": "train.parquet", "huggingface": "train",
    "parallel": "train_texts.txt", "xc": "trn.json", "pecos": "X.trn.txt", "libmultilabel": "train.lml",
    "fasttext": "train.fasttext", "annif-tsv": "train.annif", "annif-csv": "train.csv", "annif-jsonl": "train.jsonl",
}  # fmt: skip
HOLD_ANYTHING = ("jsonl", "csv", "tsv", "parquet", "huggingface")
WRITTEN_FEATURES = {"xc-sparse": "train.txt", "xc-matrices": "trn_X_Xf.txt", "pecos-npz": "X.trn.npz"}


class Sample(NamedTuple):
    """Files that belong together, by name; the first one is read."""

    format: str
    files: Files
    n_documents: int = len(TEXTS)


def valid_samples() -> dict[str, Sample]:
    """Write, by hand, one sample of each format with four documents."""
    files = {**_text_files(), **_table_files(), **_sparse_files()}
    assert files.keys() == FORMATS.keys()
    return {
        name: Sample(name, {file: data.encode() if isinstance(data, str) else data for file, data in of_format.items()})
        for name, of_format in files.items()
    }


def all_samples() -> dict[str, list[Sample]]:
    """Give the valid samples, those that our own writers make, and others that hold what is rare."""
    samples = defaultdict(list)
    for sample in (*valid_samples().values(), *_written_samples(), *_rare_samples()):
        samples[sample.format].append(sample)
    return dict(samples)


def _text_files() -> dict[str, dict[str, str | bytes]]:
    rows = list(zip(TEXTS, LABELS, strict=True))
    lines = "".join(f"{text}\n" for text in TEXTS)
    uris = [" ".join(f"<http://x/{label}>" for label in labels) for labels in LABELS]
    records = [
        {"uid": str(i), "title": "T", "content": t, "target_ind": y, "target_rel": [1.0] * len(y)}
        for i, (t, y) in enumerate(zip(TEXTS, NUMBERS, strict=True))
    ]
    titles = [{"uid": uid, "title": title} for uid, title in zip("ABC", "xyy", strict=True)]
    return {
        "jsonl": {"a.jsonl": _json_lines({"id": i, "text": t, "labels": y} for i, (t, y) in enumerate(rows))},
        "csv": {"a.csv": "text,labels\n" + "".join(f'"{text}",{";".join(labels)}\n' for text, labels in rows)},
        "tsv": {"a.tsv": "id\ttext\tlabels\n" + "".join(f"{len(t)}\t{t}\t{';'.join(y)}\n" for t, y in rows)},
        "text": {"a.txt": lines},
        "parallel": {"a_texts.txt": lines, "a_labels.txt": "".join(f"{' '.join(labels)}\n" for labels in LABELS)},
        "xc": {"trn.json": _json_lines(records), "lbl.json": _json_lines(titles)},
        "pecos": {"X.trn.txt": lines, "Y.trn.npz": save_matrix(TARGETS), "output-items.txt": "a\nb\nc\n"},
        "libmultilabel": {"a.txt": "".join(f"{i}\t{' '.join(y)}\t{t}\n" for i, (t, y) in enumerate(rows))},
        "fasttext": {"a.txt": "".join(" ".join([*(f"__label__{y}" for y in ys), t]) + "\n" for t, ys in rows)},
        "annif-tsv": {"a.tsv": "".join(f"{text}\t{row}\n" for text, row in zip(TEXTS, uris, strict=True))},
        "annif-csv": {
            "a.csv": "text,subject_uris\n" + "".join(f'"{text}",{row}\n' for text, row in zip(TEXTS, uris, strict=True))
        },
        "annif-jsonl": {
            "a.jsonl": _json_lines({"text": t, "subjects": [{"uri": y, "label": y} for y in ys]} for t, ys in rows)
        },
    }


def _table_files() -> dict[str, dict[str, str | bytes]]:
    names = {"feature": {"names": ["a", "b", "c"], "_type": "ClassLabel"}, "_type": "List"}
    arrow, parquet = io.BytesIO(), io.BytesIO()
    table = pa.table({"text": TEXTS, "labels": pa.array(NUMBERS, pa.list_(pa.int64()))})
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    pq.write_table(pa.table({"text": TEXTS, "labels": LABELS}), parquet, write_page_checksum=True)
    return {
        "parquet": {"a.parquet": parquet.getvalue()},
        "huggingface": {
            "state.json": json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None}),
            "dataset_info.json": json.dumps(
                {"features": {"text": {"dtype": "string", "_type": "Value"}, "labels": names}}
            ),
            "data-00000-of-00001.arrow": arrow.getvalue(),
        },
    }


def _sparse_files() -> dict[str, dict[str, str | bytes]]:
    pairs = [" ".join(f"{i}:{row[i]:g}" for i in np.flatnonzero(row)) for row in FEATURES]
    rows = "".join(f"{','.join(map(str, y))} {features}\n" for y, features in zip(NUMBERS, pairs, strict=True))
    targets = "".join(" ".join(f"{label}:1" for label in row) + "\n" for row in NUMBERS)
    return {
        "xc-sparse": {"train.txt": f"4 5 3\n{rows}", "Y.txt": "x\ny\nz\n"},
        "xc-matrices": {
            "trn_X_Xf.txt": "4 5\n" + "".join(f"{row}\n" for row in pairs),
            "trn_X_Y.txt": f"4 3\n{targets}",
        },
        "pecos-npz": {
            "X.trn.npz": save_matrix(FEATURES),
            "Y.trn.npz": save_matrix(TARGETS),
            "output-items.txt": "a\nb\nc\n",
        },
        "svmlight": {"a.svm": f"# a comment\n{rows}"},
    }


def _written_samples() -> Iterable[Sample]:
    for name, file in WRITTEN.items():
        for documents in (PLAIN, ODD) if name in HOLD_ANYTHING else (PLAIN,):
            with tempfile.TemporaryDirectory() as folder:
                write_documents(documents, Path(folder, file), name)
                yield Sample(name, _read_folder(Path(folder), first=(file, "state.json")), len(documents))

    features = sp.csr_array(np.array([[0, 1, 0.5], [0, 0, 0], [2, 0, 1e-7], [0, 3, 0]], np.float32))
    targets = sp.csr_array(np.array([[1, 0], [0, 1], [0, 0], [1, 1]], np.float32))
    for name, file in WRITTEN_FEATURES.items():
        for label_names in (None, ["first", "zweites Läbel"]):
            corpus = FeatureCorpus([str(i + 1) for i in range(4)], features, targets, label_names)
            with tempfile.TemporaryDirectory() as folder:
                write_features(corpus, Path(folder, file), name)
                yield Sample(name, _read_folder(Path(folder), first=(file,)))


def _rare_samples() -> Iterable[Sample]:
    titled = {"title": "T", "content": "c", "labels": [1, "x"]}
    uris = "document_id,text,subject_uris\nd1,first text,<http://x/a> <http://x/b>\nd2,zweiter Täxt,\n"
    subjects = [{"uri": "http://x/a", "label": "A"}, "<http://x/b>", {"label": "C"}]
    annif: list[dict[str, Any]] = [
        {"text": "first", "subjects": subjects},
        {"document_id": 7, "text": "Täxt", "subjects": []},
    ]
    rated = {"uid": "d", "title": "T ä", "content": "C c", "target_ind": [0, 2], "target_rel": [1.0, 0.5]}
    svm = "# a comment\n0,2 1:0.5 7:1e-3\n1 3:2\n 2:1 4:-3.25 # no label\n\n5 9:1\n"
    beside_texts = {
        "trn.json": _json_lines([{"uid": "d", "content": "c", "target_ind": [0]}] * 4),
        "lbl.json": _json_lines([{"uid": uid, "title": "same"} for uid in "ABC"]),
    }
    beside_matrices = {"trn_X_Xf.txt": "4 1\n\n\n\n\n", "Y.txt": "a\nb\nc\n"}
    pairs, vectors = "0 0\n0 2\n3 1\n", "the 0.1 -0.2 3e-1\ntext 1 2 3\nother 4 5 6\n"
    for format_name, files, n_documents in (
        ("jsonl", {"train.jsonl": _json_lines([titled] * 3)}, 3),
        ("annif-csv", {"train.csv": uris}, 2),
        ("annif-jsonl", {"train.jsonl": _json_lines(annif)}, 2),
        ("xc", {"trn.json": _json_lines([rated] * 3)}, 3),  # no names of labels beside them
        ("svmlight", {"train.svm": svm}, 4),
        (FILTER, {"filter_labels_train.txt": pairs, **beside_texts}, 3),
        (FILTER, {"filter_labels_train.txt": pairs, **beside_matrices}, 3),
        (VECTORS, {"glove.txt": vectors}, 3),
        (VECTORS, {"words.vec": f"3 3\n{vectors}"}, 3),
    ):
        yield Sample(format_name, {name: content.encode() for name, content in files.items()}, n_documents)


def _read_folder(folder: Path, first: tuple[str, ...]) -> Files:
    """Read all files of a folder, the one that leads to the others first."""
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.name not in first)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _json_lines(records: Iterable[Mapping[str, object]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def save_matrix(matrix: Any, compressed: bool = True) -> bytes:
    """Save a matrix as scipy does."""
    stream = io.BytesIO()
    sp.save_npz(stream, matrix if sp.issparse(matrix) else sp.csr_matrix(matrix), compressed=compressed)
    return stream.getvalue()


def pack(content: bytes, suffix: str) -> bytes:
    """Compress as the suffix says."""
    if suffix == ".gz":
        return gzip.compress(content, compresslevel=6, mtime=0)
    return bytes(pa.Codec("zstd").compress(content, asbytes=True)) if suffix == ".zst" else content


def write_files(files: Files, folder: Path) -> None:
    """Write files into a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class Outcome(NamedTuple):
    """How many documents were read, and how many skipped."""

    n_documents: int
    n_skipped: int


def read_sample(
    folder: Path, sample: Sample, *, with_labels: bool = True, on_error: str = "stop", is_told: bool = True
) -> Outcome:
    """Write the files of a sample and read them; `is_told`: with their format, or recognised by name and content."""
    write_files(sample.files, folder)
    form, report = FORMATS[sample.format], SkipReport()
    options = ReadOptions(format=sample.format if is_told else None, on_error=on_error)  # type: ignore[arg-type]
    path = folder / next(iter(sample.files))
    if form.is_sparse:
        n_documents = len(read_features(path, options, with_labels=with_labels, report=report))
    else:
        has_labels = with_labels and sample.format != "text"
        n_documents = sum(1 for _ in iterate_documents(path, options, with_labels=has_labels, report=report))
    return Outcome(n_documents, report.n_skipped)
