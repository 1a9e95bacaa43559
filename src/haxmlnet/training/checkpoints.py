"""Checkpoints: what training has done so far, on disk, so that a killed process loses almost nothing."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from haxmlnet.errors import HaxmlnetError, ModelError
from haxmlnet.store import iterate_arrays, read_arrays, write_arrays, write_text
from haxmlnet.version import __version__

IDENTITY = "training.json"
# A training that is resumed may have others.
IRRELEVANT_SETTINGS = ("device", "n_jobs", "checkpoint_seconds", "check_memory")
# States are at least so many times their own writing time apart: large ones take long, and training must go on.
MAX_SHARE = 20
# What a killed process leaves half written: our temporary names, and those of safetensors.
LEFTOVERS = (f"{IDENTITY}.tmp", "*.safetensors.tmp", ".tmp??????")


@dataclass
class Checkpoints:
    """A directory with the finished parts of a training and the latest state of the unfinished one.

    Training skips finished parts, and `Trainer.run` continues the unfinished one; both ask here. A part is named (for
    example `tree 0 level 1`). Each write goes to a temporary name and is renamed.
    """

    directory: Path
    seconds: float
    """Least time between two states of an unfinished part."""
    _written: float = field(default_factory=time.monotonic)
    _cost: float = 0.0

    @classmethod
    def start(cls, directory: str | Path, identity: Mapping[str, str], seconds: float, resume: bool) -> Checkpoints:
        """Open the directory: empty for a new training, or with what an interrupted one left there."""
        path = Path(directory)
        if any(path.glob("*.safetensors")):
            if not resume and not (path / IDENTITY).exists():
                raise ModelError(f"{path}: holds files that are no checkpoints. Choose an empty directory.")
            if not resume:
                raise ModelError(
                    f"{path}: holds an unfinished training. Go on with --resume, or delete it to start anew."
                )
            _check_identity(path, identity)
        try:
            path.mkdir(parents=True, exist_ok=True)
            _unlink_all(path, LEFTOVERS)
            if not any(path.glob("*.safetensors")):
                _rename_after(path / IDENTITY, lambda file: write_text(file, json.dumps(dict(identity), indent=2)))
        except OSError as error:
            raise ModelError(f"{path}: cannot be written ({error.strerror or error}).") from None
        return cls(path, seconds)

    def finished(self, part: str) -> dict[str, NDArray[Any]] | None:
        """Return the arrays of a finished part, or None."""
        file = self.directory / f"{part}.safetensors"
        return read_arrays(file) if file.exists() else None

    def finish(self, part: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the result of a part, and drop its unfinished state."""
        self._write(f"{part}.safetensors", arrays)
        self._state_file(part).unlink(missing_ok=True)
        self._drop_weights(part, but=0)

    def due(self) -> bool:
        """Return whether it is time for the next state."""
        return time.monotonic() - self._written >= max(self.seconds, MAX_SHARE * self._cost)

    def save_state(self, part: str, arrays: Mapping[str, NDArray[Any]], weights_step: int = 0) -> None:
        """Keep the state of an unfinished part in the place of the one before, and of kept weights those it needs."""
        started = time.monotonic()
        self._write(self._state_file(part).name, arrays)
        self._drop_weights(part, but=weights_step)
        self._written = time.monotonic()
        self._cost = self._written - started if self.seconds > 0 else 0.0

    def state(self, part: str) -> dict[str, NDArray[Any]] | None:
        """Return the latest state of an unfinished part, or None."""
        file = self._state_file(part)
        return read_arrays(file) if file.exists() else None

    def keep_weights(self, part: str, step: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep weights of an unfinished part as they are after a step.

        Those of other steps stay until the next state: the state on disk may need them.
        """
        self._write(self._weights_file(part, step).name, arrays)

    def weights(self, part: str, step: int) -> Iterator[tuple[str, NDArray[Any]]]:
        """Read the weights kept after a step, one array after the other."""
        return iterate_arrays(self._weights_file(part, step))

    def remove(self) -> None:
        """Delete the checkpoints, and the directory if it holds nothing else: the model is saved."""
        with suppress(OSError):
            _unlink_all(self.directory, ("*.safetensors", IDENTITY, *LEFTOVERS))
            self.directory.rmdir()

    def remove_if_empty(self) -> None:
        """Delete the directory if training has left nothing in it that could be resumed."""
        if not any(self.directory.glob("*.safetensors")):
            self.remove()

    def _state_file(self, part: str) -> Path:
        return self.directory / f"{part}.unfinished.safetensors"

    def _weights_file(self, part: str, step: int) -> Path:
        return self.directory / f"{part}.best.{step}.safetensors"

    def _drop_weights(self, part: str, but: int) -> None:
        for file in self.directory.glob(f"{part}.best.*.safetensors"):
            if file != self._weights_file(part, but):
                file.unlink(missing_ok=True)

    def _write(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        try:
            _rename_after(self.directory / name, lambda file: write_arrays(file, arrays))
        except OSError as error:
            reason = error.strerror or error
            raise ModelError(
                f"{self.directory}: the checkpoint cannot be written ({reason}). Make room, then go on with --resume."
            ) from None


def training_identity(
    settings: Mapping[str, Any], corpus_digest: str, validation: Iterable[NDArray[Any]], vectors: str | None = None
) -> dict[str, str]:
    """Return checksums of all that decides the outcome of a training, the file of word vectors among it.

    A training that is resumed must have the same.
    """
    chosen = {name: value for name, value in settings.items() if name not in IRRELEVANT_SETTINGS}
    chosen |= {"haxmlnet version": __version__, "torch version": torch.__version__}
    documents = hashlib.sha256(corpus_digest.encode())
    for array in validation:
        documents.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    if vectors is not None:
        try:
            with open(vectors, "rb") as stream:
                documents.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError:  # the business of whoever reads it: here it only has to differ from one that is there
            documents.update(b"missing")
    return {"settings": json.dumps(chosen, sort_keys=True), "data": documents.hexdigest()}


def _check_identity(path: Path, identity: Mapping[str, str]) -> None:
    try:
        content = json.loads((path / IDENTITY).read_text("utf-8"))
        before, data = json.loads(content["settings"]), content["data"]
    except (OSError, ValueError, KeyError, TypeError):
        raise HaxmlnetError(f"{path}: holds no training that could be resumed. Delete it to start anew.") from None
    if data != identity["data"]:
        raise HaxmlnetError(f"{path}: was made from other training data. Give the same, or delete it to start anew.")
    now = json.loads(identity["settings"])
    different = [name for name in now if before.get(name) != now[name]]
    if different:
        name = different[0]
        raise HaxmlnetError(
            f"{path}: was made with {name} {before.get(name)!r}, now it is {now[name]!r}. "
            "Give the same settings, or delete it to start anew."
        )


def _unlink_all(path: Path, patterns: Iterable[str]) -> None:
    for file in [file for pattern in patterns for file in path.glob(pattern)]:
        file.unlink(missing_ok=True)


def _rename_after(file: Path, write: Any) -> None:
    temporary = file.with_name(file.name + ".tmp")
    write(temporary)
    os.replace(temporary, file)
