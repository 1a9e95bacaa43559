"""The formats documents are read from. A new one is a reader function and a line in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from haxmlnet.data.features import FeatureCorpus
from haxmlnet.data.readers.annif import read_annif_csv, read_annif_jsonl
from haxmlnet.data.readers.documents import Document, ReadOptions, SkipReport
from haxmlnet.data.readers.huggingface import STATE_FILE, read_huggingface
from haxmlnet.data.readers.json_lines import read_json_lines
from haxmlnet.data.readers.lines import read_annif_tsv, read_fasttext, read_libmultilabel
from haxmlnet.data.readers.parallel import read_parallel, read_pecos
from haxmlnet.data.readers.parquet import read_parquet
from haxmlnet.data.readers.plain_text import read_plain_text
from haxmlnet.data.readers.repository import read_repository
from haxmlnet.data.readers.source import Source
from haxmlnet.data.readers.sparse import (
    read_pecos_matrices,
    read_svmlight,
    read_xc_matrices,
    read_xc_sparse,
    refuse_texts,
)
from haxmlnet.data.readers.tables import read_csv, read_tsv
from haxmlnet.errors import DataError, SettingError

Reader = Callable[[Source, ReadOptions, bool], Iterator[Document | DataError]]
"""Yields a document, or the error of one that may be skipped; what concerns the whole file it raises."""


FeatureReader = Callable[[Source, ReadOptions, bool, SkipReport], FeatureCorpus]
"""Reads a whole sparse file; rows that cannot be used are left out and reported, if the options allow it."""


class Format(NamedTuple):
    """How a format is read, the endings of names that tell it, and its files in a directory."""

    read: Reader
    suffixes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    likely_files: tuple[str, ...] = ()
    """Names that other formats have, too: the content decides."""
    read_features: FeatureReader | None = None
    """For sparse formats, which have features instead of texts."""

    @property
    def is_sparse(self) -> bool:
        """Say whether the files hold features instead of texts."""
        return self.read_features is not None


def _sparse(
    read: FeatureReader, suffixes: tuple[str, ...], files: tuple[str, ...], likely_files: tuple[str, ...] = ()
) -> Format:
    return Format(refuse_texts, suffixes, files, likely_files, read)


_TEXT_FILES = ("{split}.txt",)
_SPARSE_FILES = ("{split}.txt", "{split}_v1.txt", "*_{split}.txt")
FORMATS: dict[str, Format] = {
    "jsonl": Format(read_json_lines, (".jsonl", ".ndjson", ".json"), ("{split}.jsonl", "{split}.json")),
    "csv": Format(read_csv, (".csv",), ("{split}.csv",)),
    "tsv": Format(read_tsv, (".tsv", ".tab"), ("{split}.tsv",)),
    "text": Format(read_plain_text),
    "parquet": Format(read_parquet, (".parquet", ".pq"), ("{split}.parquet",)),
    "huggingface": Format(read_huggingface, (), (STATE_FILE, "{split}/" + STATE_FILE)),
    "parallel": Format(read_parallel, ("_texts.txt",), ("{split}_raw_texts.txt", "{split}_texts.txt")),
    "xc": Format(read_repository, (), ("{short}.json",)),
    "pecos": Format(read_pecos, (), ("X.{short}.txt",)),
    "libmultilabel": Format(read_libmultilabel, likely_files=_TEXT_FILES),
    "fasttext": Format(read_fasttext, (".fasttext",), ("{split}.fasttext",), _TEXT_FILES),
    "annif-tsv": Format(read_annif_tsv),
    "annif-csv": Format(read_annif_csv),
    "annif-jsonl": Format(read_annif_jsonl),
    "xc-sparse": _sparse(read_xc_sparse, (), (), _SPARSE_FILES),
    "xc-matrices": _sparse(read_xc_matrices, ("_x_xf.txt", "_x_y.txt"), ("{short}_X_Xf.txt",)),
    "pecos-npz": _sparse(read_pecos_matrices, (), ("X.{short}.npz", "tfidf-attnxml/X.{short}.npz")),
    "svmlight": _sparse(read_svmlight, (".svm", ".svmlight", ".libsvm"), (), _SPARSE_FILES),
}


def checked_format(name: str) -> str:
    """Refuse a name that is no format."""
    if name not in FORMATS:
        raise SettingError(f"format must be one of {', '.join(FORMATS)}, got {name!r}.")
    return name
