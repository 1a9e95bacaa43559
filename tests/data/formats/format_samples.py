"""One small file of each format of other tools, and what is read from it."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from haxmlnet.data import Document, ReadOptions, iterate_documents
from haxmlnet.errors import DataError

EXPECTED = [Document("1", "first text", ("a", "b")), Document("2", "zweiter Täxt", ())]
URIS = [Document("1", "first text", ("http://x/a", "http://x/b")), Document("2", "zweiter Täxt", ())]
XC_LABELS = '{"uid": "A", "title": "a"}\n{"uid": "B", "title": "same"}\n{"uid": "C", "title": "same"}\n'
TEXTS = "first text\nzweiter Täxt\n"


def npz(rows, n_columns=2, **options):
    stream = io.BytesIO()
    starts = np.cumsum([0, *map(len, rows)])
    columns = [column for row in rows for column in row]
    sp.save_npz(stream, sp.csr_matrix((np.ones(len(columns)), columns, starts), (len(rows), n_columns)), **options)
    return stream.getvalue()


def parquet(**columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream, write_page_checksum=True)
    return stream.getvalue()


def zstd(content, cut=None):
    return pa.Codec("zstd").compress(content, asbytes=True)[:cut]


def xc_line(uid, indices, **more):
    return json.dumps({"uid": uid, "title": "T", "content": "C", "target_ind": indices, **more}) + "\n"


# format: files, the first of which is read; is it recognised without --format; documents
READABLE = {
    "parquet": ({"a.parquet": parquet(text=["first text", "zweiter Täxt"], labels=[["a", "b"], []])}, True, EXPECTED),
    "parallel": ({"train_texts.txt": TEXTS, "train_labels.txt": "a b\n\n"}, True, EXPECTED),
    "pecos": ({"X.trn.txt": TEXTS, "Y.trn.npz": npz([[0, 1], []]), "output-items.txt": "a\nb\n"}, True, EXPECTED),
    "libmultilabel": ({"a.txt": "a b\tfirst text\n\tzweiter Täxt\n"}, False, EXPECTED),
    "fasttext": ({"a.txt": "__label__a __label__b first text\nzweiter Täxt\n"}, True, EXPECTED),
    "annif-tsv": ({"a.tsv": "first text\t<http://x/a> <http://x/b>\nzweiter Täxt\t\n"}, True, URIS),
    "annif-csv": (
        {"a.csv": "text,subject_uris\nfirst text,<http://x/a> http://x/b\nzweiter Täxt,\n"}, True, URIS,
    ),
    "annif-jsonl": (
        {"a.jsonl": '{"text": "first text", "subjects": [{"uri": "http://x/a", "label": "A"}, "<http://x/b>"]}\n'
                    '{"text": "zweiter Täxt", "subjects": []}\n'}, True, URIS,
    ),
    "xc": (
        {"trn.json": xc_line("d1", [0, 2]) + xc_line("d2", []), "lbl.json": XC_LABELS}, True,
        [Document("d1", "T\nC", ("a", "same (C)")), Document("d2", "T\nC", ())],
    ),
}  # fmt: skip


def read(path, with_labels=True, **options):
    return list(iterate_documents(path, ReadOptions(**options), with_labels=with_labels))


def message_of(path, **options):
    with pytest.raises(DataError) as caught:
        read(path, **options)
    return str(caught.value)


def assert_message(path, message, **options):
    """Check what a malformed file is told: one line, not too long, that begins like this."""
    shown = message_of(path, **options)
    assert shown.startswith(message)
    assert "\n" not in shown
    assert len(shown) < 250
    assert shown.endswith(".")
