"""Names of labels in a file beside the documents: lbl.json or Y.txt of the repository, output-items.txt of PECOS.

    lbl.json:          {"uid": "A1", "title": "Voices of the Wind"}
    Y.txt:             Voices of the Wind
    output-items.txt:  Voices of the Wind

The number of a label is its line, from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from haxmlnet.data.feature_corpus import FeatureCorpus
from haxmlnet.data.formats.fields import refuse_half_characters, show
from haxmlnet.data.formats.jsonl import parse_object
from haxmlnet.data.formats.lines import check_name_line
from haxmlnet.data.formats.source import decode_line, find_beside, open_source
from haxmlnet.errors import DataError

LABEL_FILE = "lbl.json"
NAME_FILE = "Y.txt"
PECOS_NAME_FILE = "output-items.txt"
# For some data sets the repository gives the texts of the labels this name, for others the words in them.
_MAYBE_NAME_FILE = "Yf.txt"
ID_FIELD = "uid"


def read_label_names(path: Path) -> list[str]:
    """Read the titles of the labels; where several labels share one, their uids tell them apart."""
    titles, uids = read_titles(path)
    return make_distinct_names(path, titles, uids)


def read_titles(path: Path) -> tuple[list[str], list[object]]:
    """Read the title and the uid of each label; a label without a title has its uid for one."""
    titles, uids = [], []
    with open_source(path) as source:
        for number, line in source.lines():
            try:
                record = parse_object(line)
                uid, title = record.get(ID_FIELD, number - 1), record.get("title", "")
                if not isinstance(title, str):
                    raise DataError(
                        f"'title' must be a string, got {show(title)}. Fix it: the order of the labels counts."
                    )
                refuse_half_characters(title)
            except DataError as error:
                raise source.error(error, number) from error
            titles.append(title.strip() or str(uid))
            uids.append(uid)
    return titles, uids


def make_distinct_names(path: Path, titles: Sequence[str], uids: Sequence[object]) -> list[str]:
    """Put the uid in brackets behind the titles that several labels of a file share."""
    counts = Counter(titles)
    names = [title if counts[title] == 1 else f"{title} ({uid})" for title, uid in zip(titles, uids, strict=True)]
    for name, n_uses in Counter(names).most_common(1):
        if n_uses > 1:
            raise DataError(f"{path}: {n_uses} labels have the title and uid {show(name)}. Give each a uid of its own.")
    return names


def read_names_beside(path: Path | None, n_labels: int) -> list[str] | None:
    """Read the names of the labels of the repository's sparse files, if there is a file of names beside them."""
    names, file = _find_names(path)
    if names is not None and len(names) != n_labels:
        raise DataError(
            f"{file}: expected {n_labels} names of labels, one a line, got {len(names)}. "
            "Use the file of the same data set, or rename it."
        )
    maybe_file = find_beside(path, _MAYBE_NAME_FILE)
    if names is None and maybe_file is not None:
        names = _read_name_lines(maybe_file)
        return names if len(names) == n_labels else None
    return names


def read_any_names_beside(path: Path | None) -> list[str] | None:
    """Read the names of the labels beside a sparse file, however many there are."""
    return _find_names(path)[0]


def _find_names(path: Path | None) -> tuple[list[str] | None, Path | None]:
    for name, read in ((NAME_FILE, _read_name_lines), (LABEL_FILE, read_label_names)):
        file = find_beside(path, name)
        if file is not None:
            return read(file), file
    return None, None


def _read_name_lines(path: Path) -> list[str]:
    titles = [name.strip() or str(number) for number, name in enumerate(_iterate_lines(path))]
    return make_distinct_names(path, titles, range(len(titles)))


def read_pecos_names(path: Path | None, n_labels: int) -> list[str] | None:
    """Read the names of the labels of a matrix of PECOS, if there is a file of names: one a line, all different."""
    file = find_beside(path, PECOS_NAME_FILE)
    if file is None:
        return None
    names = list(_iterate_lines(file))
    if len(names) != n_labels or len(set(names)) != n_labels or not all(name.strip() for name in names):
        raise DataError(
            f"{file}: expected {n_labels} different names, one a line, got {len(set(names))}. Fix the file."
        )
    return names


def _iterate_lines(path: Path) -> Iterator[str]:
    with open_source(path) as source:
        for number, line in source.lines():
            try:
                yield decode_line(line).rstrip("\r\n")
            except DataError as error:
                raise source.error(error, number) from error


def select_new_names(corpus: FeatureCorpus, names_there: list[str] | None, path: Path) -> list[str] | None:
    """Return the names that have yet to be written to `path`, if the ones that are there are not others."""
    names = corpus.label_names
    if names_there is None:
        for name in names or ():
            try:
                check_name_line(name)
            except DataError as error:
                raise DataError(f"{path}: cannot hold the label {show(name)}: {error}. Fix it.") from error
        return names
    expected = [str(column) for column in range(len(names_there))] if names is None else names
    if names_there != expected:
        raise DataError(f"{path}: the labels of other documents have other names there. Write to another directory.")
    return None
