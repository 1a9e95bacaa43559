"""Data sets of the bench: where they are, and which documents are trained on and judged."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from haxmlnet.data import Corpus, ReadOptions, find_file
from haxmlnet.errors import DataError

Split = Literal["dev", "test"]
KNOWN = ("eurlex57k", "cve_products", "cve_small")
DEV_SHARE = 10
"""One training document in so many is a dev document where the data set has no dev file."""


@dataclass(frozen=True)
class Parts:
    """The documents of a split: trained on, judged, and dev documents that methods may choose weights by."""

    train: Corpus
    judged: Corpus
    dev: Corpus | None = None


def find_sets(names: list[str], data: Path) -> dict[str, Path]:
    """Return the directory of each data set: a folder of `data`, or a path; without names, all known ones there."""
    if not names:
        found = {name: data / name for name in KNOWN if (data / name).is_dir()}
        return found or {data.resolve().name: data}
    sets: dict[str, Path] = {}
    for name in names:
        path = data / name if (data / name).is_dir() else Path(name)
        if not path.is_dir():
            raise DataError(f"{name}: no such data set in {data}, and no such directory. Give --data DIR.")
        sets[path.resolve().name] = path
    return sets


def source_files(directory: Path) -> dict[str, Path]:
    """Find the files of train and test, and of dev where it is called as train is."""
    files = {split: Path(find_file(directory, ReadOptions(split=split))) for split in ("train", "test")}
    dev = directory / files["train"].name.replace("train", "dev")
    if dev != files["train"] and dev.exists():
        files["dev"] = dev
    return files


def read_parts(directory: Path, split: Split) -> Parts:
    """Read the documents of a split.

    test: all of train is trained on, test is judged. dev: the same with the dev file; where there is none, the
    training documents that `in_dev` chooses are judged, and the others trained on. The test file is not opened.
    """
    files = source_files(directory)
    train = Corpus.read(files["train"])
    own_dev = Corpus.read(files["dev"]) if "dev" in files else None
    if split == "test":
        return Parts(train, Corpus.read(files["test"], ReadOptions(split="test")), own_dev)
    if own_dev is not None:
        return Parts(train, own_dev)
    chosen = [in_dev(document_id) for document_id in train.ids]
    return Parts(_take(train, [not judged for judged in chosen]), _take(train, chosen))


def in_dev(document_id: str) -> bool:
    """Choose dev documents: the md5 of "dev:" and the id, as a number, is divisible by ten.

    With the prefix, it does not depend on how a data set was itself split by the md5 of the id.
    """
    return int(hashlib.md5(f"dev:{document_id}".encode()).hexdigest(), 16) % DEV_SHARE == 0


def _take(corpus: Corpus, kept: list[bool]) -> Corpus:
    rows = [row for row, keep in enumerate(kept) if keep]
    return replace(
        corpus,
        ids=[corpus.ids[row] for row in rows],
        texts=[corpus.texts[row] for row in rows],
        labels=[corpus.labels[row] for row in rows],
    )
