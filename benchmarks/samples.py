"""A small valid set of files in each format that is read, to be mutated by tests and by the benchmark of bad input."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from haxmlnet.data import FORMATS, ReadOptions, SkipReport, iterate_documents, read_features

TEXTS = ["first text, with a comma", "zweiter Täxt", "", "the fourth text 4:5"]
LABELS = [["a", "b"], ["b"], ["c"], []]
FEATURES = [{0: 0.5, 3: 1.25}, {1: 2.0}, {}, {4: 0.001}]
NUMBERS = [[0, 1], [1], [2], []]


class Sample(NamedTuple):
    """Files that belong together, by name; the first one is read."""

    format: str
    files: dict[str, bytes]


class Outcome(NamedTuple):
    """How many documents were read, and how many left out."""

    n_documents: int
    n_skipped: int


def valid_samples() -> dict[str, Sample]:
    """Give the files of every format; each set has four documents."""
    made = {**_text_files(), **_table_files(), **_sparse_files()}
    assert made.keys() == FORMATS.keys()
    return {
        name: Sample(name, {file: _encoded(content) for file, content in files.items()}) for name, files in made.items()
    }


def read_sample(
    folder: Path, sample: Sample, *, with_labels: bool = True, on_error: str = "stop", is_told: bool = True
) -> Outcome:
    """Write the files of a sample and read them; `is_told`: with their format, or recognised by name and content."""
    for name, content in sample.files.items():
        (folder / name).write_bytes(content)
    form, report = FORMATS[sample.format], SkipReport()
    options = ReadOptions(format=sample.format if is_told else None, on_error=on_error)  # type: ignore[arg-type]
    path = folder / next(iter(sample.files))
    if form.is_sparse:
        n_documents = len(read_features(path, options, with_labels=with_labels, report=report))
    else:
        has_labels = with_labels and sample.format != "text"
        n_documents = sum(1 for _ in iterate_documents(path, options, with_labels=has_labels, report=report))
    return Outcome(n_documents, report.n_skipped)


def _text_files() -> dict[str, dict[str, str | bytes]]:
    rows = list(zip(TEXTS, LABELS, strict=True))
    lines = "".join(f"{text}\n" for text in TEXTS)
    uris = [" ".join(f"<http://x/{label}>" for label in labels) for labels in LABELS]
    return {
        "jsonl": {"a.jsonl": _json_lines([{"id": i, "text": t, "labels": y} for i, (t, y) in enumerate(rows)])},
        "csv": {"a.csv": "text,labels\n" + "".join(f'"{text}",{";".join(labels)}\n' for text, labels in rows)},
        "tsv": {"a.tsv": "id\ttext\tlabels\n" + "".join(f"{len(t)}\t{t}\t{';'.join(y)}\n" for t, y in rows)},
        "text": {"a.txt": lines},
        "parallel": {"a_texts.txt": lines, "a_labels.txt": "".join(f"{' '.join(labels)}\n" for labels in LABELS)},
        "xc": {
            "trn.json": _json_lines(
                [
                    {"uid": str(i), "title": "T", "content": t, "target_ind": y, "target_rel": [1.0] * len(y)}
                    for i, (t, y) in enumerate(zip(TEXTS, NUMBERS, strict=True))
                ]
            ),
            "lbl.json": _json_lines([{"uid": uid, "title": title} for uid, title in zip("ABC", "xyy", strict=True)]),
        },
        "pecos": {"X.trn.txt": lines, "Y.trn.npz": _npz(_targets()), "output-items.txt": "a\nb\nc\n"},
        "libmultilabel": {"a.txt": "".join(f"{i}\t{' '.join(y)}\t{t}\n" for i, (t, y) in enumerate(rows))},
        "fasttext": {"a.txt": "".join(" ".join([*(f"__label__{y}" for y in ys), t]) + "\n" for t, ys in rows)},
        "annif-tsv": {"a.tsv": "".join(f"{text}\t{row}\n" for text, row in zip(TEXTS, uris, strict=True))},
        "annif-csv": {
            "a.csv": "text,subject_uris\n" + "".join(f'"{text}",{row}\n' for text, row in zip(TEXTS, uris, strict=True))
        },
        "annif-jsonl": {
            "a.jsonl": _json_lines([{"text": t, "subjects": [{"uri": y, "label": y} for y in ys]} for t, ys in rows])
        },
    }  # fmt: skip


def _table_files() -> dict[str, dict[str, str | bytes]]:
    classes = {"feature": {"names": ["a", "b", "c"], "_type": "ClassLabel"}, "_type": "List"}
    features = {"text": {"dtype": "string", "_type": "Value"}, "labels": classes}
    stream = io.BytesIO()
    table = pa.table({"text": TEXTS, "labels": pa.array(NUMBERS, pa.list_(pa.int64()))})
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    parquet = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS, "labels": LABELS}), parquet, write_page_checksum=True)
    return {
        "parquet": {"a.parquet": parquet.getvalue()},
        "huggingface": {
            "state.json": json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None}),
            "dataset_info.json": json.dumps({"features": features}),
            "data-00000-of-00001.arrow": stream.getvalue(),
        },
    }


def _sparse_files() -> dict[str, dict[str, str | bytes]]:
    pairs = [" ".join(f"{index}:{value}" for index, value in row.items()) for row in FEATURES]
    labels = [",".join(map(str, row)) for row in NUMBERS]
    rows = "".join(f"{row} {features}\n" for row, features in zip(labels, pairs, strict=True))
    targets = "".join(" ".join(f"{label}:1" for label in row) + "\n" for row in NUMBERS)
    return {
        "xc-sparse": {"train.txt": f"4 5 3\n{rows}", "Y.txt": "x\ny\nz\n"},
        "xc-matrices": {
            "trn_X_Xf.txt": "4 5\n" + "".join(f"{row}\n" for row in pairs),
            "trn_X_Y.txt": f"4 3\n{targets}",
        },
        "pecos-npz": {"X.trn.npz": _npz(_features()), "Y.trn.npz": _npz(_targets()), "output-items.txt": "a\nb\nc\n"},
        "svmlight": {"a.svm": f"# a comment\n{rows}"},
    }


def _features() -> sp.csr_matrix:
    matrix = np.zeros((4, 5), np.float32)
    for row, features in enumerate(FEATURES):
        matrix[row, list(features)] = list(features.values())
    return sp.csr_matrix(matrix)


def _targets() -> sp.csr_matrix:
    matrix = np.zeros((4, 3), np.float32)
    for row, numbers in enumerate(NUMBERS):
        matrix[row, numbers] = 1
    return sp.csr_matrix(matrix)


def _npz(matrix: sp.csr_matrix) -> bytes:
    stream = io.BytesIO()
    sp.save_npz(stream, matrix)
    return stream.getvalue()


def _json_lines(records: list[dict[str, object]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _encoded(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
