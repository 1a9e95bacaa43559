"""Which format a file has, by its name or its content, and which file of a directory is meant."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from haxmlnet.data.documents import ReadOptions
from haxmlnet.data.formats import annif, xc_raw
from haxmlnet.data.formats.csv_tsv import read_header_names
from haxmlnet.data.formats.fasttext import LABEL_PREFIX
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.huggingface import FILES_KEY, STATE_FILE
from haxmlnet.data.formats.pecos import TEXTS_NAME
from haxmlnet.data.formats.registry import FORMATS, OUTPUT_FORMATS, check_format
from haxmlnet.data.formats.source import PACKED_SUFFIXES, Source, bare_name, open_source
from haxmlnet.errors import DataError, SettingError

_SHORT_SPLIT = {"train": "trn", "test": "tst"}
_ANNIF_LINE = re.compile(rb"[^\t]*\t\s*<[^<>\s]+>(\s+<[^<>\s]+>)*\s*")
_LABELS = rb"(?:\d+(?:, ?\d+)*,?[ \t]*)?"
_PAIR = rb"\d+:[-+]?[\d.]+(?:[eE][-+]?\d+)?"
_SPARSE_HEAD = re.compile(rb"\d+[ \t]+\d+[ \t]+\d+[ \t]*\r?\n[ \t]*" + _LABELS + rb"(?:\d+:\S|\r?\n|$)")
# One pair alone may be the time of day at the start of a text.
_SVMLIGHT_LINE = re.compile(rb"\s*" + _LABELS + _PAIR + rb"(?:\s+" + _PAIR + rb")+\s*(?:#.*)?")


def recognize_format(source: Source, options: ReadOptions, with_labels: bool) -> str:
    """Tell the format by the options, else the name, else the content."""
    if options.format is not None:
        return check_format(options.format)
    if source.is_parquet:
        return "parquet"
    if source.is_matrix:
        return "pecos-npz"
    if source.head.startswith(LABEL_PREFIX.encode()):
        return "fasttext"
    name = bare_name(source.name)
    if TEXTS_NAME.fullmatch(name):
        return "pecos"
    if name == STATE_FILE and FILES_KEY.encode() in source.head:
        return "huggingface"
    for format_name, form in FORMATS.items():
        if form.suffixes and name.lower().endswith(form.suffixes):
            return _recognize_dialect(format_name, source, options)
    return _recognize_dialect(_recognize_content(source, options, with_labels), source, options)


def _recognize_content(source: Source, options: ReadOptions, with_labels: bool) -> str:
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
        if {options.label_field, annif.CSV_LABEL_FIELD} & read_header_names(source, delimiter):
            return format_name
    raise source.error(f"cannot tell the format. Use --format with one of {', '.join(FORMATS)}.")


def _recognize_dialect(format_name: str, source: Source, options: ReadOptions) -> str:
    """Tell the special forms of a format from their field names."""
    if format_name == "jsonl":
        try:
            record = json.loads(source.first_line())
        except (ValueError, RecursionError):
            record = None
        fields = set(record) if isinstance(record, dict) else set()
        if xc_raw.LABEL_FIELD in fields and options.label_field not in fields:
            return "xc"
        if annif.JSON_LABEL_FIELD in fields and options.label_field not in fields - {annif.JSON_LABEL_FIELD}:
            return "annif-jsonl"
    if format_name == "csv":
        names = read_header_names(source, ",")
        if annif.CSV_LABEL_FIELD in names and options.label_field not in names:
            return "annif-csv"
    if format_name == "tsv" and _ANNIF_LINE.fullmatch(source.first_line()):
        return "annif-tsv"
    return format_name


def find_file(path: str | Path, options: ReadOptions) -> str | Path:
    """Find the file with the documents of `options.split` if the path is a directory; else it is the path itself.

    In a directory that holds both texts and sparse features, the file of the texts is meant.
    """
    directory = Path(path)
    if not directory.is_dir():
        return path
    found = _find_only(directory, options, False) or _find_only(directory, options, True)
    if found:
        return found
    split, short = options.split, _SHORT_SPLIT[options.split]
    unclear = _list_files(directory, (f"{split}.txt",), split)
    if unclear and options.format is None:
        raise DataError(f"{unclear[0]}: cannot tell the format. Use --format, such as --format libmultilabel.")
    raise DataError(
        f"{directory}: no known {split} file in this directory, such as {split}.jsonl, {short}.json or "
        f"{split}_texts.txt. Give a file."
    )


def find_features(path: str | Path, options: ReadOptions) -> str | Path:
    """Find the sparse file of `options.split` if the path is a directory; else it is the path itself."""
    found = _find_only(Path(path), options, True) if Path(path).is_dir() else None
    return found or find_file(path, options)


def _find_only(directory: Path, options: ReadOptions, is_sparse: bool) -> Path | None:
    """Find the file of a known format, of which there may be only one."""
    names = list(FORMATS) if options.format is None else [check_format(options.format)]
    found: dict[Path, None] = {}
    for name in names:
        form = FORMATS[name]
        if form.is_sparse == is_sparse:
            files = _list_files(directory, form.files, options.split)[:1]
            found.update(dict.fromkeys(files or _list_likely_files(directory, name, options)))
    if len(found) > 1:
        first, second = [file.name for file in found][:2]
        raise DataError(f"{directory}: holds {first} and {second}. Give one of the files, or --format.")
    return next(iter(found), None)


def _list_likely_files(directory: Path, name: str, options: ReadOptions) -> list[Path]:
    """List the files that look like the format; if the user says it is there, the first that may have it."""

    def has_format(file: Path) -> bool:
        try:
            with open_source(file) as source:
                return recognize_format(source, replace(options, format=None), with_labels=False) == name
        except DataError:
            return False

    likely = _list_files(directory, FORMATS[name].likely_files, options.split)
    known = [file for file in likely if has_format(file)]
    return known or (likely[:1] if options.format is not None else [])


def _list_files(directory: Path, patterns: tuple[str, ...], split: str) -> list[Path]:
    """List the files of such names, plain or packed."""
    files: dict[Path, None] = {}
    for pattern in patterns:
        name = pattern.format(split=split, short=_SHORT_SPLIT[split])
        for suffix in ("", *PACKED_SUFFIXES):
            found = sorted(directory.glob(name + suffix)) if "*" in name else [directory / (name + suffix)]
            files.update(dict.fromkeys(file for file in found if file.is_file()))
    return list(files)


def choose_output_format(
    path: str | Path, format: str | None = None, formats: Mapping[str, Format] = OUTPUT_FORMATS
) -> str:
    """Check the name of an output format, or tell it by the name of the file."""
    if format is not None:
        if format not in formats:
            what = "" if formats is OUTPUT_FORMATS else " for features without texts"
            raise SettingError(f"format must be one of {', '.join(formats)}{what}, got {format!r}.")
        return format
    name = bare_name(str(path))
    if formats is OUTPUT_FORMATS:
        if name in [f"{short}.json" for short in _SHORT_SPLIT.values()]:
            return "xc"
        if TEXTS_NAME.fullmatch(name):
            return "pecos"
    for format_name, form in formats.items():
        if name.lower().endswith(form.suffixes + form.output_suffixes):
            return format_name
    raise SettingError(f"{path}: the name does not tell the format. Use --to with one of {', '.join(formats)}.")
