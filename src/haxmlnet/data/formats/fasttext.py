"""fastText: labels with a prefix, then the text; no ids.

__label__a __label__b first text
__label__c second text
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.fields import show
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.lines import check_line, read_each_line, refuse_characters, write_lines
from haxmlnet.data.formats.source import Source
from haxmlnet.errors import DataError

LABEL_PREFIX = "__label__"
# Not \s: fastText splits words at these characters only.
_SPACES = " \t\v\f\0"
_LABEL = re.compile(rf"[{_SPACES}]*{LABEL_PREFIX}([^{_SPACES}]*)")
_WORD = re.compile(rf"[^{_SPACES}]+")
_LABEL_IN_TEXT = re.compile(rf"(?:^|[{_SPACES}]){LABEL_PREFIX}")


def read_fasttext(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read `__label__a __label__b text`; labels may stand within and after the text, too."""

    def parse(line: str, number: int) -> Document:
        labels: list[str] = []
        end = 0
        while match := _LABEL.match(line, end):
            labels.append(match[1])
            end = match.end()
        text = line[end + 1 :] if labels else line
        if LABEL_PREFIX in text:
            words = _WORD.findall(text)
            late = [word.removeprefix(LABEL_PREFIX) for word in words if word.startswith(LABEL_PREFIX)]
            if late:
                labels += late
                text = " ".join([word for word in words if not word.startswith(LABEL_PREFIX)])
        if not all(label.strip() for label in labels):
            raise DataError(f"'{LABEL_PREFIX}' has no name after it, got {show(line)}. Name it or leave it out.")
        return Document(str(number), text, tuple(dict.fromkeys(labels)) if with_labels else ())

    return read_each_line(source, parse)


def write_fasttext(documents: Iterable[Document], path: Path) -> int:
    """Write `__label__a __label__b text`."""

    def make_lines(document: Document) -> list[str]:
        refuse_characters(document.text, "\n\r\0", "text")
        for label in document.labels:
            refuse_characters(label, _SPACES + "\n\r", "label")
        if _LABEL_IN_TEXT.search(document.text):
            raise DataError(f"the text has a word that begins with {LABEL_PREFIX}, got {show(document.text)}")
        if not document.labels and not document.text.strip(" "):
            raise DataError("the document has neither text nor labels, and blank lines do not count")
        return [check_line(" ".join([*(LABEL_PREFIX + label for label in document.labels), document.text]))]

    return write_lines(documents, [path], make_lines)


FASTTEXT = Format(
    read_fasttext,
    write_fasttext,
    has_ids=False,
    suffixes=(".fasttext",),
    files=("{split}.fasttext",),
    likely_files=("{split}.txt",),
)
