"""`haxmlnet convert`: write documents in another format."""

from __future__ import annotations

import argparse

from haxmlnet.cli.flags import add_reading_flags, read_options
from haxmlnet.data import FEATURE_OUTPUT_FORMATS, OUTPUT_FORMATS, write_documents, write_features
from haxmlnet.data.formats.recognition import choose_output_format
from haxmlnet.errors import SettingError

SUMMARY = "write documents in another format"
DESCRIPTION = """\
Read documents with labels in any format and write them in another. The name of OUT determines its format:
.jsonl, .csv, .tsv, .parquet, .fasttext, NAME_texts.txt (labels go to NAME_labels.txt), trn.json or tst.json (labels
go to lbl.json), X.NAME.txt (labels go to Y.NAME.npz); .gz and .zst compress. Sparse files, which have no texts, go
to NAME.txt, NAME_X_Xf.txt (labels go to NAME_X_Y.txt) or X.NAME.npz (labels go to Y.NAME.npz).
Nothing is lost: a document that the format cannot represent ends the conversion, and OUT stays as it was.
"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("input", metavar="IN", help="file or directory of documents, or - for standard input")
    parser.add_argument("output", metavar="OUT", help="file to write")
    formats = (*OUTPUT_FORMATS, *FEATURE_OUTPUT_FORMATS)
    parser.add_argument(
        "--to",
        choices=formats,
        metavar="FORMAT",
        help=f"format of OUT: {', '.join(formats)}; default: determined by its name",
    )
    parser.add_argument("--drop-ids", action="store_true", help="renumber the documents in formats without ids")
    add_reading_flags(parser, labels=True)


def run(arguments: argparse.Namespace) -> None:
    """Read, write, count."""
    from haxmlnet.cli.console import count_items, make_progress, report_skipped
    from haxmlnet.data import SkipReport, is_sparse, iterate_documents, read_features

    source, out, options = arguments.input, arguments.output, read_options(arguments)
    sparse = is_sparse(source, options)
    if arguments.to in (OUTPUT_FORMATS if sparse else FEATURE_OUTPUT_FORMATS):
        content = "features, not texts" if sparse else "texts, not features"
        raise SettingError(f"{source}: has {content}, which {arguments.to} cannot hold. Choose another --to.")
    progress, report = make_progress(arguments.quiet), SkipReport()
    with progress.stage("convert", None, "documents") as advance:
        if sparse:
            form = choose_output_format(out, arguments.to, FEATURE_OUTPUT_FORMATS)
            corpus = read_features(source, options, report=report)
            n_documents = write_features(corpus, out, form, arguments.drop_ids)
        else:
            form = choose_output_format(out, arguments.to)
            documents = iterate_documents(source, options, with_labels=True, report=report)
            n_documents = write_documents(count_items(documents, advance), out, form, arguments.drop_ids)
    report_skipped(report, progress)
    progress.say(f"{n_documents} documents written to {out} as {form}")
