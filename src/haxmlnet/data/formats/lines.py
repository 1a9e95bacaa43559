"""What formats with one document a line share: a line as a document, and what a line cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from haxmlnet.data.documents import Document
from haxmlnet.data.formats.fields import show
from haxmlnet.data.formats.source import Source, decode_line
from haxmlnet.data.output_files import open_outputs
from haxmlnet.errors import DataError

# A reader takes these for the marks of other kinds of files.
_MAGIC_STARTS = ("\ufeff", "PK\x03\x04", "BZh91AY&SY")


def read_each_line(
    source: Source, parse: Callable[[str, int], Document], blank_lines_count: bool = False
) -> Iterator[Document | DataError]:
    """Make a document of each line, without its end, and its number."""
    for number, line in source.lines():
        if not blank_lines_count and not line.strip(b" \r\n"):
            continue
        try:
            yield parse(decode_line(line).rstrip("\r\n"), number)
        except DataError as error:
            yield source.error(error, number)


def write_lines(
    documents: Iterable[Document],
    paths: Sequence[Path],
    make_lines: Callable[[Document], Sequence[str]],
    header: str | None = None,
) -> int:
    """Write the lines of each document, one for each file, below a header for the first file."""
    n_documents = 0
    with open_outputs(paths) as streams:
        if header is not None:
            streams[0].write(f"{header}\n".encode())
        for n_documents, document in enumerate(documents, start=1):
            try:
                lines = make_lines(document)
            except DataError as error:
                raise cannot_hold(paths[0], n_documents, document, error) from error
            for stream, line in zip(streams, lines, strict=True):
                stream.write(f"{line}\n".encode())
    return n_documents


def cannot_hold(path: object, n: int, document: Document, reason: object) -> DataError:
    """Make the error for a document that a format cannot hold."""
    return DataError(
        f"{path}: cannot hold document {n} with the id {show(document.id)}: {reason}. "
        "Fix it, or choose a format such as jsonl."
    )


def refuse_characters(value: str, characters: str, what: str) -> None:
    """Refuse a value with one of the characters."""
    found = next((character for character in characters if character in value), None)
    if found is not None:
        raise DataError(f"the {what} has the character {found!r}, got {show(value)}")


def check_line(line: str) -> str:
    """Refuse a line that would make the file look like one of another kind."""
    if line.startswith(_MAGIC_STARTS):
        raise DataError(f"the line would begin like a file of another kind, got {show(line)}")
    return line


def check_text_line(text: str) -> str:
    """Check that a text fits on a line of its own."""
    refuse_characters(text, "\n\r\0", "text")
    return check_line(text)


def check_name_line(name: str) -> str:
    """Check that the name of a label fits on a line of its own."""
    refuse_characters(name, "\n\r\0", "label")
    if not name.strip():
        raise DataError(f"a label has no visible character, got {show(name)}")
    return check_line(name)


def join_labels(labels: Iterable[str]) -> str:
    """Write labels with spaces between them."""
    for label in labels:
        if label.split() != [label] or "\0" in label:
            raise DataError(f"a label has a space, which separates labels, got {show(label)}")
    return " ".join(labels)
