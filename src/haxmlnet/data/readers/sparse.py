"""Sparse files, which hold features and labels as numbers, and no texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from haxmlnet.data.features import FeatureCorpus
from haxmlnet.data.readers.documents import Document, ReadOptions, SkipReport
from haxmlnet.data.readers.label_names import names_beside, pecos_names_beside
from haxmlnet.data.readers.matrices import load_matrix, load_targets
from haxmlnet.data.readers.source import Source, bare_name, find_beside, open_source
from haxmlnet.data.readers.sparse_rows import LARGEST_SIZE, Rows, expect_rows, read_header, read_rows
from haxmlnet.errors import DataError

if TYPE_CHECKING:
    import scipy.sparse as sp

MATRIX_NAME = re.compile(r"(.*)X_(Xf|Y)\.txt")
PECOS_MATRIX_NAME = re.compile(r"([XY])\.(.+)\.npz")


def refuse_texts(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Say that there are no texts in a sparse file."""
    raise source.error(
        "the file has features, not texts, which neural methods need. "
        "Use a linear method, such as --method LinearTree, or give the texts."
    )


def read_xc_sparse(source: Source, options: ReadOptions, with_labels: bool, report: SkipReport) -> FeatureCorpus:
    """Read the repository's older form: a header `documents features labels`, then `label,label feature:value`."""
    from haxmlnet.data.readers.sparse_lines import Layout

    n_rows, n_features, n_labels = read_header(source, "documents", "features", "labels")
    layout = Layout(n_features, n_labels if with_labels else LARGEST_SIZE)
    rows = expect_rows(source, read_rows(source, layout, options, report), n_rows)
    return _corpus(source, rows, names_beside(source.path, n_labels) if with_labels else None, with_labels)


def read_svmlight(source: Source, options: ReadOptions, with_labels: bool, report: SkipReport) -> FeatureCorpus:
    """Read the same without a header: blank lines and what follows a # do not count."""
    from haxmlnet.data.readers.sparse_lines import Layout

    layout = Layout(LARGEST_SIZE, LARGEST_SIZE, first_index=options.first_index, blank_rows=False, comments=True)
    rows = read_rows(source, layout, options, report)
    return replace(_corpus(source, rows, None, with_labels), has_sizes=False)


def read_xc_matrices(source: Source, options: ReadOptions, with_labels: bool, report: SkipReport) -> FeatureCorpus:
    """Read the repository's newer form: features in trn_X_Xf.txt, labels in trn_X_Y.txt."""
    match = MATRIX_NAME.fullmatch(bare_name(source.name))
    if match is None or match[2] != "Xf":
        raise source.error("not the file of the features. Give NAME_X_Xf.txt, with the labels in NAME_X_Y.txt.")
    rows = _read_matrix(source, options, report, "feature")
    if not with_labels:
        return _corpus(source, rows, None, False)
    path = find_beside(source.path, f"{match[1]}X_Y.txt")
    if path is None:
        raise source.error(f"there is no {match[1]}X_Y.txt beside it, where the labels should be. Put it there.")
    with open_source(path) as labels:
        label_rows = _read_matrix(labels, options, report, "label")
    if len(label_rows.is_usable) != len(rows.is_usable):
        raise source.error(
            f"{len(rows.is_usable)} rows of features, but {len(label_rows.is_usable)} rows of labels in {path.name}. "
            "Give both a row for each document."
        )
    _refuse_negative(labels, label_rows)
    both = rows.is_usable & label_rows.is_usable
    targets = _ones(label_rows.only(both).features)
    names = names_beside(source.path, targets.shape[1])
    return _corpus(source, rows.only(both)._replace(targets=targets), names, True)


def read_pecos_matrices(source: Source, options: ReadOptions, with_labels: bool, report: SkipReport) -> FeatureCorpus:
    """Read the features in X.trn.npz and the labels in Y.trn.npz, beside it or one folder above."""
    import numpy as np

    match = PECOS_MATRIX_NAME.fullmatch(Path(source.name).name)
    if source.path is None or match is None or match[1] != "X":
        raise source.error("not the file of the features. Give X.NAME.npz, with the labels in Y.NAME.npz.")
    with np.errstate(over="ignore"):
        features = load_matrix(source.path).astype(np.float32)
    if not np.isfinite(features.data).all():
        raise source.error("a value does not fit 32 bits. Scale the features.")
    rows = Rows(_canonical(features), features[:, :0], np.ones(features.shape[0], np.bool_))
    if not with_labels:
        return _corpus(source, rows, None, False)
    name = f"Y.{match[2]}.npz"
    above = source.path.resolve().parent.parent
    path = find_beside(source.path, name) or find_beside(above / name, name)
    if path is None:
        raise source.error(f"there is no {name} beside it or above it, where the labels should be. Put it there.")
    targets = load_targets(path)
    if targets.shape[0] != features.shape[0]:
        raise source.error(
            f"{features.shape[0]} rows of features, but {targets.shape[0]} rows of labels in {path.name}. "
            "Give both a row for each document."
        )
    return _corpus(source, rows._replace(targets=_ones(targets)), pecos_names_beside(path, targets.shape[1]), True)


def _read_matrix(source: Source, options: ReadOptions, report: SkipReport, what: str) -> Rows:
    from haxmlnet.data.readers.sparse_lines import Layout

    n_rows, n_columns = read_header(source, "documents", f"{what}s")
    return expect_rows(source, read_rows(source, Layout(n_columns), options, report, what), n_rows)


def _refuse_negative(source: Source, rows: Rows) -> None:
    import numpy as np

    matrix = rows.features
    negative = np.flatnonzero(matrix.data < 0)
    if len(negative):
        row = int(np.searchsorted(matrix.indptr, negative[0], side="right")) - 1
        line = int(np.flatnonzero(rows.is_usable)[row]) + 2  # the header is line 1
        got = f"{matrix.indices[negative[0]]}:{matrix.data[negative[0]]:g}"
        raise source.error(f"the value of a label must be positive, got {got!r}. Leave it out.", line)


def _ones(matrix: sp.csr_array) -> sp.csr_array:
    """Give 1 for every value there is."""
    import numpy as np

    canonical = _canonical(matrix)
    canonical.data = np.ones(canonical.nnz, np.float32)
    return canonical


def _canonical(matrix: sp.csr_array) -> sp.csr_array:
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _corpus(source: Source, rows: Rows, names: list[str] | None, with_labels: bool) -> FeatureCorpus:
    ids = [str(row + 1) for row in rows.is_usable.nonzero()[0].tolist()]
    targets = rows.targets if with_labels else rows.targets[:, :0]
    n_skipped = len(rows.is_usable) - len(ids)
    return FeatureCorpus(ids, rows.features, targets, names, source.name, n_skipped)
