"""What is read and how: `Document`, `ReadOptions`, and `SkipReport` for the documents left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from haxmlnet.errors import DataError, SettingError

MAX_MESSAGES = 10


class Document(NamedTuple):
    """A text with its labels; without an id of its own, the id is its 1-based line or row number."""

    id: str
    text: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ReadOptions:
    """How the fields of an input file are named and what happens to documents that cannot be used."""

    text_field: str | tuple[str, ...] | None = None
    """Several are joined by newlines. None: "text", else "content", after the "title" where there is one."""
    label_field: str = "labels"
    label_separator: str | None = None
    """Splits label strings; None: JSON needs lists, and CSV and TSV cells are JSON lists or split at ";"."""
    id_field: str = "id"
    format: str | None = None
    """A name in `FORMATS`; None: told by the file's name, else by its content."""
    on_error: Literal["stop", "skip"] = "stop"
    split: Literal["train", "test"] = "train"
    """Which documents are meant where a directory is given that holds both."""
    first_index: Literal[0, 1] = 0
    """The number of the first feature in svmlight files: 1 if they count from 1."""

    def __post_init__(self) -> None:
        if self.on_error not in ("stop", "skip"):
            raise SettingError(f"on_error must be 'stop' or 'skip', got {self.on_error!r}.")
        if self.split not in ("train", "test"):
            raise SettingError(f"split must be 'train' or 'test', got {self.split!r}.")
        if self.first_index not in (0, 1):
            raise SettingError(f"first_index must be 0 or 1, got {self.first_index!r}.")
        if self.label_separator == "":
            raise SettingError("label_separator must not be empty. Leave it out for lists of labels.")
        if self.text_field in ("", ()):
            raise SettingError("text_field must name a field. Leave it out for 'text', or 'title' and 'content'.")


DEFAULT_OPTIONS = ReadOptions()


@dataclass
class SkipReport:
    """How many documents were left out, and the first reasons why."""

    n_skipped: int = 0
    messages: list[str] = field(default_factory=list)

    def add(self, error: DataError) -> None:
        """Count a document left out and keep its message if it is among the first."""
        self.n_skipped += 1
        if len(self.messages) < MAX_MESSAGES:
            self.messages.append(str(error))
