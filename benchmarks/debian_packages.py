"""A data set of another kind: descriptions of Debian packages, and what the packages need and are about.

    apt-get -o Acquire::Languages=en update
    python -m benchmarks.debian_packages runs/data/debian_packages
    python -m benchmarks run runs/data/debian_packages

A document is the description of a package. Its labels are the packages it depends on or recommends (of alternatives
the first), and its tags ("role::program"). Packages of the same source have nearly the same description, so all of them
are in the same split: test, where the md5 of the source's name is divisible by five, otherwise train. None of our
settings was chosen on this data. It needs a machine with Debian's `apt`; the same point release gives the same files.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from haxmlnet.data import replace_file
from haxmlnet.errors import DataError, HaxmlnetError

RELEASE = "bookworm"
TEST_SHARE = 5
"""One source package in so many is judged."""
NEEDS = ("Pre-Depends", "Depends", "Recommends")
APT = ("apt-get", "-o", "Acquire::Languages=en", "indextargets", "--format", "$(FILENAME)")
READ_INDEX = "/usr/lib/apt/apt-helper"

Fields = dict[str, str]


def fields_of(index: str) -> Iterator[Fields]:
    """Read an index: packages are parted by an empty line, and a field goes on in lines that begin with a blank."""
    for block in re.split(r"\n{2,}", index.strip("\n")):
        fields: Fields = {}
        name = ""
        for line in block.split("\n"):
            if line[:1] in (" ", "\t"):
                fields[name] += "\n" + line
            else:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if block:
            yield fields


def documents_of(packages: str, translations: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the name of the source and the document of each package that has a description and labels."""
    descriptions = {fields["Description-md5"]: fields["Description-en"] for fields in fields_of(translations)}
    for fields in fields_of(packages):
        description = descriptions.get(fields.get("Description-md5", ""), fields.get("Description", ""))
        text = " ".join(description.replace("\n .\n", "\n").split())  # a lone point parts paragraphs
        labels = sorted(_labels(fields))
        if text and labels:
            source = fields.get("Source", fields["Package"]).split()[0]
            yield source, {"id": fields["Package"], "text": text, "labels": labels}


def _labels(fields: Fields) -> set[str]:
    wanted = [part.split("|")[0].split() for need in NEEDS for part in fields.get(need, "").split(",")]
    names = {words[0].split(":")[0] for words in wanted if words}  # without the version, and "any" architecture
    return (names - {fields["Package"]}) | set(fields.get("Tag", "").replace(",", " ").split())


def in_test(source: str) -> bool:
    """Choose the packages to judge on by the name of their source."""
    return int(hashlib.md5(source.encode()).hexdigest(), 16) % TEST_SHARE == 0


def write_data_set(packages: str, translations: str, directory: Path) -> dict[str, int]:
    """Write train.jsonl.gz and test.jsonl.gz; return how many documents each has."""
    directory.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {"train": [], "test": []}
    for source, document in documents_of(packages, translations):
        lines["test" if in_test(source) else "train"].append(json.dumps(document) + "\n")
    for split, of_split in lines.items():
        with replace_file(directory / f"{split}.jsonl.gz") as temporary:
            temporary.write_bytes(gzip.compress("".join(of_split).encode(), mtime=0))
    return {split: len(of_split) for split, of_split in lines.items()}


def read_index(kind: str) -> str:
    """Read all indexes of a kind that apt has of the release."""
    try:
        command = [*APT, f"Created-By: {kind}", f"Codename: {RELEASE}"]
        files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        parts = [
            subprocess.run([READ_INDEX, "cat-file", file], capture_output=True, text=True, check=True).stdout
            for file in files
        ]
    except (OSError, subprocess.CalledProcessError) as reason:
        raise DataError(f"apt: {reason}. The data set is made of the package lists of a Debian machine.") from None
    if not any(parts):
        raise DataError(f"apt: no {kind} of {RELEASE}. Run 'apt-get -o Acquire::Languages=en update'.")
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Make the data set."""
    parser = argparse.ArgumentParser("python -m benchmarks.debian_packages", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "directory", type=Path, metavar="DIR", help="where train.jsonl.gz and test.jsonl.gz are written"
    )
    chosen = parser.parse_args(arguments)
    try:
        counts = write_data_set(read_index("Packages"), read_index("Translations"), chosen.directory)
    except HaxmlnetError as reason:
        print(reason, file=sys.stderr)
        return 2
    print(f"{chosen.directory}: {counts['train']:,} documents to train on, {counts['test']:,} to judge on")
    return 0


if __name__ == "__main__":
    sys.exit(main())
