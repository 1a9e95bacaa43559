"""Tables and matrices that are intact as files, but hold what nobody expects."""

from __future__ import annotations

import io
import struct
import zipfile
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from tests.fuzz.mutations import change_number, cut_end, flip_bit, insert_piece
from tests.fuzz.samples import save_matrix


def make_parquet(rng: Random) -> tuple[bytes, int]:
    """Write a table with columns, types and pages that are not the usual ones; give its number of rows, too."""
    n_rows = rng.choice((0, 1, 3, 3, 7))
    columns = {}
    for name in rng.sample(("text", "labels", "id", "title", "content"), 4):
        values, type_ = rng.choice(COLUMNS)
        columns[name] = pa.array([values[i % len(values)] for i in range(n_rows)], type_)
    if rng.random() < 0.7:
        columns["text"] = pa.array(["some text", None if rng.random() < 0.2 else "täxt"] * n_rows)[:n_rows]
    names = list(columns)
    if rng.random() < 0.1:
        names[-1] = names[0]
    stream = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(list(columns.values()), names=names),
        stream,
        compression=rng.choice(("none", "snappy", "gzip", "zstd", "lz4", "brotli")),
        row_group_size=rng.choice((1, 2, 1000)),
        use_dictionary=rng.random() < 0.5,
        write_page_checksum=rng.random() < 0.5,
        data_page_version=rng.choice(("1.0", "2.0")),
    )
    return stream.getvalue(), n_rows


COLUMNS: list[tuple[list[Any], Any]] = [
    (["a;b", "x", ""], pa.string()),
    (["a;b", None], pa.large_string()),
    (["a", "b"], pa.dictionary(pa.int32(), pa.string())),
    (['["a", "b"]', "[a]", "[]"], pa.string()),
    ([["a", "b"], [], ["c"]], pa.list_(pa.string())),
    ([["a", None], None], pa.list_(pa.string())),
    ([["a"], ["b"]], pa.large_list(pa.large_string())),
    ([["a", "b"]], pa.list_(pa.string(), 2)),
    ([[1, 2], [3]], pa.list_(pa.int64())),
    ([[2**63], [0]], pa.list_(pa.uint64())),
    ([[1.5]], pa.list_(pa.float64())),
    ([[[1]]], pa.list_(pa.list_(pa.int8()))),
    ([[{"uri": "a"}]], pa.list_(pa.struct({"uri": pa.string()}))),
    ([1, None, 3], pa.int64()),
    ([1.5, float("nan")], pa.float64()),
    ([True, False], pa.bool_()),
    ([b"\xff\x00", b"text"], pa.binary()),
    ([None], pa.null()),
    ([{"a": 1}], pa.struct({"a": pa.int64()})),
    ([[("k", "v")]], pa.map_(pa.string(), pa.string())),
    ([0, 86_400_000], pa.timestamp("ms")),
]


def make_matrix(rng: Random) -> bytes:
    """Save arrays that are nearly a sparse matrix of four rows, or one in another sparse format."""
    if rng.random() < 0.3:
        matrix = sp.random(4, rng.choice((0, 1, 3)), density=0.5, random_state=rng.randrange(100))
        form = rng.choice((sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.bsr_matrix, sp.dia_matrix, sp.csr_array))
        return save_matrix(form(matrix), rng.random() < 0.5)
    if rng.random() < 0.1:  # two values, and a hundred million rows or columns, or more
        size = rng.choice((10**8, 2**40))
        shape = (size, 3) if rng.random() < 0.7 else (4, size)
        huge = sp.coo_matrix((np.ones(2, np.float32), (np.array([0, 3]), np.array([0, 2]))), shape)
        return save_matrix(huge if shape[0] > 4 or size > 10**8 else rng.choice((huge, huge.tocsr())))
    members: dict[str, Any] = {
        "data": np.ones(4, rng.choice(("f4", "f8", "?", "i8", "c16", "U3"))),
        "indices": np.array([0, 2, 1, 0], rng.choice(("i4", "i8", "u1", "f8"))),
        "indptr": np.array([0, 2, 2, 3, 4], rng.choice(("i4", "i8", "f4"))),
        "shape": np.array([4, 3]),
        "format": np.array(b"csr"),
    }
    name = rng.choice(list(members))
    match rng.randrange(6):
        case 0:
            del members[name]
        case 1:
            members[name] = np.array(rng.choice((-1, 2**40, 1.5, "csr", b"xyz", b"coo", [], [[1]], [9] * 9)))
        case 2:
            members["indices"][rng.randrange(4)] = rng.choice((3, 200))
        case 3:
            members["indptr"][rng.randrange(5)] = rng.choice((0, 1, 9))
        case 4:
            members["shape"] = np.array(
                rng.choice(([3, 3], [5, 3], [4, 2], [2**40, 3], [4, 2**40], [-4, 3], [4], [4, 3, 1]))
            )
    stream = io.BytesIO()
    (np.savez if rng.random() < 0.5 else np.savez_compressed)(stream, **members)
    return stream.getvalue() if rng.random() < 0.5 else damage_member(stream.getvalue(), rng)


def damage_member(archive: bytes, rng: Random) -> bytes:
    """Damage one array of the archive, and make its checksum right again."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(stream, "w") as new:
        chosen = rng.choice(old.namelist())
        for name in old.namelist():
            content = old.read(name)
            if name == chosen:
                mutation = rng.choice((replace_header, flip_bit, insert_piece, cut_end, change_number))
                content = mutation(content, rng, b"")
            new.writestr(name, content)
    return stream.getvalue()


def replace_header(content: bytes, rng: Random, other: bytes) -> bytes:
    """Replace the header of an array: a dtype, an order or a shape that its bytes do not have."""
    header = f"{{'descr': {rng.choice(DTYPES)}, 'fortran_order': {rng.choice(('True', 'False', '1'))}, "
    header += f"'shape': {rng.choice(SHAPES)}, }}\n"
    size = struct.pack("<H", len(header) + rng.choice((0, 0, 0, 7, -3)))
    return b"\x93NUMPY" + rng.choice((b"\x01\x00", b"\x01\x00", b"\x09\x00")) + size + header.encode() + content[128:]


DTYPES = ["'<f8'", "'|O'", "'<i4'", "'|V9'", "'<U1000000'", "[('a', '<f8')]", "'<m8'", "'x'", "3", "'|S0'"]
SHAPES = ["(4,)", "(5,)", "()", "(2, 2)", "(-1,)", f"({10**11},)", f"({10**22},)", "4", "(4, 0)", "(1.5,)"]
