"""What damaged files hold, found without the readers: how many records, and the documents of JSON lines."""

from __future__ import annotations

import gzip
import json
import re
import zlib

import pyarrow as pa
from tests.fuzz.samples import BINARY, FILTER, Files, Sample

from haxmlnet.data import Document

BOM = b"\xef\xbb\xbf"
MUST_FAIL = -1
"""In place of a number of records: the files cannot be read to their end, and the reader must say so."""
SPACE_IN_LINE = {
    **dict.fromkeys(("jsonl", "annif-jsonl", "xc", FILTER), None),
    **dict.fromkeys(("libmultilabel", "fasttext", "annif-tsv"), b" \r"),
}
"""Formats whose records are the lines that hold more than these characters; None: than white space."""
COUNTED = {
    *SPACE_IN_LINE, "text", "pecos", "csv", "tsv", "annif-csv", "xc-sparse", "xc-matrices", "parallel", "svmlight",
}  # fmt: skip


def count_records(sample: Sample, files: Files, with_labels: bool) -> int | None:
    """Count the records of damaged files by the rules of their format; None where only a reader could."""
    contents = [unpack(content) for name, content in files.items() if not name.endswith(BINARY)]
    if sample.format not in COUNTED or not contents:
        return None
    content = contents[0]
    if content is None:
        return MUST_FAIL
    lines = content.split(b"\n")
    if sample.format in SPACE_IN_LINE:
        return sum(bool(line.strip(SPACE_IN_LINE[sample.format])) for line in lines)
    match sample.format:
        case "text" | "pecos":
            return count_lines(content)
        case "parallel":  # texts and labels must have as many lines
            compared = contents if with_labels else [content]
            counts = {None if other is None else count_lines(other) for other in compared}
            return count_lines(content) if len(counts) == 1 else MUST_FAIL
        case "svmlight":
            return sum(bool(line.partition(b"#")[0].strip(b" \t\r")) for line in lines)
        case "xc-sparse" | "xc-matrices":
            return _count_after_header(content)
    # Tables: a header, then a row a line. Where fields are quoted, the sample is trusted if the structure is the same.
    if b'"' not in content:
        return max(sum(bool(line.strip(b"\r")) for line in lines) - 1, 0)
    structures = {re.sub(rb'[^"\n\r,\t]+', b"x", table) for table in (content, next(iter(sample.files.values())))}
    return sample.n_documents if len(structures) == 1 else None


def count_lines(content: bytes) -> int:
    """Count lines; the last one may lack its end."""
    return len(content.removesuffix(b"\n").split(b"\n")) if content else 0


def _count_after_header(content: bytes) -> int:
    """Take the number of rows from the first line, if so many follow and at most blank lines after them."""
    header, _, rest = content.partition(b"\n")
    words, rows = header.split(), rest.split(b"\n")
    if not words or not re.fullmatch(rb"[0-9]{1,10}", words[0]):
        return MUST_FAIL
    n_rows = int(words[0])
    return MUST_FAIL if n_rows > count_lines(rest) or any(row.strip() for row in rows[n_rows:]) else n_rows


def unpack(content: bytes) -> bytes | None:
    """Decompress and drop the byte order mark; None for what is damaged."""
    try:
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        elif content.startswith(b"\x28\xb5\x2f\xfd"):
            content = bytes(pa.input_stream(pa.py_buffer(content), compression="zstd").read())
    except (OSError, EOFError, zlib.error):
        return None
    return content.removeprefix(BOM)


def parse_json_lines(content: bytes, with_labels: bool) -> list[Document]:
    """Parse the usable JSON lines with the usual field names, one by one."""
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
        if is_utf_8(document):
            documents.append(document)
    return documents


def is_utf_8(document: Document) -> bool:
    """Tell whether a document can be written: half a surrogate pair cannot."""
    try:
        "".join([document.id, document.text, *document.labels]).encode()
    except UnicodeEncodeError:
        return False
    return True
