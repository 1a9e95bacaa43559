"""Predictions as JSON lines or as a table of tabs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from haxmlnet.errors import SettingError

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
    make_lines = PREDICTION_FORMATS[format]
    for document_id, scored in zip(ids, ranking, strict=True):
        stream.write(make_lines(document_id, scored))


def _make_json_line(document_id: str, scored: ScoredLabels) -> str:
    labels = [{"label": label, "score": float(f"{score:.6g}")} for label, score in scored]
    return json.dumps({"id": document_id, "labels": labels}, ensure_ascii=False, allow_nan=False) + "\n"


def _make_tsv_lines(document_id: str, scored: ScoredLabels) -> str:
    start = document_id.translate(_ESCAPES)
    return "".join([f"{start}\t{str(label).translate(_ESCAPES)}\t{score:.6g}\n" for label, score in scored])


PREDICTION_FORMATS: dict[str, Callable[[str, ScoredLabels], str]] = {"jsonl": _make_json_line, "tsv": _make_tsv_lines}
