"""The files every method is given: the same texts, labels and TF-IDF for all.

    python -m benchmarks.inputs DIRECTORY SPLIT OUT [features]

runs as a process of its own, so that the bench itself stays small.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.datasets import Parts, Split, read_parts, source_files
from benchmarks.peers.exchange import median_single_ms
from haxmlnet.data import Corpus, replace_file
from haxmlnet.data.labels import LabelIndex

SUMMARY, FEATURES_SUMMARY = "documents.json", "features.json"


def write_documents(directory: Path, split: Split, out: Path) -> None:
    """Write texts and labels of a split; the summary comes last, so that it tells that all is there."""
    out.mkdir(parents=True, exist_ok=True)
    for summary in (SUMMARY, FEATURES_SUMMARY):
        (out / summary).unlink(missing_ok=True)
    parts = read_parts(directory, split)
    index = LabelIndex.from_labels(parts.train.labels)
    _write_corpora(parts, out)
    write_json(out / "labels.json", index.names.tolist())
    sp.save_npz(out / "labels_train.npz", sp.csr_matrix(index.matrix(parts.train.labels)))
    sp.save_npz(out / "truth.npz", sp.csr_matrix(index.matrix(parts.judged.labels)))
    summary_values = {
        "sources": source_stamps(directory), "digest": _digest(parts), "n_train": len(parts.train),
        "n_judged": len(parts.judged), "n_labels": len(index),
    }  # fmt: skip
    write_json(out / SUMMARY, summary_values)


def write_features(out: Path) -> None:
    """Write the TF-IDF of single words, sublinear and of length one; its times count for those who use it."""
    texts = {}
    for part in ("train", "judged"):
        lines = (out / f"{part}.jsonl").read_text("utf-8").splitlines()
        texts[part] = [json.loads(line)["text"] for line in lines]
    vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32)
    started = time.perf_counter()
    features = vectorizer.fit_transform(texts["train"])
    fitted = time.perf_counter()
    judged = vectorizer.transform(texts["judged"])
    batch_ms = 1000 * (time.perf_counter() - fitted) / len(texts["judged"])
    single_ms = median_single_ms(lambda row: vectorizer.transform([texts["judged"][row]]), len(texts["judged"]))
    sp.save_npz(out / "features_train.npz", sp.csr_matrix(features))
    sp.save_npz(out / "features_judged.npz", sp.csr_matrix(judged))
    times = {"seconds": fitted - started, "batch_ms": batch_ms, "single_ms": single_ms}
    write_json(out / FEATURES_SUMMARY, times | {"n_words": features.shape[1]})


def source_stamps(directory: Path) -> dict[str, list[int]]:
    """Tell files from later versions of them by size and time."""
    return {
        file.name: [file.stat().st_size, file.stat().st_mtime_ns] for _, file in sorted(source_files(directory).items())
    }


def write_json(path: Path, value: Any) -> None:
    """Write beside and rename: what is there is complete."""
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(value), "utf-8")


def _write_corpora(parts: Parts, out: Path) -> None:
    (out / "dev.jsonl").unlink(missing_ok=True)
    corpora: dict[str, Corpus | None] = {"train": parts.train, "judged": parts.judged, "dev": parts.dev}
    for name, corpus in corpora.items():
        if corpus is None:
            continue
        with open(out / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for row in zip(corpus.ids, corpus.texts, corpus.labels, strict=True):
                file.write(json.dumps(dict(zip(("id", "text", "labels"), row, strict=True))) + "\n")


def _digest(parts: Parts) -> str:
    digest = hashlib.sha256()
    for corpus in (parts.train, parts.judged):
        for row in zip(corpus.texts, corpus.labels, strict=True):
            digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    source, chosen, target, *also = sys.argv[1:]
    if also:
        write_features(Path(target))
    else:
        write_documents(Path(source), cast(Split, chosen), Path(target))
