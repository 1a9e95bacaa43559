"""Sparse features and labels of the Extreme Classification Repository, and svmlight; none of them has texts.

xc-sparse, the older form: the numbers of documents, features and labels, then `label,label feature:value`
    2 4 3
    0,2 0:0.5 3:0.1
    1 2:1
xc-matrices, the newer form: a matrix of features in trn_X_Xf.txt, one of labels in trn_X_Y.txt
    2 4                 2 3
    0:0.5 3:0.1         0:1.0 2:1.0
    2:1                 1:1.0
svmlight: the older form without the header, with comments after a #
    0,2 0:0.5 3:0.1 # a comment
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from haxmlnet.data.documents import ReadOptions, SkipReport
from haxmlnet.data.feature_corpus import FeatureCorpus
from haxmlnet.data.formats.fields import show
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.label_name_files import NAME_FILE, read_names_beside, select_new_names
from haxmlnet.data.formats.source import Source, bare_name, count_mismatch, open_source, require_beside
from haxmlnet.data.formats.sparse_rows import (
    MAX_SIZE,
    Rows,
    check_n_rows,
    read_header,
    read_rows,
    set_ones,
    write_indices,
    write_pairs,
)
from haxmlnet.data.output_files import open_outputs
from haxmlnet.errors import DataError, SettingError

_FEATURES_NAME = re.compile(r"(.*)X_Xf\.txt")
_FILES = ("{split}.txt", "{split}_v1.txt", "*_{split}.txt")


def read_xc_sparse(source: Source, options: ReadOptions, with_labels: bool, report: SkipReport) -> FeatureCorpus:
    """Read the older form: a header `documents features labels`, then `label,label feature:value`."""
    from haxmlnet.data.formats.sparse_line_kernels import Layout

    n_rows, n_features, n_labels = read_header(source, "documents", "features", "labels")
    layout = Layout(n_features, n_labels if with_labels else MAX_SIZE)
    rows = check_n_rows(source, read_rows(source, layout, options, report), n_rows)
    return rows.to_corpus(source, read_names_beside(source.path, n_labels) if with_labels else None, with_labels)


def write_xc_sparse(corpus: FeatureCorpus, path: Path) -> None:
    """Write the older form, and the names of the labels to Y.txt."""
    names = _select_new_names(corpus, path)
    name_paths = [] if names is None else [path.with_name(NAME_FILE)]
    with open_outputs([path, *name_paths]) as (stream, *name_streams):
        stream.write(f"{len(corpus)} {corpus.features.shape[1]} {corpus.targets.shape[1]}\n".encode())
        rows = zip(write_indices(corpus.targets), write_pairs(corpus.features), strict=True)
        stream.writelines(f"{labels} {pairs}\n".encode() for labels, pairs in rows)
        for name_stream in name_streams:
            name_stream.writelines(f"{name}\n".encode() for name in names or ())


def read_svmlight(source: Source, options: ReadOptions, with_labels: bool, report: SkipReport) -> FeatureCorpus:
    """Read the older form without its header: blank lines and what follows a # do not count."""
    from haxmlnet.data.formats.sparse_line_kernels import Layout

    layout = Layout(MAX_SIZE, MAX_SIZE, first_index=options.first_index, blank_rows=False, comments=True)
    rows = read_rows(source, layout, options, report)
    return replace(rows.to_corpus(source, None, with_labels), has_sizes=False)


def read_xc_matrices(source: Source, options: ReadOptions, with_labels: bool, report: SkipReport) -> FeatureCorpus:
    """Read the newer form: features in trn_X_Xf.txt, labels in trn_X_Y.txt."""
    match = _FEATURES_NAME.fullmatch(bare_name(source.name))
    if match is None:
        raise source.error("not the file of the features. Give NAME_X_Xf.txt, with the labels in NAME_X_Y.txt.")
    rows = _read_matrix(source, options, report, "feature")
    if not with_labels:
        return rows.to_corpus(source, None, False)

    path = require_beside(source, f"{match[1]}X_Y.txt")
    with open_source(path) as label_source:
        label_rows = _read_matrix(label_source, options, report, "label")
    n_rows, n_label_rows = len(rows.is_usable), len(label_rows.is_usable)
    if n_label_rows != n_rows:
        raise count_mismatch(source, f"{n_rows} rows of features", path, n_label_rows)
    _refuse_negative(label_source, label_rows)

    both = rows.is_usable & label_rows.is_usable
    targets = set_ones(label_rows.select(both).features)
    names = read_names_beside(source.path, targets.shape[1])
    return rows.select(both)._replace(targets=targets).to_corpus(source, names, True)


def _read_matrix(source: Source, options: ReadOptions, report: SkipReport, what: str) -> Rows:
    from haxmlnet.data.formats.sparse_line_kernels import Layout

    n_rows, n_columns = read_header(source, "documents", f"{what}s")
    return check_n_rows(source, read_rows(source, Layout(n_columns), options, report, what), n_rows)


def _refuse_negative(source: Source, rows: Rows) -> None:
    import numpy as np

    matrix = rows.features
    negative = np.flatnonzero(matrix.data < 0)
    if len(negative):
        row = int(np.searchsorted(matrix.indptr, negative[0], side="right")) - 1
        line = int(np.flatnonzero(rows.is_usable)[row]) + 2  # the header is line 1
        got = f"{matrix.indices[negative[0]]}:{matrix.data[negative[0]]:g}"
        raise source.error(f"the value of a label must be positive, got {got!r}. Leave it out.", line)


def write_xc_matrices(corpus: FeatureCorpus, path: Path) -> None:
    """Write the newer form, and the names of the labels to Y.txt."""
    match = _FEATURES_NAME.fullmatch(bare_name(path.name))
    if match is None:
        raise SettingError(f"{path}: the file of the features must be named NAME_X_Xf.txt, for labels in NAME_X_Y.txt.")
    names = _select_new_names(corpus, path)
    packing = path.name.removeprefix(bare_name(path.name))
    paths = [path, path.with_name(f"{match[1]}X_Y.txt{packing}")]
    with open_outputs(paths if names is None else [*paths, path.with_name(NAME_FILE)]) as streams:
        for stream, matrix in zip(streams, (corpus.features, corpus.targets), strict=False):
            stream.write(f"{matrix.shape[0]} {matrix.shape[1]}\n".encode())
            stream.writelines(f"{pairs}\n".encode() for pairs in write_pairs(matrix))
        for stream in streams[2:]:
            stream.writelines(f"{name}\n".encode() for name in names or ())


def _select_new_names(corpus: FeatureCorpus, path: Path) -> list[str] | None:
    names_there = read_names_beside(path, corpus.targets.shape[1])
    names = select_new_names(corpus, names_there, path.with_name(NAME_FILE))
    for name in names or ():
        if name != name.strip():
            raise DataError(f"{path}: cannot hold the label {show(name)}, which begins or ends with a space. Fix it.")
    return names


XC_SPARSE = Format(
    read_features=read_xc_sparse,
    write_features=write_xc_sparse,
    has_ids=False,
    output_suffixes=(".txt",),
    likely_files=_FILES,
)
XC_MATRICES = Format(
    read_features=read_xc_matrices,
    write_features=write_xc_matrices,
    has_ids=False,
    suffixes=("_x_xf.txt", "_x_y.txt"),
    files=("{short}_X_Xf.txt",),
)
SVMLIGHT = Format(
    read_features=read_svmlight, has_ids=False, suffixes=(".svm", ".svmlight", ".libsvm"), likely_files=_FILES
)
