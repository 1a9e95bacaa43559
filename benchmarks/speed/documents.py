"""Documents of the bench's data sets for the rows that need real ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from benchmarks.datasets import find_sets, source_files
from benchmarks.speed.row import Run, Unavailable
from benchmarks.synthetic import SPLITS, Split
from haxmlnet.data import Document, ReadOptions, iterate_documents, replace_file
from haxmlnet.errors import DataError


def data_set(run: Run, name: str) -> Path:
    """Return the directory of a data set."""
    try:
        (directory,) = find_sets([name], run.data).values()
    except DataError as reason:
        raise Unavailable(str(reason)) from None
    return directory


def part_of(run: Run, name: str) -> Path:
    """Return the directory of a data set, or of the part of its train and test documents that the scale asks for."""
    directory = data_set(run, name)
    if run.scale >= 1:
        return directory
    part = run.folder(f"{name}-{run.scale:g}")
    for split in SPLITS:
        if not (part / f"{split}.jsonl").exists():
            write_jsonl(spread_evenly(_documents(directory, split), run.scale), part / f"{split}.jsonl")
    return part


def first_documents(run: Run, name: str, split: Split, n_documents: int) -> list[Document]:
    """Read the first documents of a split."""
    return list(islice(_documents(data_set(run, name), split), n_documents))


def spread_evenly(documents: Iterable[Document], share: float) -> Iterator[Document]:
    """Keep a share of the documents, spread over all of them."""
    for i, document in enumerate(documents, 1):
        if int(i * share) > int((i - 1) * share):
            yield document


def write_jsonl(documents: Iterable[Document], path: Path) -> None:
    """Write documents as the bench hands them to a method."""
    with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for document in documents:
            row = {"id": document.id, "text": document.text, "labels": list(document.labels)}
            file.write(json.dumps(row) + "\n")


def texts_of(path: Path) -> list[str]:
    """Read the texts of a file of JSON lines."""
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def _documents(directory: Path, split: Split) -> Iterator[Document]:
    file = source_files(directory)[split]
    return iterate_documents(file, ReadOptions(split=split), with_labels=True)
