"""Parquet tables, read and written some rows at a time.

id: string | text: string  | labels: list<string>, or strings as in CSV
id-1       | first text    | ["a", "b"]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from haxmlnet.data.documents import Document, ReadOptions
from haxmlnet.data.formats.arrow_rows import (
    BATCH_ROWS,
    Rows,
    explain_arrow,
    find_metadata_classes,
    iterate_records,
    make_schema,
    rows_to_documents,
    select_typed_columns,
    write_batches,
)
from haxmlnet.data.formats.format import Format
from haxmlnet.data.formats.source import PACKED_SUFFIXES, Source
from haxmlnet.data.output_files import replace_file
from haxmlnet.errors import DataError, SettingError

_BUFFER_SIZE = 1 << 20  # without one, pyarrow reads a column of a whole row group at once


def read_parquet(source: Source, options: ReadOptions, with_labels: bool) -> Iterator[Document | DataError]:
    """Read a table whose label column has lists of strings, or strings as in CSV."""
    if not source.is_parquet:
        raise source.error(f"not a Parquet file, got {source.head[:4]!r} at its start. Choose another --format.")
    if source.packing:
        raise source.error(f"a Parquet file within {source.packing}. Unpack it: Parquet is compressed already.")
    if source.path is None:
        raise source.error("Parquet is read from its end, which a pipe does not have. Give a file.")
    import pyarrow.parquet as pq

    with explain_arrow(source.name, "Parquet"):
        file = pq.ParquetFile(source.path, page_checksum_verification=True, buffer_size=_BUFFER_SIZE)
    with file:
        schema = file.schema_arrow
        classes = find_metadata_classes(schema, options.label_field)
        columns = select_typed_columns(schema, options, with_labels, classes is not None, source.name)

        n_rows = 0
        with explain_arrow(source.name, "Parquet"):
            batches = file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False)
            rows = Rows(iterate_records(batches, columns), classes)
            for document in rows_to_documents(rows, source.name, options, with_labels):
                n_rows += 1
                yield document
        if n_rows != file.metadata.num_rows:
            raise source.error(f"the table ends after {n_rows} of {file.metadata.num_rows} rows. Copy the file again.")


def write_parquet(documents: Iterable[Document], path: Path) -> int:
    """Write a table with the columns id, text and labels."""
    import pyarrow.parquet as pq

    if path.suffix in PACKED_SUFFIXES:
        raise SettingError(f"{path}: Parquet is compressed by itself. Leave {path.suffix} out.")
    schema = make_schema()
    with (
        replace_file(path) as temporary,
        open(temporary, "wb") as stream,
        pq.ParquetWriter(stream, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        return write_batches(documents, writer, schema)


PARQUET = Format(read_parquet, write_parquet, suffixes=(".parquet", ".pq"), files=("{split}.parquet",))
