"""PECOS: labels as a sparse matrix in Y.trn.npz, with the texts in X.trn.txt or the features in X.trn.npz.

X.trn.txt:         first text
X.trn.npz:         (documents, features), as scipy.sparse.save_npz writes a CSR matrix
Y.trn.npz:         (documents, labels), likewise; beside X, or one folder above X.trn.npz
output-items.txt:  the names of the labels, one a line
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

from haxmlnet.data.documents import Document, ReadOptions, SkipReport
from haxmlnet.data.feature_corpus import FeatureCorpus
from haxmlnet.data.formats.fields import show
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.label_name_files import PECOS_NAME_FILE, read_pecos_names, select_new_names
from haxmlnet.data.formats.lines import cannot_hold, check_name_line, check_text_line
from haxmlnet.data.formats.npz_matrices import load_matrix, load_targets, save_matrix
from haxmlnet.data.formats.plain_text import read_plain_text
from haxmlnet.data.formats.source import Source, bare_name, count_mismatch, find_beside, require_beside
from haxmlnet.data.formats.sparse_rows import set_ones
from haxmlnet.data.output_files import open_outputs
from haxmlnet.errors import DataError, SettingError

TEXTS_NAME = re.compile(r"X\.(.+)\.txt")
_FEATURES_NAME = re.compile(r"X\.(.+)\.npz")


def name_target_file(texts_name: str) -> str | None:
    """Name the matrix that belongs to a file of texts: Y.trn.npz for X.trn.txt."""
    match = TEXTS_NAME.fullmatch(bare_name(texts_name))
    return f"Y.{match[1]}.npz" if match else None


def read_pecos(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read X.trn.txt, a document a line, with the matrix of its labels in Y.trn.npz."""
    if not with_labels:
        yield from read_plain_text(source, options, False)
        return
    name = name_target_file(source.name)
    if name is None:
        raise source.error("cannot tell the file of the labels. Name the files X.NAME.txt and Y.NAME.npz.")
    path = require_beside(source, name)
    matrix = load_targets(path)
    names = read_pecos_names(source.path, matrix.shape[1])
    for document in read_plain_text(source, options, False):
        row = source.n_lines - 1
        if row >= matrix.shape[0]:
            break
        if isinstance(document, Document):
            stored = slice(matrix.indptr[row], matrix.indptr[row + 1])
            columns = dict.fromkeys(matrix.indices[stored][matrix.data[stored] != 0].tolist())
            labels = [str(column) if names is None else names[column] for column in columns]
            document = document._replace(labels=tuple(labels))
        yield document
    n_lines = source.count_lines()
    if n_lines != matrix.shape[0]:
        raise count_mismatch(source, f"{n_lines} texts", path, matrix.shape[0])


def write_pecos(documents: Iterable[Document], path: Path) -> int:
    """Write a text a line, the matrix of the labels to Y.NAME.npz and their names to output-items.txt."""
    import numpy as np
    import scipy.sparse as sp

    target_name = name_target_file(path.name)
    if target_name is None:
        raise SettingError(f"{path}: the file of the texts must be named X.NAME.txt, for labels in Y.NAME.npz.")
    names = _read_names_in_use(path, target_name)
    columns = {name: column for column, name in enumerate(names or ())}
    bounds, indices = array("q", [0]), array("q")
    name_path = path.with_name(PECOS_NAME_FILE)
    with open_outputs([path, path.with_name(target_name), *([name_path] if names is None else [])]) as streams:
        for n, document in enumerate(documents, start=1):
            try:
                streams[0].write(f"{check_text_line(document.text)}\n".encode())
                for label in document.labels:
                    if names is not None and label not in columns:
                        raise DataError(
                            f"the label {show(label)} is not in {PECOS_NAME_FILE}, on which another matrix relies: "
                            "write the part with all labels first"
                        )
                    indices.append(columns.setdefault(check_name_line(label), len(columns)))
            except DataError as error:
                raise cannot_hold(path, n, document, error) from error
            bounds.append(len(indices))

        values, stored = np.ones(len(indices), np.float32), np.array(indices, np.int32)
        shape = (len(bounds) - 1, len(columns))
        save_matrix(streams[1], sp.csr_matrix((values, stored, np.array(bounds, np.int64)), shape=shape))
        if names is None:
            streams[2].writelines(f"{name}\n".encode() for name in columns)
    if names is None and not columns:
        name_path.unlink(missing_ok=True)
    return len(bounds) - 1


