"""`Format`: how files of a format are read and written, and the names that tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from haxmlnet.data.documents import Document, ReadOptions, SkipReport
from haxmlnet.data.feature_corpus import FeatureCorpus
from haxmlnet.data.formats.source import Source
from haxmlnet.errors import DataError

Reader = Callable[[Source, ReadOptions, bool], Iterator[Document | DataError]]
"""Yields a document, or the error of one that may be skipped; what concerns the whole file it raises."""

FeatureReader = Callable[[Source, ReadOptions, bool, SkipReport], FeatureCorpus]
"""Reads a whole sparse file; rows that cannot be used are left out and reported, if the options allow it."""

Writer = Callable[[Iterable[Document], Path], int]
"""Writes documents and returns their number; what the format cannot hold is refused, never changed."""

FeatureWriter = Callable[[FeatureCorpus, Path], None]


def refuse_texts(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Say that there are no texts in a sparse file."""
    raise source.error(
        "the file has features, not texts, which neural methods need. "
        "Use a linear method, such as --method LinearTree, or give the texts."
    )


class Format(NamedTuple):
    """How a format is read and written, the endings of names that tell it, and its files in a directory."""

    read: Reader = refuse_texts
    write: Writer | None = None
    read_features: FeatureReader | None = None
    """For sparse formats, which have features instead of texts."""
    write_features: FeatureWriter | None = None
    has_ids: bool = True
    """Does a file hold the ids of its documents?"""
    suffixes: tuple[str, ...] = ()
    output_suffixes: tuple[str, ...] = ()
    """More endings that tell the format, of files to be written only."""
    files: tuple[str, ...] = ()
    """With "train" or "test" for {split}, "trn" or "tst" for {short}."""
    likely_files: tuple[str, ...] = ()
    """Names that other formats have, too: the content decides."""

    find_companions: Callable[[Path], Sequence[Path | None]] = lambda path: ()
    """Looks for the files beside a file of documents that belong to it."""

    def list_files(self, path: Path) -> list[Path]:
        """List the files whose content decides what is read."""
        return [path, *(file for file in self.find_companions(path) if file is not None)]

    @property
    def is_sparse(self) -> bool:
        """Return whether the files hold features instead of texts."""
        return self.read_features is not None
