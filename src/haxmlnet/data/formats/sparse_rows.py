"""Lines of `label,label index:value` as sparse matrices and back, without the rows that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from haxmlnet.data.documents import ReadOptions, SkipReport
from haxmlnet.data.feature_corpus import FeatureCorpus
from haxmlnet.data.formats.fields import show
from haxmlnet.data.formats.source import Source

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    from numpy.typing import NDArray

    from haxmlnet.data.formats.sparse_line_kernels import Layout, ParsedLines

MAX_SIZE = 2**31 - 1
_ROWS_AT_ONCE = 10_000


class Rows(NamedTuple):
    """The usable rows of a file as matrices, and which of all its rows they are."""

    features: sp.csr_array
    targets: sp.csr_array
    is_usable: NDArray[np.bool_]

    def select(self, is_chosen: NDArray[np.bool_]) -> Rows:
        """Keep some of all rows."""
        chosen = is_chosen[self.is_usable]
        return Rows(self.features[chosen], self.targets[chosen], self.is_usable & is_chosen)

    def to_corpus(self, source: Source, names: list[str] | None, with_labels: bool) -> FeatureCorpus:
        """Make documents of the rows, whose ids are their numbers, from 1."""
        ids = [str(row + 1) for row in self.is_usable.nonzero()[0].tolist()]
        targets = self.targets if with_labels else self.targets[:, :0]
        n_skipped = len(self.is_usable) - len(ids)
        return FeatureCorpus(ids, self.features, targets, names, source.name, n_skipped)


def read_header(source: Source, *names: str) -> list[int]:
    """Read the first line, which says how many there are of each."""
    wanted = f"the first line must say how many {', '.join(names)} there are"
    line = next(source.lines(), (1, b""))[1]
    words = line.split()
    if len(words) != len(names) or not all(word.isdigit() for word in words):
        raise source.error(f"{wanted}, got {_show_bytes(line)}. Write {len(names)} integers.", 1)
    # int() takes quadratic time: numbers of that many digits are wrong anyway.
    numbers = [int(word[:11]) for word in words]
    if max(numbers[1:]) > MAX_SIZE:
        raise source.error(f"{wanted}, at most {MAX_SIZE}, got {_show_bytes(line)}. Fix it.", 1)
    return numbers


def read_rows(source: Source, layout: Layout, options: ReadOptions, report: SkipReport, what: str = "feature") -> Rows:
    """Read all lines that are left; messages call the numbers before the colons `what`."""
    import numpy as np

    from haxmlnet.data.formats.sparse_line_kernels import NO_ROW, parse_lines

    parts = []
    for first, block in source.blocks():
        parsed = parse_lines(block, layout)
        for i in np.flatnonzero(parsed.kinds > NO_ROW).tolist():
            word = block[parsed.places[i] : parsed.places[i] + 100].partition(b"\n")[0].split(maxsplit=1)
            fault = _explain_fault(int(parsed.kinds[i]), word[0] if word else b"", layout, what)
            error = source.error(fault, first + i)
            if options.on_error == "stop":
                raise error
            report.add(error)
        parts.append(parsed)
    return _join_parts(parts, layout)


def check_n_rows(source: Source, rows: Rows, n_rows: int) -> Rows:
    """Check the number of rows against the header; blank lines after the last row do not count."""
    import numpy as np

    n_found = len(rows.is_usable)
    if n_found > n_rows:
        places = np.flatnonzero(rows.is_usable)
        is_filled = (np.diff(rows.features.indptr) > 0) | (np.diff(rows.targets.indptr) > 0)
        is_blank = rows.is_usable.copy()
        is_blank[places[is_filled]] = False
        if is_blank[n_rows:].all():
            n_usable = int((places < n_rows).sum())
            return Rows(rows.features[:n_usable], rows.targets[:n_usable], rows.is_usable[:n_rows])
    if n_found != n_rows:
        raise source.error(
            f"the first line says {n_rows} documents, but {n_found} lines follow. Fix it, or get the whole file."
        )
    return rows


def _join_parts(parts: list[ParsedLines], layout: Layout) -> Rows:
    import numpy as np
    import scipy.sparse as sp

    from haxmlnet.data.formats.sparse_line_kernels import NO_ROW, ROW

    def make_matrix(starts: list[Any], columns: Any, values: Any, n_columns: int) -> sp.csr_array:
        bounds = np.concatenate([[0], *(np.diff(part) for part in starts)], dtype=np.int64).cumsum()
        width = n_columns if n_columns < MAX_SIZE else int(columns.max(initial=-1)) + 1
        return sp.csr_array((values, columns, bounds), shape=(len(bounds) - 1, width))

    columns = np.concatenate([np.zeros(0, np.int32), *(part.indices for part in parts)])
    values = np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)])
    features = make_matrix([part.starts for part in parts], columns, values, layout.n_features)
    features.eliminate_zeros()
    labels = np.concatenate([np.zeros(0, np.int32), *(part.labels for part in parts)])
    ones = np.ones(len(labels), np.float32)
    targets = set_ones(make_matrix([part.label_starts for part in parts], labels, ones, layout.n_labels))
    kinds = np.concatenate([np.zeros(0, np.uint8), *(part.kinds for part in parts)])
    return Rows(features, targets, kinds[kinds != NO_ROW] == ROW)


def _explain_fault(kind: int, word: bytes, layout: Layout, what: str) -> str:
    from haxmlnet.data.formats import sparse_line_kernels as kernels

    got = _show_bytes(word)
    if kind == kernels.BAD_LABEL:
        return f"labels must be integers with commas between them, got {got}. Write 1,2 before the features."
    if kind == kernels.BAD_PAIR:
        return f"expected {what}:value with an integer before the colon, got {got}. Write such as 17:0.5."
    if kind == kernels.BAD_VALUE:
        return f"the value of a {what} must be a finite number, got {got}. Fix it or leave it out."
    if kind == kernels.FEATURE_TWICE:
        return f"a {what} is there twice, got {got}. Leave one out."
    if kind == kernels.LABEL_BEYOND:
        return f"labels are numbered from 0 to {layout.n_labels - 1}, got {got}. Fix it or the first line."
    first, last = layout.first_index, layout.n_features + layout.first_index - 1
    return f"{what}s are numbered from {first} to {last}, got {got}. Fix it, the first line, or --first-index."


def _show_bytes(word: bytes) -> str:
    return show(word[:100].decode(errors="backslashreplace").rstrip("\r\n"))


def set_ones(matrix: sp.csr_array) -> sp.csr_array:
    """Sort the columns and put 1 for every value that is not 0."""
    import numpy as np

    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.data = np.ones(matrix.nnz, np.float32)
    return matrix


def write_pairs(matrix: sp.csr_array) -> Iterator[str]:
    """Write each row as `index:value index:value`."""

    def make_words(indices: NDArray[np.int32], values: NDArray[np.float32]) -> list[str]:
        return [f"{index}:{value}" for index, value in zip(indices.tolist(), _write_values(values), strict=True)]

    return (" ".join(row) for row in _write_rows(matrix, make_words))


def write_indices(matrix: sp.csr_array) -> Iterator[str]:
    """Write each row as `index,index`."""
    return (",".join(row) for row in _write_rows(matrix, lambda indices, values: map(str, indices.tolist())))


def _write_rows(
    matrix: sp.csr_array, make_words: Callable[[NDArray[np.int32], NDArray[np.float32]], Iterable[str]]
) -> Iterator[list[str]]:
    """Write the words of each row, many rows at a time."""
    for first in range(0, matrix.shape[0], _ROWS_AT_ONCE):
        starts = matrix.indptr[first : first + _ROWS_AT_ONCE + 1]
        words = list(make_words(matrix.indices[starts[0] : starts[-1]], matrix.data[starts[0] : starts[-1]]))
        ends = (starts - starts[0]).tolist()
        for i in range(len(ends) - 1):
            yield words[ends[i] : ends[i + 1]]


def _write_values(values: NDArray[np.float32]) -> Iterable[str]:
    """Write six digits where they are enough to read the same number again, else nine, which always are."""
    import numpy as np

    numbers = values.astype(np.float64).tolist()
    short = [f"{number:.6g}" for number in numbers]
    # Nearer than any other number: a reader need not round to the last bit.
    gaps = np.abs(values - np.nextafter(values, np.float32(0))).astype(np.float64)
    is_enough = np.abs(np.array(short, np.float64) - numbers) < 0.4 * gaps
    return [word if enough else f"{number:.9g}" for word, number, enough in zip(short, numbers, is_enough, strict=True)]
