"""Documents as lines of text, one function a format; what a format cannot hold is refused, never changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from haxmlnet.data.readers import Document
from haxmlnet.data.readers.fields import show
from haxmlnet.data.readers.lines import FASTTEXT_PREFIX, bare_uri
from haxmlnet.data.readers.tables import DEFAULT_LABEL_SEPARATOR
from haxmlnet.errors import DataError

LineMaker = Callable[[Document], tuple[str, ...]]
"""Makes the line of a document in each file of the format, without line ends."""
TABLE_HEADER = ("id", "text", "labels")
ANNIF_HEADER = "document_id,text,subject_uris"
_FASTTEXT_SPACES = " \t\v\f\0"
_FASTTEXT_LABEL = re.compile(rf"(?:^|[{_FASTTEXT_SPACES}]){FASTTEXT_PREFIX}")
# A reader takes these for the marks of other kinds of files.
_MAGIC_STARTS = ("\ufeff", "PK\x03\x04", "BZh91AY&SY")


def json_line(document: Document) -> tuple[str, ...]:
    """Write an object with id, text and labels."""
    return (json.dumps(document._asdict(), ensure_ascii=False),)


def csv_line(document: Document) -> tuple[str, ...]:
    """Write a row with commas."""
    return (_row(document, ","),)


def tsv_line(document: Document) -> tuple[str, ...]:
    """Write a row with tabs, quoted in the same way as CSV."""
    return (_row(document, "\t"),)


def fasttext_line(document: Document) -> tuple[str, ...]:
    """Write `__label__a __label__b text`."""
    _refuse(document.text, "\n\r\0", "text")
    for label in document.labels:
        _refuse(label, _FASTTEXT_SPACES + "\n\r", "label")
    if _FASTTEXT_LABEL.search(document.text):
        raise DataError(f"the text has a word that begins with {FASTTEXT_PREFIX}, got {show(document.text)}")
    if not document.labels and not document.text.strip(" "):
        raise DataError("the document has neither text nor labels, and blank lines do not count")
    labels = [FASTTEXT_PREFIX + label for label in document.labels]
    return (_line(" ".join([*labels, document.text])),)


def libmultilabel_line(document: Document) -> tuple[str, ...]:
    """Write `id TAB label label TAB text`."""
    _refuse(document.id, "\t\n\r\0", "id")
    _refuse(document.text, "\t\n\r\0", "text")
    return (_line("\t".join([document.id, _spaced(document.labels), document.text])),)


def annif_tsv_line(document: Document) -> tuple[str, ...]:
    """Write `text TAB <uri> <uri>`."""
    _refuse(document.text, "\t\n\r\0", "text")
    return (_line(document.text + "\t" + _uris(document.labels)),)


def annif_csv_line(document: Document) -> tuple[str, ...]:
    """Write a row with the id, the text and `<uri> <uri>`."""
    cells = (document.id, document.text, _uris(document.labels))
    for name, cell in zip(TABLE_HEADER, cells, strict=True):
        _refuse(cell, "\0", name)
    return (",".join([_quoted(cell, ",") for cell in cells]),)


def annif_json_line(document: Document) -> tuple[str, ...]:
    """Write an object whose subjects have a uri."""
    # The reader takes one pair of angle brackets off, as they belong to URIs in other forms.
    uris = [f"<{label}>" if label != bare_uri(label) else label for label in document.labels]
    record = {"document_id": document.id, "text": document.text, "subjects": [{"uri": uri} for uri in uris]}
    return (json.dumps(record, ensure_ascii=False),)


def text_line(text: str) -> str:
    """Write a text on a line of its own."""
    _refuse(text, "\n\r\0", "text")
    return _line(text)


def name_line(name: str) -> str:
    """Write the name of a label on a line of its own."""
    _refuse(name, "\n\r\0", "label")
    if not name.strip():
        raise DataError(f"a label has no visible character, got {show(name)}")
    return _line(name)


def cannot_hold(path: object, n: int, document: Document, reason: object) -> DataError:
    """Make the error for a document that a format cannot hold."""
    return DataError(
        f"{path}: cannot hold document {n} with the id {show(document.id)}: {reason}. "
        "Mend it, or choose a format such as jsonl."
    )


def parallel_lines(document: Document) -> tuple[str, ...]:
    """Write the text for one file and the labels, separated by spaces, for the other."""
    return text_line(document.text), _line(_spaced(document.labels))


def table_header(delimiter: str) -> str:
    """Name the columns of a table."""
    return delimiter.join(TABLE_HEADER)


def _row(document: Document, delimiter: str) -> str:
    cells = (document.id, document.text, _label_cell(document.labels))
    for name, cell in zip(TABLE_HEADER, cells, strict=True):
        _refuse(cell, "\0", name)
    return delimiter.join([_quoted(cell, delimiter) for cell in cells])


def _quoted(cell: str, delimiter: str) -> str:
    if any(mark in cell for mark in (delimiter, '"', "\r", "\n")):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _label_cell(labels: tuple[str, ...]) -> str:
    """Join labels by the usual separator if they come back the same, else write a JSON list."""
    joined = DEFAULT_LABEL_SEPARATOR.join(labels)
    is_plain = all(label == label.strip() and DEFAULT_LABEL_SEPARATOR not in label for label in labels)
    if is_plain and not joined.startswith("["):
        return joined
    return json.dumps(labels, ensure_ascii=False)


def _uris(labels: Iterable[str]) -> str:
    for label in labels:
        _refuse(label, "<>", "label")
    return " ".join([f"<{label}>" for label in _spaced(labels).split()])


def _spaced(labels: Iterable[str]) -> str:
    for label in labels:
        if label.split() != [label] or "\0" in label:
            raise DataError(f"a label has a space, which separates labels, got {show(label)}")
    return " ".join(labels)


def _refuse(value: str, characters: str, what: str) -> None:
    found = next((character for character in characters if character in value), None)
    if found is not None:
        raise DataError(f"the {what} has the character {found!r}, got {show(value)}")


def _line(line: str) -> str:
    if line.startswith(_MAGIC_STARTS):
        raise DataError(f"the line would begin like a file of another kind, got {show(line)}")
    return line
