"""Rows of `label,label index:value` lines as sparse matrices, with the rows that cannot be used left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from haxmlnet.data.readers.documents import ReadOptions, SkipReport
from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.source import Source

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    from numpy.typing import NDArray

    from haxmlnet.data.readers.sparse_lines import Layout, ParsedLines

LARGEST_SIZE = 2**31 - 1


class Rows(NamedTuple):
    """The usable rows of a file as matrices, and which of all its rows they are."""

    features: sp.csr_array
    targets: sp.csr_array
    is_usable: NDArray[np.bool_]

    def only(self, is_chosen: NDArray[np.bool_]) -> Rows:
        """Keep some of all rows."""
        chosen = is_chosen[self.is_usable]
        return Rows(self.features[chosen], self.targets[chosen], self.is_usable & is_chosen)


def read_header(source: Source, *names: str) -> list[int]:
    """Read the first line, which says how many there are of each."""
    wanted = f"the first line must say how many {', '.join(names)} there are"
    line = next(source.lines(), (1, b""))[1]
    words = line.split()
    if len(words) != len(names) or not all(word.isdigit() for word in words):
        raise source.error(f"{wanted}, got {_shown(line)}. Write {len(names)} whole numbers.", 1)
    # int() takes quadratic time: numbers of that many digits are wrong anyway.
    numbers = [int(word[:11]) for word in words]
    if max(numbers[1:]) > LARGEST_SIZE:
        raise source.error(f"{wanted}, at most {LARGEST_SIZE}, got {_shown(line)}. Mend it.", 1)
    return numbers


def read_rows(source: Source, layout: Layout, options: ReadOptions, report: SkipReport, what: str = "feature") -> Rows:
    """Read all lines that are left; `what` the numbers before the colons stand for, messages say."""
    import numpy as np

    from haxmlnet.data.readers.sparse_lines import NO_ROW, parse_lines

    parts = []
    for first, block in source.blocks():
        parsed = parse_lines(block, layout)
        for i in np.flatnonzero(parsed.kinds > NO_ROW).tolist():
            word = block[parsed.places[i] : parsed.places[i] + 100].partition(b"\n")[0].split(maxsplit=1)
            fault = _fault(int(parsed.kinds[i]), word[0] if word else b"", layout, what)
            error = source.error(fault, first + i)
            if options.on_error == "stop":
                raise error
            report.add(error)
        parts.append(parsed)
    return _joined(parts, layout)


def expect_rows(source: Source, rows: Rows, n_rows: int) -> Rows:
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
            f"the first line says {n_rows} documents, but {n_found} lines follow. Mend it, or get the whole file."
        )
    return rows


def _joined(parts: list[ParsedLines], layout: Layout) -> Rows:
    import numpy as np
    import scipy.sparse as sp

    from haxmlnet.data.readers.sparse_lines import NO_ROW, ROW

    def matrix(starts: list[Any], indices: list[Any], values: Any, n_columns: int) -> sp.csr_array:
        lengths = [np.diff(part) for part in starts]
        pointers = np.concatenate([[0], *lengths], dtype=np.int64).cumsum()
        columns = np.concatenate(indices)
        width = n_columns if n_columns < LARGEST_SIZE else int(columns.max(initial=-1)) + 1
        return sp.csr_array((values(len(columns)), columns, pointers), shape=(len(pointers) - 1, width))

    empty = [np.zeros(0, np.int32)]
    features = matrix(
        [part.starts for part in parts],
        empty + [part.indices for part in parts],
        lambda n: np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
        layout.n_features,
    )
    features.eliminate_zeros()
    targets = matrix(
        [part.label_starts for part in parts],
        empty + [part.labels for part in parts],
        lambda n: np.ones(n, np.float32),
        layout.n_labels,
    )
    kinds = np.concatenate([np.zeros(0, np.uint8), *(part.kinds for part in parts)])
    return Rows(features, targets, kinds[kinds != NO_ROW] == ROW)


def _fault(kind: int, word: bytes, layout: Layout, what: str) -> str:
    from haxmlnet.data.readers import sparse_lines as lines

    got = _shown(word)
    if kind == lines.BAD_LABEL:
        return f"labels must be whole numbers with commas between them, got {got}. Write 1,2 before the features."
    if kind == lines.BAD_PAIR:
        return f"expected {what}:value with a whole number before the colon, got {got}. Write such as 17:0.5."
    if kind == lines.BAD_VALUE:
        return f"the value of a {what} must be a finite number, got {got}. Mend it or leave it out."
    if kind == lines.FEATURE_TWICE:
        return f"a {what} is there twice, got {got}. Leave one out."
    if kind == lines.LABEL_BEYOND:
        return f"labels are numbered from 0 to {layout.n_labels - 1}, got {got}. Mend it or the first line."
    first, last = layout.first_index, layout.n_features + layout.first_index - 1
    return f"{what}s are numbered from {first} to {last}, got {got}. Mend it, the first line, or --first-index."


def _shown(word: bytes) -> str:
    return show(word[:100].decode(errors="backslashreplace").rstrip("\r\n"))
