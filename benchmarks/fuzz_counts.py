"""What damaged files hold, found without the readers: how many records, and the documents of JSON lines."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable

import pyarrow as pa

from benchmarks.fuzz_samples import BINARY, FILTER, Files, Sample
from haxmlnet.data import Document

BOM = b"\xef\xbb\xbf"
MUST_FAIL = -1
"""In the place of a number of records: the files cannot be read to their end, which must be said."""
Contents = list[bytes | None]
"""The texts of the files in their order, without packing; None for what cannot be unpacked."""
Counter = Callable[[bytes, Contents, Sample], int | None]


def count_records(sample: Sample, files: Files, with_labels: bool) -> int | None:
    """Count the records of files that were damaged, each in its format; None where only a reader could."""
    contents = [unpacked(content) for name, content in files.items() if not name.endswith(BINARY)]
    if sample.format not in COUNTERS or not contents:
        return None
    if contents[0] is None:
        return MUST_FAIL
    return COUNTERS[sample.format](contents[0], contents if with_labels else contents[:1], sample)


def unpacked(content: bytes) -> bytes | None:
    """Take packing and mark off; None for what is damaged."""
    try:
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        elif content.startswith(b"\x28\xb5\x2f\xfd"):
            content = bytes(pa.input_stream(pa.py_buffer(content), compression="zstd").read())
    except (OSError, EOFError, zlib.error):
        return None
    return content.removeprefix(BOM)


def _all_lines(content: bytes, contents: Contents, sample: Sample) -> int:
    return len(_split_lines(content))


def _split_lines(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def _lines_with_text(content: bytes, contents: Contents, sample: Sample) -> int:
    return sum(bool(line.strip()) for line in content.split(b"\n"))


def _lines_not_blank(content: bytes, contents: Contents, sample: Sample) -> int:
    return sum(bool(line.strip(b" \r")) for line in content.split(b"\n"))


def _lines_without_comments(content: bytes, contents: Contents, sample: Sample) -> int:
    return sum(bool(line.partition(b"#")[0].strip(b" \t\r")) for line in content.split(b"\n"))


def _lines_of_both(content: bytes, contents: Contents, sample: Sample) -> int:
    """Count the lines of the texts, of which the labels must have as many."""
    counts = {None if other is None else len(_split_lines(other)) for other in contents}
    return MUST_FAIL if len(counts) > 1 else len(_split_lines(content))


def _rows(content: bytes, contents: Contents, sample: Sample) -> int | None:
    """Count lines without the header where no field is quoted, else trust the sample if its structure is the same."""
    if b'"' not in content:
        return max(sum(bool(line.strip(b"\r")) for line in content.split(b"\n")) - 1, 0)
    original = next(iter(sample.files.values()))
    return sample.n_documents if _structure(content) == _structure(original) else None


def _structure(table: bytes) -> bytes:
    return re.sub(rb'[^"\n\r,\t]+', b"x", table)


def _number_in_header(content: bytes, contents: Contents, sample: Sample) -> int | None:
    """Take the number of rows from the first line, if so many follow and blank lines at most after them."""
    header, *rows = content.split(b"\n")
    words = header.split()
    if not words or not re.fullmatch(rb"[0-9]{1,10}", words[0]):
        return MUST_FAIL
    n_rows = int(words[0])
    if n_rows > len(_split_lines(b"\n".join(rows))) or any(row.strip() for row in rows[n_rows:]):
        return MUST_FAIL
    return n_rows


def json_documents(content: bytes, with_labels: bool) -> list[Document]:
    """Read what can be used of JSON lines with the usual field names, line by line."""
    documents = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            record = json.loads(line.decode())
            body, title = record.get("text", record.get("content")), record.get("title")
            own_id, labels = record.get("id", number), record["labels"] if with_labels else []
        except (ValueError, KeyError, AttributeError, RecursionError):
            continue
        if type(body) is not str or type(title) not in (str, type(None)) or type(labels) is not list:
            continue
        if any(type(name) not in (str, int) for name in (own_id, *labels)) or not all(str(n).strip() for n in labels):
            continue
        text = body if title is None or body.startswith(title) else f"{title}\n{body}"
        document = Document(str(own_id), text, tuple(dict.fromkeys(map(str, labels))))
        if _is_writable(document):
            documents.append(document)
    return documents


def _is_writable(document: Document) -> bool:
    try:
        "".join([document.id, document.text, *document.labels]).encode()
    except UnicodeEncodeError:
        return False
    return True


COUNTERS: dict[str, Counter] = {
    **dict.fromkeys(("jsonl", "annif-jsonl", "xc", FILTER), _lines_with_text),
    **dict.fromkeys(("libmultilabel", "fasttext", "annif-tsv"), _lines_not_blank),
    **dict.fromkeys(("text", "pecos"), _all_lines),
    **dict.fromkeys(("csv", "tsv", "annif-csv"), _rows),
    **dict.fromkeys(("xc-sparse", "xc-matrices"), _number_in_header),
    "parallel": _lines_of_both,
    "svmlight": _lines_without_comments,
}
