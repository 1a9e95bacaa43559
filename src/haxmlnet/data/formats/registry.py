"""The formats by name. A new one is a file beside this one, with a reader and perhaps a writer, and a line here."""

from __future__ import annotations

from haxmlnet.data.formats.annif import ANNIF_CSV, ANNIF_JSONL, ANNIF_TSV
from haxmlnet.data.formats.csv_tsv import CSV, TSV
from haxmlnet.data.formats.fasttext import FASTTEXT
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.huggingface import HUGGINGFACE
from haxmlnet.data.formats.jsonl import JSONL
from haxmlnet.data.formats.libmultilabel import LIBMULTILABEL
from haxmlnet.data.formats.parallel import PARALLEL
from haxmlnet.data.formats.parquet import PARQUET
from haxmlnet.data.formats.pecos import PECOS, PECOS_NPZ
from haxmlnet.data.formats.plain_text import PLAIN_TEXT
from haxmlnet.data.formats.xc_raw import XC_RAW
from haxmlnet.data.formats.xc_sparse import SVMLIGHT, XC_MATRICES, XC_SPARSE
from haxmlnet.errors import SettingError

FORMATS: dict[str, Format] = {
    "jsonl": JSONL,
    "csv": CSV,
    "tsv": TSV,
    "text": PLAIN_TEXT,
    "parquet": PARQUET,
    "huggingface": HUGGINGFACE,
    "parallel": PARALLEL,
    "xc": XC_RAW,
    "pecos": PECOS,
    "libmultilabel": LIBMULTILABEL,
    "fasttext": FASTTEXT,
    "annif-tsv": ANNIF_TSV,
    "annif-csv": ANNIF_CSV,
    "annif-jsonl": ANNIF_JSONL,
    "xc-sparse": XC_SPARSE,
    "xc-matrices": XC_MATRICES,
    "pecos-npz": PECOS_NPZ,
    "svmlight": SVMLIGHT,
}
OUTPUT_FORMATS = {name: form for name, form in FORMATS.items() if form.write is not None}
# The matrices come first: their names end with .txt, too.
FEATURE_OUTPUT_FORMATS = {name: FORMATS[name] for name in ("xc-matrices", "xc-sparse", "pecos-npz")}


def check_format(name: str) -> str:
    """Refuse a name that is no format."""
    if name not in FORMATS:
        raise SettingError(f"format must be one of {', '.join(FORMATS)}, got {name!r}.")
    return name
