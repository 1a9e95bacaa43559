"""The formats documents are read from. A new one is a reader function and a line in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from haxmlnet.data.readers.annif import read_annif_csv, read_annif_jsonl
from haxmlnet.data.readers.documents import Document, ReadOptions
from haxmlnet.data.readers.json_lines import read_json_lines
from haxmlnet.data.readers.lines import read_annif_tsv, read_fasttext, read_libmultilabel
from haxmlnet.data.readers.parallel import read_parallel, read_pecos
from haxmlnet.data.readers.parquet import read_parquet
from haxmlnet.data.readers.plain_text import read_plain_text
from haxmlnet.data.readers.repository import read_repository
from haxmlnet.data.readers.source import Source
from haxmlnet.data.readers.tables import read_csv, read_tsv
from haxmlnet.errors import DataError, SettingError

Reader = Callable[[Source, ReadOptions, bool], Iterator[Document | DataError]]
"""Yields a document, or the error of one that may be skipped; what concerns the whole file it raises."""


class Format(NamedTuple):
    """How a format is read, the endings of names that tell it, and its files in a directory."""

    read: Reader
    suffixes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


FORMATS: dict[str, Format] = {
    "jsonl": Format(read_json_lines, (".jsonl", ".ndjson", ".json"), ("{split}.jsonl", "{split}.json")),
    "csv": Format(read_csv, (".csv",), ("{split}.csv",)),
    "tsv": Format(read_tsv, (".tsv", ".tab"), ("{split}.tsv",)),
    "text": Format(read_plain_text),
    "parquet": Format(read_parquet, (".parquet", ".pq"), ("{split}.parquet",)),
    "parallel": Format(read_parallel, ("_texts.txt",), ("{split}_raw_texts.txt", "{split}_texts.txt")),
    "xc": Format(read_repository, (), ("{short}.json",)),
    "pecos": Format(read_pecos, (), ("X.{short}.txt",)),
    "libmultilabel": Format(read_libmultilabel),
    "fasttext": Format(read_fasttext, (".fasttext",)),
    "annif-tsv": Format(read_annif_tsv),
    "annif-csv": Format(read_annif_csv),
    "annif-jsonl": Format(read_annif_jsonl),
}


def checked_format(name: str) -> str:
    """Refuse a name that is no format."""
    if name not in FORMATS:
        raise SettingError(f"format must be one of {', '.join(FORMATS)}, got {name!r}.")
    return name
