"""Sparse features to files. A new format is a writer function and a line in `FEATURE_OUTPUT_FORMATS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from haxmlnet.data.document_lines import name_line
from haxmlnet.data.features import FeatureCorpus
from haxmlnet.data.packed_files import open_all
from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.label_names import NAME_FILE, PECOS_NAME_FILE, names_beside, pecos_names_beside
from haxmlnet.data.readers.source import bare_name
from haxmlnet.data.readers.sparse import MATRIX_NAME, PECOS_MATRIX_NAME
from haxmlnet.errors import DataError, SettingError

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    from numpy.typing import NDArray

ROWS_AT_ONCE = 10_000


class FeatureOutputFormat(NamedTuple):
    """How features are written, and the endings of names that tell the format."""

    write: Callable[[FeatureCorpus, Path], None]
    suffixes: tuple[str, ...]


def write_features(corpus: FeatureCorpus, path: str | Path, format: str | None = None, drop_ids: bool = False) -> int:
    """Write features so that reading them gives the same matrices and names; give the number of documents.

    The format is told by the name of the file if it is not given; text files may be .gz or .zst. The names of labels
    go to a file beside it. No sparse format has ids: `drop_ids` allows them to be numbered anew.
    """
    form = FEATURE_OUTPUT_FORMATS[feature_output_format(path, format)]
    if not drop_ids:
        _refuse_ids(corpus, path)
    form.write(corpus, Path(path))
    return len(corpus)


def feature_output_format(path: str | Path, format: str | None = None) -> str:
    """Check the name of a format, or tell it by the name of the file."""
    if format is not None:
        if format not in FEATURE_OUTPUT_FORMATS:
            raise SettingError(
                f"format must be one of {', '.join(FEATURE_OUTPUT_FORMATS)} for features without texts, got {format!r}."
            )
        return format
    for format_name, form in FEATURE_OUTPUT_FORMATS.items():
        if bare_name(str(path)).lower().endswith(form.suffixes):
            return format_name
    raise SettingError(
        f"{path}: the name does not tell the format. Use --to with one of {', '.join(FEATURE_OUTPUT_FORMATS)}."
    )


def _write_xc_sparse(corpus: FeatureCorpus, path: Path) -> None:
    names = _new_names(corpus, path)
    paths = [path] if names is None else [path, path.with_name(NAME_FILE)]
    with open_all(paths) as streams:
        streams[0].write(f"{len(corpus)} {corpus.features.shape[1]} {corpus.targets.shape[1]}\n".encode())
        features, labels = _pair_lines(corpus.features), _row_words(corpus.targets, _index_words)
        streams[0].writelines(
            f"{','.join(row)} {pairs}\n".encode() for row, pairs in zip(labels, features, strict=True)
        )
        _write_names(streams[1:], names)


def _write_xc_matrices(corpus: FeatureCorpus, path: Path) -> None:
    match = MATRIX_NAME.fullmatch(bare_name(path.name))
    if match is None or match[2] != "Xf":
        raise SettingError(f"{path}: the file of the features must be named NAME_X_Xf.txt, for labels in NAME_X_Y.txt.")
    names = _new_names(corpus, path)
    packing = path.name.removeprefix(bare_name(path.name))
    paths = [path, path.with_name(f"{match[1]}X_Y.txt{packing}")]
    with open_all(paths if names is None else [*paths, path.with_name(NAME_FILE)]) as streams:
        for stream, matrix in zip(streams, (corpus.features, corpus.targets), strict=False):
            stream.write(f"{matrix.shape[0]} {matrix.shape[1]}\n".encode())
            stream.writelines(f"{pairs}\n".encode() for pairs in _pair_lines(matrix))
        _write_names(streams[2:], names)


def _write_pecos_npz(corpus: FeatureCorpus, path: Path) -> None:
    import scipy.sparse as sp

    match = PECOS_MATRIX_NAME.fullmatch(path.name)
    if match is None or match[1] != "X":
        raise SettingError(f"{path}: the file of the features must be named X.NAME.npz, for labels in Y.NAME.npz.")
    there = pecos_names_beside(path, corpus.targets.shape[1])
    names = _checked_names(corpus, there, path.with_name(PECOS_NAME_FILE))
    paths = [path, path.with_name(f"Y.{match[2]}.npz")]
    with open_all(paths if names is None else [*paths, path.with_name(PECOS_NAME_FILE)]) as streams:
        for stream, matrix in zip(streams, (corpus.features, corpus.targets), strict=False):
            # PECOS reads matrices, not arrays.
            sp.save_npz(stream, sp.csr_matrix(matrix))
        _write_names(streams[2:], names)


FEATURE_OUTPUT_FORMATS: dict[str, FeatureOutputFormat] = {
    "xc-matrices": FeatureOutputFormat(_write_xc_matrices, ("_x_xf.txt",)),
    "xc-sparse": FeatureOutputFormat(_write_xc_sparse, (".txt",)),
    "pecos-npz": FeatureOutputFormat(_write_pecos_npz, (".npz",)),
}


def _refuse_ids(corpus: FeatureCorpus, path: object) -> None:
    for n, document_id in enumerate(corpus.ids, start=1):
        if document_id != str(n):
            raise DataError(
                f"{path}: cannot hold document {n} with the id {show(document_id)}: the format has no ids. "
                "Use --drop-ids to number the documents."
            )


def _new_names(corpus: FeatureCorpus, path: Path) -> list[str] | None:
    names = _checked_names(corpus, names_beside(path, corpus.targets.shape[1]), path.with_name(NAME_FILE))
    for name in names or ():
        if name != name.strip():
            raise DataError(f"{path}: cannot hold the label {show(name)}, which begins or ends with a space. Mend it.")
    return names


def _checked_names(corpus: FeatureCorpus, there: list[str] | None, path: Path) -> list[str] | None:
    """Give the names that have yet to be written, if the ones beside the file are not others."""
    names = corpus.label_names
    if there is None:
        _check_lines(names or (), path)
        return names
    same = there == names if names is not None else all(name == str(i) for i, name in enumerate(there))
    if not same:
        raise DataError(f"{path}: the labels of other documents have other names there. Write to another directory.")
    return None


def _check_lines(names: Sequence[str], path: Path) -> None:
    for name in names:
        try:
            name_line(name)
        except DataError as error:
            raise DataError(f"{path}: cannot hold the label {show(name)}: {error}. Mend it.") from error


def _write_names(streams: list[BinaryIO], names: list[str] | None) -> None:
    for stream in streams:
        stream.writelines(f"{name}\n".encode() for name in names or ())


def _pair_lines(matrix: sp.csr_array) -> Iterator[str]:
    def words(indices: NDArray[np.int32], values: NDArray[np.float32]) -> list[str]:
        return [f"{index}:{value}" for index, value in zip(indices.tolist(), _value_words(values), strict=True)]

    return (" ".join(row) for row in _row_words(matrix, words))


def _index_words(indices: NDArray[np.int32], values: NDArray[np.float32]) -> list[str]:
    return [str(index) for index in indices.tolist()]


def _row_words(
    matrix: sp.csr_array, words_of: Callable[[NDArray[np.int32], NDArray[np.float32]], list[str]]
) -> Iterator[list[str]]:
    """Give the words of each row, made for many rows at a time."""
    for first in range(0, matrix.shape[0], ROWS_AT_ONCE):
        starts = matrix.indptr[first : first + ROWS_AT_ONCE + 1]
        words = words_of(matrix.indices[starts[0] : starts[-1]], matrix.data[starts[0] : starts[-1]])
        ends = (starts - starts[0]).tolist()
        for i in range(len(ends) - 1):
            yield words[ends[i] : ends[i + 1]]


def _value_words(values: NDArray[np.float32]) -> Iterable[str]:
    """Write six digits where they are enough to read the same number again, else nine, which always are."""
    import numpy as np

    numbers = values.astype(np.float64).tolist()
    short = [f"{number:.6g}" for number in numbers]
    # Nearer than any other number: a reader need not round to the last bit.
    gaps = np.abs(values - np.nextafter(values, np.float32(0))).astype(np.float64)
    is_enough = np.abs(np.array(short, np.float64) - numbers) < 0.4 * gaps
    return [word if enough else f"{number:.9g}" for word, number, enough in zip(short, numbers, is_enough, strict=True)]
