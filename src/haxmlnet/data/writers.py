"""Predictions to files, and files that are either complete or not there."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from haxmlnet.errors import DataError, SettingError

ScoredLabels = Sequence[tuple[object, float]]
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def write_predictions(
    stream: TextIO, ids: Iterable[str], ranking: Iterable[ScoredLabels], format: str = "jsonl"
) -> None:
    r"""Write the labels of each document, best first, with scores of six significant digits.

    jsonl: one object a document, `{"id": "7", "labels": [{"label": "law", "score": 0.97}]}`.
    tsv: one line a label, `id TAB label TAB score`, where backslash, tab, newline and carriage return
    within ids and labels are written as `\\`, `\t`, `\n` and `\r`; a document without labels has no line.
    """
    if format not in PREDICTION_FORMATS:
        raise SettingError(f"format must be one of {', '.join(PREDICTION_FORMATS)}, got {format!r}.")
    lines_of = PREDICTION_FORMATS[format]
    for document_id, scored in zip(ids, ranking, strict=True):
        stream.write(lines_of(document_id, scored))


@contextmanager
def replace_file(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path` to write to; it takes the place of `path` if all went well.

    After an exception `path` is as it was. Devices and pipes such as /dev/stdout are given as they are.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_file() and not target.is_dir():
        yield target
        return
    temporary = target.with_name(f".tmp-{secrets.token_hex(6)}{target.suffix}")
    with _explain_failures(path):
        if target.is_dir():
            raise DataError(f"{path}: cannot be written: it is a directory. Give a file name.")
        temporary.touch()
    try:
        yield temporary
        with _explain_failures(path):
            _flush_to_disk(temporary)
            os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _explain_failures(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as failure:
        raise DataError(f"{path}: cannot be written: {failure.strerror or failure}. Check the folder.") from failure


def _flush_to_disk(path: Path) -> None:
    # Without this, a power cut may leave the new name with an empty file behind it.
    with open(path, "rb+") as stream:
        os.fsync(stream.fileno())


def _json_line(document_id: str, scored: ScoredLabels) -> str:
    labels = [{"label": label, "score": float(f"{score:.6g}")} for label, score in scored]
    return json.dumps({"id": document_id, "labels": labels}, ensure_ascii=False, allow_nan=False) + "\n"


def _tsv_lines(document_id: str, scored: ScoredLabels) -> str:
    start = document_id.translate(_ESCAPES)
    return "".join([f"{start}\t{str(label).translate(_ESCAPES)}\t{score:.6g}\n" for label, score in scored])


PREDICTION_FORMATS: dict[str, Callable[[str, ScoredLabels], str]] = {"jsonl": _json_line, "tsv": _tsv_lines}
