"""`haxmlnet convert`: write documents in another format."""

from __future__ import annotations

import argparse
from typing import Any

from haxmlnet.cli.flags import add_quiet_flag, add_reading_flags, read_options
from haxmlnet.data.document_writers import OUTPUT_FORMATS, output_format, write_documents

DESCRIPTION = """\
Read documents with labels in any format and write them in another one. The name of OUT tells its format:
.jsonl, .csv, .tsv, .parquet, .fasttext, or NAME_texts.txt (labels go to NAME_labels.txt); .gz and .zst compress.
Nothing is lost: a document that the format cannot hold ends the conversion, and OUT stays as it was.
"""


def add_parser(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "convert",
        help="write documents in another format",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", metavar="IN", help="file or directory of documents, or - for standard input")
    parser.add_argument("output", metavar="OUT", help="file to write")
    parser.add_argument("--to", choices=tuple(OUTPUT_FORMATS), help="format of OUT; by default its name tells it")
    parser.add_argument(
        "--drop-ids", action="store_true", help="allow formats without ids to number the documents anew"
    )
    add_quiet_flag(parser)
    add_reading_flags(parser, labels=True)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, write, count."""
    from haxmlnet.cli.console import chosen_progress, counted, say_skipped
    from haxmlnet.data import SkipReport, iterate_documents

    form = output_format(arguments.output, arguments.to)
    progress, report = chosen_progress(arguments.quiet), SkipReport()
    documents = iterate_documents(arguments.input, read_options(arguments), with_labels=True, report=report)
    with progress.stage("convert", None, "documents") as advance:
        n_documents = write_documents(counted(documents, advance), arguments.output, form, arguments.drop_ids)
    say_skipped(report, progress)
    progress.say(f"{n_documents} documents written to {arguments.output} as {form}")
