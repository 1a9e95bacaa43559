"""A cache beside a prepared corpus for what is computed of it: TF-IDF, label features, word vectors."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from haxmlnet.data.arrays import DESCRIPTION, GrowingArray, csr_view, map_array, open_or_fill, read_seal, seal
from haxmlnet.errors import DataError
from haxmlnet.progress import Progress
from haxmlnet.version import __version__

Arrays = dict[str, NDArray[Any]]
# Given a directory, or None for memory, makes the arrays anew.
MakeArrays = Callable[[Path | None], Arrays]


def cache_matrix(
    directory: Path | None,
    identity: Mapping[str, Any],
    n_columns: int,
    blocks: Callable[[], Iterable[sp.csr_array]],
    progress: Progress,
) -> sp.csr_array:
    """Open the matrix cached under its identity, or make it of blocks of rows; without a directory, in memory."""
    arrays = cache_arrays(directory, identity, lambda target: _stack(blocks(), target), progress)
    return csr_view(arrays["values"], arrays["columns"], arrays["bounds"], n_columns)


def cache_arrays(directory: Path | None, identity: Mapping[str, Any], make: MakeArrays, progress: Progress) -> Arrays:
    """Open the arrays cached under their identity, or make them; where nothing can be written, in memory."""
    if directory is None:
        return make(None)
    identity = {**identity, "version": __version__}

    def open_directory(target: Path) -> Arrays:
        facts = read_seal(target)
        if facts.get("identity") != identity:
            raise DataError(f"{target}: holds something else than its name says.")
        with suppress(OSError):  # the time of the last use, for whoever must make room
            os.utime(target / DESCRIPTION)
        return {name.removesuffix(".npy"): map_array(target / name) for name in facts["files"]}

    def fill(target: Path) -> None:
        make(target)
        seal(target, {"identity": identity})

    digest = hashlib.blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=8).hexdigest()
    target = directory / f"{str(identity['what']).replace(' ', '_')}-{digest}"
    try:
        return open_or_fill(target, open_directory, fill, progress.say)
    except OSError as error:
        progress.say(f"{target}: cannot be written ({error.strerror or error}), so it is not cached.")
        return make(None)


def _stack(blocks: Iterable[sp.csr_array], directory: Path | None) -> Arrays:
    growing = {
        name: GrowingArray(dtype, None if directory is None else directory / f"{name}.npy")
        for name, dtype in (("values", np.float32), ("columns", np.int32), ("bounds", np.int64))
    }
    growing["bounds"].append(np.zeros(1, np.int64))
    for block in blocks:
        growing["bounds"].append(growing["values"].size + block.indptr[1:].astype(np.int64))
        growing["values"].append(block.data)
        growing["columns"].append(block.indices)
    return {name: array.close() for name, array in growing.items()}