def _read_names_in_use(path: Path, target_name: str) -> list[str] | None:
    """Read the names that other matrices in the directory rely on; without any, the names may be written anew."""
    others = [file.name for file in sorted(path.parent.glob("Y.*.npz")) if file.name != target_name]
    if not others:
        return None
    names = read_pecos_names(path, load_targets(path.with_name(others[0])).shape[1])
    if names is None:
        raise DataError(
            f"{path}: {others[0]} is there without {PECOS_NAME_FILE}, so its labels have no names. "
            "Write to another directory."
        )
    return names


def read_pecos_npz(source: Source, options: ReadOptions, with_labels: bool, report: SkipReport) -> FeatureCorpus:
    """Read the features in X.trn.npz and the labels in Y.trn.npz, beside it or one folder above."""
    import numpy as np

    match = _FEATURES_NAME.fullmatch(Path(source.name).name)
    if source.path is None or match is None:
        raise source.error("not the file of the features. Give X.NAME.npz, with the labels in Y.NAME.npz.")
    with np.errstate(over="ignore"):
        features = load_matrix(source.path).astype(np.float32)
    if not np.isfinite(features.data).all():
        raise source.error("a value does not fit 32 bits. Scale the features.")
    features.sum_duplicates()
    features.eliminate_zeros()
    ids = [str(row + 1) for row in range(features.shape[0])]
    if not with_labels:
        return FeatureCorpus(ids, features, features[:, :0], None, source.name)

    name = f"Y.{match[1]}.npz"
    above = source.path.resolve().parent.parent
    path = find_beside(source.path, name) or find_beside(above / name, name)
    if path is None:
        raise source.error(f"there is no {name} beside it or above it, where the labels should be. Put it there.")
    targets = load_targets(path)
    if targets.shape[0] != features.shape[0]:
        raise count_mismatch(source, f"{features.shape[0]} rows of features", path, targets.shape[0])
    return FeatureCorpus(ids, features, set_ones(targets), read_pecos_names(path, targets.shape[1]), source.name)


def write_pecos_npz(corpus: FeatureCorpus, path: Path) -> None:
    """Write the features, the labels to Y.NAME.npz and their names to output-items.txt."""
    match = _FEATURES_NAME.fullmatch(path.name)
    if match is None:
        raise SettingError(f"{path}: the file of the features must be named X.NAME.npz, for labels in Y.NAME.npz.")
    names_there = read_pecos_names(path, corpus.targets.shape[1])
    name_path = path.with_name(PECOS_NAME_FILE)
    names = select_new_names(corpus, names_there, name_path)
    paths = [path, path.with_name(f"Y.{match[1]}.npz")]
    with open_outputs(paths if names is None else [*paths, name_path]) as streams:
        save_matrix(streams[0], corpus.features)
        save_matrix(streams[1], corpus.targets)
        for stream in streams[2:]:
            stream.writelines(f"{name}\n".encode() for name in names or ())


PECOS = Format(
    read_pecos,
    write_pecos,
    has_ids=False,
    files=("X.{short}.txt",),
    find_companions=lambda path: [
        find_beside(path, name_target_file(path.name)),
        find_beside(path, PECOS_NAME_FILE),
    ],
)
PECOS_NPZ = Format(
    read_features=read_pecos_npz,
    write_features=write_pecos_npz,
    has_ids=False,
    output_suffixes=(".npz",),
    files=("X.{short}.npz", "tfidf-attnxml/X.{short}.npz"),
)
