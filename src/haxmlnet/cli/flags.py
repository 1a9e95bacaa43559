"""Flags that several commands share."""

from __future__ import annotations

import argparse

from haxmlnet.data import FORMATS, ReadOptions


def add_quiet_flag(parser: argparse.ArgumentParser) -> None:
    """Add --quiet."""
    parser.add_argument("--quiet", action="store_true", help="no progress and no messages, only results and errors")


def add_reading_flags(
    parser: argparse.ArgumentParser,
    labels: bool,
    format_flag: str = "--format",
    split: str = "train",
    on_error: str = "stop",
) -> None:
    """Add the flags that say how to read a file of documents."""
    add = parser.add_argument_group("reading files").add_argument
    add(
        format_flag,
        dest="input_format",
        choices=tuple(FORMATS),
        metavar="FORMAT",
        help=f"format of the file: {', '.join(FORMATS)}; default: detected from its name and content",
    )
    add(
        "--text-field",
        metavar="NAME[,NAME]",
        help="field(s) or column(s) with the text; default: text, or title and content",
    )
    add("--id-field", metavar="NAME", default="id", help="field or column with the id; default: id, else line number")
    if labels:
        add("--label-field", metavar="NAME", default="labels", help="field or column with the labels; default: labels")
        add(
            "--label-separator",
            metavar="TEXT",
            help="separator of labels within a string; default: ; in CSV, TSV and Parquet",
        )
    add("--first-index", type=int, choices=(0, 1), default=0, help="index of the first feature in svmlight files [0]")
    add(
        "--split",
        choices=("train", "test"),
        default=split,
        help=f"which documents to take from a directory that holds both [{split}]",
    )
    add(
        "--on-error",
        choices=("stop", "skip"),
        default=on_error,
        help=f"stop at the first bad document, or skip bad documents and count them [{on_error}]",
    )


def read_options(arguments: argparse.Namespace) -> ReadOptions:
    """Turn the reading flags of a command into options."""
    fields = arguments.text_field.split(",") if arguments.text_field else None
    return ReadOptions(
        text_field=fields[0] if fields and len(fields) == 1 else (tuple(fields) if fields else None),
        label_field=getattr(arguments, "label_field", "labels"),
        label_separator=getattr(arguments, "label_separator", None),
        id_field=arguments.id_field,
        format=arguments.input_format,
        on_error=arguments.on_error,
        split=arguments.split,
        first_index=arguments.first_index,
    )
