"""Which format a file has, and which file of a directory is meant."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from haxmlnet.data.readers import annif, repository
from haxmlnet.data.readers.documents import ReadOptions
from haxmlnet.data.readers.formats import FORMATS, checked_format
from haxmlnet.data.readers.huggingface import FILES_KEY, STATE_FILE
from haxmlnet.data.readers.lines import FASTTEXT_PREFIX
from haxmlnet.data.readers.parallel import PECOS_NAME
from haxmlnet.data.readers.source import PACKED_SUFFIXES, Source, bare_name, open_source
from haxmlnet.errors import DataError

_SHORT_SPLIT = {"train": "trn", "test": "tst"}
_ANNIF_LINE = re.compile(rb"[^\t]*\t\s*<[^<>\s]+>(\s+<[^<>\s]+>)*\s*")
_LABELS = rb"(?:\d+(?:, ?\d+)*,?[ \t]*)?"
_PAIR = rb"\d+:[-+]?[\d.]+(?:[eE][-+]?\d+)?"
_SPARSE_HEAD = re.compile(rb"\d+[ \t]+\d+[ \t]+\d+[ \t]*\r?\n[ \t]*" + _LABELS + rb"(?:\d+:\S|\r?\n|$)")
# One pair alone may be the time of day at the start of a text.
_SVMLIGHT_LINE = re.compile(rb"\s*" + _LABELS + _PAIR + rb"(?:\s+" + _PAIR + rb")+\s*(?:#.*)?")


def find_file(path: str | Path, options: ReadOptions) -> str | Path:
    """Give the file with the documents of `options.split` if the path is a directory, else the path itself.

    In a directory that holds both texts and sparse features, the file of the texts is meant.
    """
    directory = Path(path)
    if not directory.is_dir():
        return path
    for is_sparse in (False, True):
        found = _known_files(directory, options, is_sparse)
        if len(found) > 1:
            raise DataError(f"{path}: holds {found[0].name} and {found[1].name}. Give one of the files, or --format.")
        if found:
            return found[0]
    raise _nothing_found(directory, options)


def find_features(path: str | Path, options: ReadOptions) -> str | Path:
    """Give the sparse file of `options.split` if the path is a directory, else the path itself."""
    directory = Path(path)
    found = _known_files(directory, options, True) if directory.is_dir() else []
    if len(found) > 1:
        raise DataError(f"{path}: holds {found[0].name} and {found[1].name}. Give one of the files, or --format.")
    return found[0] if found else find_file(path, options)


def _known_files(directory: Path, options: ReadOptions, is_sparse: bool) -> list[Path]:
    names = list(FORMATS) if options.format is None else [checked_format(options.format)]
    found: dict[Path, None] = {}
    for name in names:
        form = FORMATS[name]
        if form.is_sparse == is_sparse:
            files = _files_in(directory, form.files, options.split)[:1]
            files = files or _likely_files(directory, name, options)
            found.update(dict.fromkeys(files))
    return list(found)


def _likely_files(directory: Path, name: str, options: ReadOptions) -> list[Path]:
    """Give the files that look like the format; if the user says it is there, the first that may have it."""
    likely = _files_in(directory, FORMATS[name].likely_files, options.split)
    known = [file for file in likely if _format_of_file(file, replace(options, format=None)) == name]
    return known or (likely[:1] if options.format is not None else [])


def _files_in(directory: Path, patterns: tuple[str, ...], split: str) -> list[Path]:
    """Give the files of such names, plain or packed."""
    files: dict[Path, None] = {}
    for pattern in patterns:
        name = pattern.format(split=split, short=_SHORT_SPLIT[split])
        for suffix in ("", *PACKED_SUFFIXES):
            found = sorted(directory.glob(name + suffix)) if "*" in name else [directory / (name + suffix)]
            files.update(dict.fromkeys(file for file in found if file.is_file()))
    return list(files)


def _format_of_file(file: Path, options: ReadOptions) -> str | None:
    try:
        with open_source(file) as source:
            return format_of(source, options, with_labels=False)
    except DataError:
        return None


def _nothing_found(directory: Path, options: ReadOptions) -> DataError:
    split, short = options.split, _SHORT_SPLIT[options.split]
    unclear = _files_in(directory, (f"{split}.txt",), split)
    if unclear and options.format is None:
        return DataError(f"{unclear[0]}: cannot tell the format. Use --format, such as --format libmultilabel.")
    return DataError(
        f"{directory}: no known {split} file in this directory, such as {split}.jsonl, {short}.json or "
        f"{split}_texts.txt. Give a file."
    )


def format_of(source: Source, options: ReadOptions, with_labels: bool) -> str:
    """Tell the format by the options, else the name, else the content."""
    if options.format is not None:
        return checked_format(options.format)
    if source.is_parquet:
        return "parquet"
    if source.is_matrix:
        return "pecos-npz"
    if source.head.startswith(FASTTEXT_PREFIX.encode()):
        return "fasttext"
    name = bare_name(source.name)
    if PECOS_NAME.fullmatch(name):
        return "pecos"
    if name == STATE_FILE and FILES_KEY.encode() in source.head:
        return "huggingface"
    for format_name, form in FORMATS.items():
        if form.suffixes and name.lower().endswith(form.suffixes):
            return _dialect(format_name, source, options)
    return _dialect(_format_of_content(source, options, with_labels), source, options)


def _format_of_content(source: Source, options: ReadOptions, with_labels: bool) -> str:
    if re.match(rb'\s*\{\s*["}]', source.head):
        return "jsonl"
    if _SPARSE_HEAD.match(source.head):
        return "xc-sparse"
    if _SVMLIGHT_LINE.fullmatch(source.first_line()):
        return "svmlight"
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
