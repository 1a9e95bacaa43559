"""`haxmlnet convert`: write documents in another format."""

from __future__ import annotations

import argparse
from collections.abc import Container
from typing import Any

from haxmlnet.cli.flags import add_quiet_flag, add_reading_flags, read_options
from haxmlnet.data import FEATURE_OUTPUT_FORMATS, OUTPUT_FORMATS, write_documents, write_features
from haxmlnet.data.formats.recognition import choose_output_format
from haxmlnet.errors import SettingError

DESCRIPTION = """\
Read documents with labels in any format and write them in another one. The name of OUT tells its format:
.jsonl, .csv, .tsv, .parquet, .fasttext, NAME_texts.txt (labels go to NAME_labels.txt), trn.json or tst.json (labels
go to lbl.json), X.NAME.txt (labels go to Y.NAME.npz); .gz and .zst compress. Sparse files, which have no texts, go
to NAME.txt, NAME_X_Xf.txt (labels go to NAME_X_Y.txt) or X.NAME.npz (labels go to Y.NAME.npz).
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
    parser.add_argument(
        "--to",
        choices=(*OUTPUT_FORMATS, *FEATURE_OUTPUT_FORMATS),
        help="format of OUT; by default its name tells it",
    )
    parser.add_argument(
        "--drop-ids", action="store_true", help="allow formats without ids to number the documents anew"
    )
    add_quiet_flag(parser)
    add_reading_flags(parser, labels=True)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Read, write, count."""
    from haxmlnet.cli.console import chosen_progress, counted, say_skipped
    from haxmlnet.data import SkipReport, is_sparse, iterate_documents, read_features

    options, out = read_options(arguments), arguments.output
    progress, report = chosen_progress(arguments.quiet), SkipReport()
    with progress.stage("convert", None, "documents") as advance:
        if is_sparse(arguments.input, options):
            _refuse(arguments, OUTPUT_FORMATS, "features, not texts")
            form = choose_output_format(out, arguments.to, FEATURE_OUTPUT_FORMATS)
            corpus = read_features(arguments.input, options, report=report)
            n_documents = write_features(corpus, out, form, arguments.drop_ids)
        else:
            _refuse(arguments, FEATURE_OUTPUT_FORMATS, "texts, not features")
            form = choose_output_format(out, arguments.to)
            documents = iterate_documents(arguments.input, options, with_labels=True, report=report)
            n_documents = write_documents(counted(documents, advance), out, form, arguments.drop_ids)
    say_skipped(report, progress)
    progress.say(f"{n_documents} documents written to {out} as {form}")


def _refuse(arguments: argparse.Namespace, impossible: Container[str], what: str) -> None:
    if arguments.to in impossible:
        raise SettingError(f"{arguments.input}: has {what}, which {arguments.to} cannot hold. Choose another --to.")
