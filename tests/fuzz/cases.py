"""One damaged file after the other: how a case is made from its number, and saved when it fails."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Literal

from tests.fuzz import odd_files
from tests.fuzz.mutations import RARE_MUTATIONS, cut_end, mutate
from tests.fuzz.records import COUNTED, MUST_FAIL, count_records
from tests.fuzz.samples import BINARY, PACKED, VECTORS, Files, Sample, pack, write_files

from haxmlnet.data import FORMATS

CASE_FILE = "case.json"
LONGEST_MAGIC = 4
NOT_RECOGNISED = ("text", "libmultilabel", "annif-tsv")
UNKNOWN = -2


@dataclass(frozen=True)
class Case:
    """Files to read and what must come of it."""

    format: str
    path: str
    """What is read, in the folder of the files: a file's name, or "." for the folder itself."""
    given_format: str | None
    with_labels: bool
    on_error: Literal["stop", "skip"]
    n_records: int | None
    """Documents and skipped ones together where it is known; MUST_FAIL for files that cannot be read to their end."""


def make_case(samples: dict[str, list[Sample]], seed: int, number: int) -> tuple[Case, Files]:
    """Damage a sample; seed and number determine the case, and formats take turns."""
    names = sorted(samples)
    rng = Random(f"{seed}:{number}")
    sample = rng.choice(samples[names[number % len(names)]])
    other = rng.choice(samples[rng.choice((sample.format, rng.choice(names)))])
    with_labels = sample.format != "text" and rng.random() < 0.85
    files, n_records = damage_files(sample, next(iter(other.files.values())), rng)
    if not with_labels and next(iter(files.values())) == next(iter(sample.files.values())):
        n_records = None  # the other files have the labels, and need not be read
    is_given = rng.random() < 0.75 or sample.format in NOT_RECOGNISED
    if n_records is None and is_given:
        n_records = count_records(sample, files, with_labels)
    has_folder = sample.format in FORMATS and bool(FORMATS[sample.format].files)
    return Case(
        sample.format,
        path="." if has_folder and rng.random() < 0.2 else next(iter(files)),
        given_format=sample.format if is_given and sample.format in FORMATS else None,
        with_labels=with_labels,
        on_error=rng.choice(("stop", "skip", "skip")),
        n_records=None if n_records == UNKNOWN else n_records,
    ), files


def damage_files(sample: Sample, other: bytes, rng: Random) -> tuple[Files, int | None]:
    """Damage one of the files, its inside or its packing; give the number of records if that tells it."""
    files = dict(sample.files)
    name = rng.choice(list(files)) if rng.random() < 0.6 else next(iter(files))
    if name.endswith(BINARY):
        files[name], n_records = damage_binary(name, sample, other, rng)
        return files, n_records

    suffix = "" if rng.random() < 0.5 else rng.choice(PACKED)
    n_mutations = rng.choice((1, 1, 1, 2, 3, 4))
    n_records = None
    if suffix and rng.random() < 0.4:
        packed = pack(files[name], suffix)
        content = mutate(packed, rng, pack(other, suffix), n_mutations)
        if rng.random() < 0.2:
            content = cut_end(packed, rng, b"")
            # What is shorter than the magic number of its packing is text.
            is_known = name == next(iter(files)) and LONGEST_MAGIC <= len(content) < len(packed)
            n_records = MUST_FAIL if is_known and sample.format != VECTORS else None
    else:
        content = mutate(files[name], rng, other, n_mutations)
        if rng.random() < 0.03:
            content = rng.choice(RARE_MUTATIONS)(content, rng, other)
        content = pack(content, suffix)
    return {(old + suffix if old == name else old): content if old == name else files[old] for old in files}, n_records


def damage_binary(name: str, sample: Sample, other: bytes, rng: Random) -> tuple[bytes, int | None]:
    """Damage a table or a matrix; checksums keep the number of its rows from changing in silence."""
    content = sample.files[name]
    if rng.random() < 0.15:
        cut = cut_end(content, rng, b"")
        return cut, MUST_FAIL if cut != content else sample.n_documents
    n_records: int | None = UNKNOWN if name.endswith(".arrow") else sample.n_documents
    if name.endswith(".npz") and rng.random() < 0.6:
        content, n_records = odd_files.make_matrix(rng), UNKNOWN
    elif name.endswith(".parquet") and rng.random() < 0.4:
        content, n_records = odd_files.make_parquet(rng)
    if rng.random() < 0.6:
        content = mutate(content, rng, other, rng.choice((1, 1, 2, 3)))
    # Texts beside a matrix have lines that can be counted.
    return content, None if sample.format in COUNTED else n_records


def save_case(case: Case, files: Files, reason: str, folder: Path) -> None:
    """Save a case that failed, so that it can be run again."""
    write_files(files, folder)
    (folder / CASE_FILE).write_text(json.dumps({**asdict(case), "reason": reason}, indent=1), "utf-8")


def load_case(folder: Path) -> Case:
    """Load a saved case."""
    fields = json.loads((folder / CASE_FILE).read_text("utf-8"))
    return Case(**{name: fields[name] for name in Case.__dataclass_fields__})
