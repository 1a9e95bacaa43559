"""Names of labels in files of their own, one a line or as JSON objects, beside the documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.json_lines import Record, decode, parse_object
from haxmlnet.data.readers.source import find_beside, open_source
from haxmlnet.errors import DataError

LABEL_FILE = "lbl.json"
NAME_FILE = "Y.txt"
# For some data sets the repository gives the texts of the labels this name, for others the words in them.
_MAYBE_NAME_FILE = "Yf.txt"
PECOS_NAME_FILE = "output-items.txt"
ID_FIELD = "uid"


def read_label_names(path: Path) -> list[str]:
    """Read the titles of the labels; where several labels share one, their uids tell them apart."""
    titles, uids = read_titles(path)
    return distinct_names(path, titles, uids)


def read_titles(path: Path) -> tuple[list[str], list[object]]:
    """Read the title and the uid of each label; a label without a title has its uid for one."""
    titles, uids = [], []
    with open_source(path) as source:
        for number, line in source.lines():
            try:
                record = parse_object(line)
                uid = record.get(ID_FIELD, number - 1)
                titles.append(_title(record) or str(uid))
            except DataError as error:
                raise source.error(error, number) from error
            uids.append(uid)
    return titles, uids


def distinct_names(path: Path, titles: Sequence[str], uids: Sequence[object]) -> list[str]:
    """Put the uid in brackets behind the titles that several labels of a file share."""
    counts = Counter(titles)
    names = [title if counts[title] == 1 else f"{title} ({uid})" for title, uid in zip(titles, uids, strict=True)]
    for name, n_uses in Counter(names).most_common(1):
        if n_uses > 1:
            raise DataError(f"{path}: {n_uses} labels have the title and uid {show(name)}. Give each a uid of its own.")
    return names


def names_beside(path: Path | None, n_labels: int) -> list[str] | None:
    """Read the names of the labels of the repository's sparse files, if there is a file of names beside them."""
    file = find_beside(path, NAME_FILE)
    if file is not None:
        return _expected(file, _read_name_lines(file), n_labels)
    file = find_beside(path, LABEL_FILE)
    if file is not None:
        return _expected(file, read_label_names(file), n_labels)
    file = find_beside(path, _MAYBE_NAME_FILE)
    names = None if file is None else _read_name_lines(file)
    return names if names is not None and len(names) == n_labels else None


def any_names_beside(path: Path | None) -> list[str] | None:
    """Read the names of the labels beside a sparse file, however many there are."""
    names, labels = find_beside(path, NAME_FILE), find_beside(path, LABEL_FILE)
    if names is not None:
        return _read_name_lines(names)
    return None if labels is None else read_label_names(labels)


def pecos_names_beside(path: Path | None, n_labels: int) -> list[str] | None:
    """Read the names of the labels of a matrix of PECOS, if there is a file of names: one a line, all different."""
    file = find_beside(path, PECOS_NAME_FILE)
    if file is None:
        return None
    names = [name for _, name in _name_lines(file)]
    if len(names) != n_labels or len(set(names)) != n_labels or not all(name.strip() for name in names):
        raise DataError(
            f"{file}: expected {n_labels} different names, one a line, got {len(set(names))}. Mend the file."
        )
    return names


def _read_name_lines(path: Path) -> list[str]:
    names = [name.strip() for _, name in _name_lines(path)]
    titles = [name or str(number) for number, name in enumerate(names)]
    return distinct_names(path, titles, range(len(titles)))


def _name_lines(path: Path) -> Iterator[tuple[int, str]]:
    with open_source(path) as source:
        for number, line in source.lines():
            try:
                yield number, decode(line).rstrip("\r\n")
            except DataError as error:
                raise source.error(error, number) from error


def _expected(path: Path, names: list[str], n_labels: int) -> list[str]:
    if len(names) != n_labels:
        raise DataError(
            f"{path}: expected {n_labels} names of labels, one a line, got {len(names)}. "
            "Use the file of the same data set, or rename it."
        )
    return names


def _title(record: Record) -> str:
    title = record.get("title", "")
    if not isinstance(title, str):
        raise DataError(f"'title' must be a string, got {show(title)}. Mend it: the order of the labels counts.")
    try:
        title.encode()
    except UnicodeEncodeError as failure:
        raise DataError(f"half a surrogate pair is no character, got {show(title)}. Write both halves.") from failure
    return title.strip()
