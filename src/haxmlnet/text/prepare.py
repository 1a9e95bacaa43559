"""Files to prepared corpora: kept in a directory, or in the cache under the checksum of their content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from haxmlnet.data import Document, ReadOptions, SkipReport, documents_of_table, find_file, iterate_documents
from haxmlnet.data.arrays import DESCRIPTION, new_directory_beside, remove_directory
from haxmlnet.data.cache import Cache, content_key
from haxmlnet.data.documents import DEFAULT_OPTIONS
from haxmlnet.data.formats.parallel import name_label_file
from haxmlnet.data.formats.pecos import name_target_file
from haxmlnet.data.formats.recognition import recognize_format
from haxmlnet.data.formats.source import STANDARD_INPUT, find_beside, open_source
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import DataError
from haxmlnet.progress import Progress
from haxmlnet.text.corpus_builder import prepare_documents
from haxmlnet.version import __version__

# To be raised when the same files would be prepared differently.
PREPARATION_VERSION = 1

Reader = Callable[[SkipReport], Iterator[Document]]


def prepare(
    source: Any,
    directory: str | Path | None = None,
    options: ReadOptions = DEFAULT_OPTIONS,
    *,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> PreparedCorpus:
    """Read labelled documents in pieces into memory-mapped arrays of word and label ids, to fit methods on.

    The source is a file, a directory, or a table in memory (pandas, polars, Arrow, `datasets`). They are written to
    `directory`. Without one, files are kept in the cache (by default in the user's folder of caches), where the same
    content is found again; standard input ("-") and tables are kept in memory. A directory that holds a prepared
    corpus already is opened.
    """
    progress = progress or Progress()
    if not isinstance(source, str | Path):
        return _prepared_stream(directory, _table_reader(source, options), type(source).__name__, progress)
    if (Path(source) / DESCRIPTION).is_file():
        return PreparedCorpus.open(source)
    file = find_file(source, options)
    if str(file) == STANDARD_INPUT or _is_pipe(Path(file)):
        return _prepared_stream(directory, _file_reader(str(file), options), str(file), progress)
    task = _FileTask.of(Path(file), options, progress)
    if directory is not None:
        return _prepared_in(Path(directory), task.fill)
    return task.renamed(_cached(Cache.at(cache), task, progress))


@dataclass(frozen=True)
class _FileTask:
    """A file to prepare, and the checksum of all that decides the outcome."""

    file: Path
    options: ReadOptions
    key: str
    n_lines: int | None
    """None where lines say nothing about the number of documents."""
    progress: Progress

    @classmethod
    def of(cls, file: Path, options: ReadOptions, progress: Progress) -> _FileTask:
        with open_source(file) as source:
            form = recognize_format(source, options, True)
            has_lines = not source.packing and not source.is_parquet and form != "huggingface"
        facts = {
            "preparation": [PREPARATION_VERSION, __version__],
            "options": {**asdict(options), "format": form},
        }
        files = companion_files(file, form)
        n_megabytes = sum(path.stat().st_size for path in files) // 1_000_000
        with progress.stage("checksum", n_megabytes, "MB") as advance:
            key, n_lines = content_key(files, facts, lambda n: advance(n / 1e6))
        return cls(file, options, key, n_lines if has_lines else None, progress)

    def fill(self, directory: Path | None) -> PreparedCorpus:
        file = str(self.file)
        return _fill(directory, _file_reader(file, self.options), file, self.n_lines, self.progress)

    def renamed(self, corpus: PreparedCorpus) -> PreparedCorpus:
        """Let the remarks of an entry made from a file of another name speak of this one."""
        name = str(self.file)
        messages = [
            f"{name}{message.removeprefix(corpus.source)}" if message.startswith(corpus.source) else message
            for message in corpus.skipped.messages
        ]
        return replace(corpus, source=name, skipped=SkipReport(corpus.skipped.n_skipped, messages))


def companion_files(file: Path, form: str) -> list[Path]:
    """List the files whose content decides what is read: the file itself, and those beside it that belong to it."""
    if form == "huggingface":
        return [file, *sorted(path for path in file.parent.iterdir() if path.is_file() and path != file)]
    labels, targets = name_label_file(file.name), name_target_file(file.name)
    names = {
        "xc": ["lbl.json"],
        "parallel": [labels] if labels else [],
        "pecos": [targets, "output-items.txt"] if targets else [],
    }
    beside = [find_beside(file, name) for name in names.get(form, [])]
    return [file, *(path for path in beside if path is not None)]


def _cached(cache: Cache, task: _FileTask, progress: Progress) -> PreparedCorpus:
    is_new = False

    def fill(directory: Path) -> None:
        nonlocal is_new
        is_new = True
        task.fill(directory)

    try:
        corpus = cache.corpus(task.key, fill, progress)
    except OSError as error:
        progress.say(f"{cache.directory}: cannot be written ({error.strerror or error}), so nothing is kept there.")
        return task.fill(None)
    if not is_new:
        progress.say(f"{task.file} was prepared before; opened {corpus.directory}")
    return corpus


def _is_pipe(file: Path) -> bool:
    return file.exists() and not file.is_file() and not file.is_dir()


def _file_reader(file: str, options: ReadOptions) -> Reader:
    return lambda report: iterate_documents(file, options, with_labels=True, report=report)


def _table_reader(table: Any, options: ReadOptions) -> Reader:
    return lambda report: documents_of_table(table, options, report=report)


def _prepared_stream(directory: str | Path | None, read: Reader, name: str, progress: Progress) -> PreparedCorpus:
    if directory is None:
        return _fill(None, read, name, None, progress)
    return _prepared_in(Path(directory), lambda path: _fill(path, read, name, None, progress))


def _prepared_in(directory: Path, fill: Callable[[Path], object]) -> PreparedCorpus:
    if directory.exists() and not (directory.is_dir() and _may_be_replaced(directory)):
        raise DataError(f"{directory}: exists and is no prepared corpus, so it is not overwritten. Choose another.")
    try:
        with new_directory_beside(directory) as temporary:
            fill(temporary)
            if directory.exists():
                remove_directory(directory)
    except OSError as error:
        raise DataError(f"{directory}: cannot be written ({error.strerror or error}).") from None
    return PreparedCorpus.open(directory)


def _may_be_replaced(directory: Path) -> bool:
    return (directory / DESCRIPTION).is_file() or not any(directory.iterdir())


def _fill(
    directory: Path | None, read: Reader, name: str, n_documents: int | None, progress: Progress
) -> PreparedCorpus:
    report = SkipReport()
    with progress.stage("words", n_documents, "documents") as advance:
        return prepare_documents(read(report), directory, name, report, advance)
