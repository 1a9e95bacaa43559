"""Which format a file has, and which file of a directory is meant."""

from __future__ import annotations

import json
import re
from pathlib import Path

from haxmlnet.data.readers import annif, repository
from haxmlnet.data.readers.documents import ReadOptions
from haxmlnet.data.readers.formats import FORMATS, Format, checked_format
from haxmlnet.data.readers.lines import FASTTEXT_PREFIX
from haxmlnet.data.readers.parallel import PECOS_NAME
from haxmlnet.data.readers.source import Source, bare_name, find_beside
from haxmlnet.errors import DataError

_SHORT_SPLIT = {"train": "trn", "test": "tst"}
_ANNIF_LINE = re.compile(rb"[^\t]*\t\s*<[^<>\s]+>(\s+<[^<>\s]+>)*\s*")


def find_file(path: str | Path, options: ReadOptions) -> str | Path:
    """Give the file with the documents of `options.split` if the path is a directory, else the path itself."""
    directory = Path(path)
    if not directory.is_dir():
        return path
    names = list(FORMATS) if options.format is None else [checked_format(options.format)]
    files = [_file_in(directory, FORMATS[name], options.split) for name in names]
    found = [file for file in files if file is not None]
    if not found:
        raise DataError(
            f"{path}: no known {options.split} file in this directory, such as {options.split}.jsonl, "
            f"{_SHORT_SPLIT[options.split]}.json or {options.split}_texts.txt. Give a file."
        )
    if len(found) > 1:
        raise DataError(f"{path}: holds {found[0].name} and {found[1].name}. Give one of the files, or --format.")
    return found[0]


def _file_in(directory: Path, form: Format, split: str) -> Path | None:
    names = [name.format(split=split, short=_SHORT_SPLIT[split]) for name in form.files]
    found = [find_beside(directory / name, name) for name in names]
    return next((file for file in found if file is not None), None)


def format_of(source: Source, options: ReadOptions, with_labels: bool) -> str:
    """Tell the format by the options, else the name, else the content."""
    if options.format is not None:
        return checked_format(options.format)
    if source.is_parquet:
        return "parquet"
    if source.head.startswith(FASTTEXT_PREFIX.encode()):
        return "fasttext"
    name = bare_name(source.name)
    if PECOS_NAME.fullmatch(name):
        return "pecos"
    for format_name, form in FORMATS.items():
        if form.suffixes and name.lower().endswith(form.suffixes):
            return _dialect(format_name, source, options)
    return _dialect(_format_of_content(source, options, with_labels), source, options)


def _format_of_content(source: Source, options: ReadOptions, with_labels: bool) -> str:
    if re.match(rb'\s*\{\s*["}]', source.head):
        return "jsonl"
    if _ANNIF_LINE.fullmatch(source.first_line()):
        return "annif-tsv"
    if not with_labels:
        return "text"
    for format_name, delimiter in (("tsv", "\t"), ("csv", ",")):
        if {options.label_field, annif.CSV_LABEL_FIELD} & _header_names(source, delimiter):
            return format_name
    raise source.error(f"cannot tell the format. Use --format with one of {', '.join(FORMATS)}.")


def _dialect(format_name: str, source: Source, options: ReadOptions) -> str:
    """Tell the special forms of a format from their field names."""
    if format_name == "jsonl":
        fields = _first_fields(source)
        if repository.LABEL_FIELD in fields and options.label_field not in fields:
            return "xc"
        if annif.JSON_LABEL_FIELD in fields and options.label_field not in fields - {annif.JSON_LABEL_FIELD}:
            return "annif-jsonl"
    if format_name == "csv":
        names = _header_names(source, ",")
        if annif.CSV_LABEL_FIELD in names and options.label_field not in names:
            return "annif-csv"
    if format_name == "tsv" and _ANNIF_LINE.fullmatch(source.first_line()):
        return "annif-tsv"
    return format_name


def _header_names(source: Source, delimiter: str) -> set[str]:
    header = source.first_line().decode(errors="replace")
    return {name.strip(' "\r\n') for name in header.split(delimiter)}


def _first_fields(source: Source) -> set[str]:
    try:
        record = json.loads(source.first_line())
    except (ValueError, RecursionError):
        return set()
    return set(record) if isinstance(record, dict) else set()
