"""Filter files of the Extreme Classification Repository: pairs of a document and a label that do not count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from haxmlnet.data.documents import DEFAULT_OPTIONS, ReadOptions
from haxmlnet.data.formats.fields import show
from haxmlnet.data.formats.label_name_files import LABEL_FILE, read_any_names_beside, read_label_names
from haxmlnet.data.formats.recognition import find_file
from haxmlnet.data.formats.source import bare_name, find_beside, open_source
from haxmlnet.errors import DataError
from haxmlnet.ranking import ABSENT, Ranking

FILTER_FILE = "filter_labels_{split}.txt"
_SPLITS = {"train": re.compile(r"(?<![a-z])(train|trn)(?![a-z])"), "test": re.compile(r"(?<![a-z])(test|tst)(?![a-z])")}


@dataclass(frozen=True)
class LabelPairs:
    """A document, by its place in the file, from 0, and a label, by its name, in each pair."""

    documents: NDArray[np.int64]
    labels: NDArray[np.object_]
    source: str = ""

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def most_per_document(self) -> int:
        """How many more labels to ask for, so that enough are left without the pairs."""
        return int(np.bincount(self.documents).max()) if len(self) else 0


def find_filter(path: str | Path, options: ReadOptions = DEFAULT_OPTIONS) -> Path | None:
    """Look for the filter file that lies beside documents, a file or a directory; their name tells which part."""
    file = Path(find_file(path, options))
    name = bare_name(file.name)
    split = next((split for split, words in _SPLITS.items() if words.search(name)), options.split)
    return find_beside(file, FILTER_FILE.format(split=split))


def read_filter(path: str | Path) -> NDArray[np.int64]:
    """Read pairs of numbers, a document and a label, both from 0: (pairs, 2); a file may be empty."""
    if not Path(path).stat().st_size:
        return np.zeros((0, 2), np.int64)
    numbers: list[int] = []
    with open_source(path) as source:
        for number, line in source.lines():
            words = line.split()
            if not words:
                continue
            if len(words) != 2 or not all(word.isdigit() and len(word) < 11 for word in words):
                got = show(line[:100].decode(errors="backslashreplace").strip())
                raise source.error(
                    f"expected the numbers of a document and a label, from 0, got {got}. Fix it.", number
                )
            numbers += (int(words[0]), int(words[1]))
    return np.array(numbers, np.int64).reshape(-1, 2)


def filter_pairs(path: str | Path, options: ReadOptions = DEFAULT_OPTIONS) -> LabelPairs | None:
    """Read the filter file beside documents, with the names that their labels have; None where there is none."""
    filter_file = find_filter(path, options)
    if filter_file is None:
        return None
    pairs = read_filter(filter_file)
    documents = Path(find_file(path, options))
    label_file = find_beside(documents, LABEL_FILE)
    if bare_name(documents.name).endswith(".json"):
        names = read_label_names(label_file) if label_file else None
    else:
        names = read_any_names_beside(documents)
    if names is not None and len(pairs) and pairs[:, 1].max() >= len(names):
        raise DataError(
            f"{filter_file}: there is the label {pairs[:, 1].max()}, but the labels end with {len(names) - 1}. "
            "Use the files of one data set."
        )
    labels = [str(number) if names is None else names[number] for number in pairs[:, 1].tolist()]
    return LabelPairs(pairs[:, 0], np.array(labels, dtype=object), str(filter_file))


def drop_pairs(ranking: Ranking, pairs: LabelPairs) -> Ranking:
    """Drop pairs from a ranking; what ranks below them moves up, so ask for `most_per_document` more labels."""
    _check_documents(pairs, len(ranking))
    names = range(ranking.n_ids) if ranking.names is None else ranking.names
    columns = {str(name): column for column, name in enumerate(names)}
    known = np.array([columns.get(label, ABSENT) for label in pairs.labels], np.int64)
    is_known = known != ABSENT
    dropped_keys = pairs.documents[is_known] * ranking.n_ids + known[is_known]
    keys = np.arange(len(ranking))[:, None] * ranking.n_ids + ranking.ids
    is_dropped = np.isin(keys, dropped_keys) & (ranking.ids != ABSENT)  # (n, K)
    order = np.argsort(is_dropped, axis=1, kind="stable")
    ids = np.where(is_dropped, ABSENT, ranking.ids).astype(np.int32)
    scores = np.where(is_dropped, 0, ranking.scores).astype(np.float32)
    return Ranking(
        np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1), ranking.names, ranking.n_ids
    )


def drop_label_pairs(labels: Sequence[Sequence[str]], pairs: LabelPairs) -> list[tuple[str, ...]]:
    """Drop pairs from the true labels of documents."""
    _check_documents(pairs, len(labels))
    dropped: dict[int, set[str]] = {}
    for document, label in zip(pairs.documents.tolist(), pairs.labels.tolist(), strict=True):
        dropped.setdefault(document, set()).add(label)
    remaining = [tuple(row) for row in labels]
    for document, names in dropped.items():
        remaining[document] = tuple([label for label in remaining[document] if label not in names])
    return remaining


def _check_documents(pairs: LabelPairs, n_documents: int) -> None:
    if len(pairs) and pairs.documents.max() >= n_documents:
        raise DataError(
            f"{pairs.source}: there is the document {pairs.documents.max()}, from 0, but there are {n_documents}. "
            "Give all documents of the data set, in their order."
        )
