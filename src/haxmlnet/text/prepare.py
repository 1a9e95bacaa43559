"""`prepare`: files to prepared corpora, in a directory or in the cache under the checksum of their content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from haxmlnet.data.arrays import DESCRIPTION, new_directory_beside, remove_directory
from haxmlnet.data.cache import Cache, content_key
from haxmlnet.data.document_files import iterate_documents
from haxmlnet.data.documents import DEFAULT_OPTIONS, Document, ReadOptions, SkipReport
from haxmlnet.data.formats.recognition import find_file, recognize_format
from haxmlnet.data.formats.registry import FORMATS
from haxmlnet.data.formats.source import STANDARD_INPUT, open_source
from haxmlnet.data.in_memory_tables import documents_of_table
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import DataError
from haxmlnet.progress import Progress
from haxmlnet.text.corpus_builder import prepare_documents
from haxmlnet.version import __version__

# To be raised when the same files would be prepared differently.
PREPARATION_VERSION = 1


def prepare(
    source: Any,
    directory: str | Path | None = None,
    options: ReadOptions = DEFAULT_OPTIONS,
    *,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> PreparedCorpus:
    """Read labeled documents in pieces into memory-mapped arrays of word and label ids, to fit models on.

    The source is a file, a directory, or a table in memory (pandas, polars, Arrow, `datasets`). They are written to
    `directory`. Without one, files are kept in the cache (by default in the user's cache folder), where the same
    content is found again; standard input ("-") and tables are kept in memory. A directory that holds a prepared
    corpus already is opened.
    """
    progress = progress or Progress()
    target = None if directory is None else Path(directory)
    if not isinstance(source, str | Path):
        name = type(source).__name__
        return _Job(name, lambda report: documents_of_table(source, options, report=report), progress).run(target)
    if (Path(source) / DESCRIPTION).is_file():
        return PreparedCorpus.open(source)

    file = str(find_file(source, options))
    job = _Job(file, lambda report: iterate_documents(file, options, with_labels=True, report=report), progress)
    is_pipe = Path(file).exists() and not Path(file).is_file() and not Path(file).is_dir()
    if file == STANDARD_INPUT or is_pipe:
        return job.run(target)

    key, n_documents = _identify(Path(file), options, progress)
    job = replace(job, n_documents=n_documents)
    return _prepare_in_cache(Cache.at(cache), key, job) if target is None else job.run(target)


@dataclass(frozen=True)
class _Job:
    """Documents to prepare."""

    name: str
    read: Callable[[SkipReport], Iterator[Document]]
    progress: Progress
    n_documents: int | None = None
    """None if that is not known beforehand."""

    def fill(self, directory: Path | None) -> PreparedCorpus:
        """Prepare the documents in a new directory, or in memory."""
        report = SkipReport()
        with self.progress.stage("words", self.n_documents, "documents") as advance:
            return prepare_documents(self.read(report), directory, self.name, report, advance)

    def run(self, directory: Path | None) -> PreparedCorpus:
        """Prepare the documents in a directory that may hold a prepared corpus already, or in memory."""
        if directory is None:
            return self.fill(None)
        is_ours = directory.is_dir() and ((directory / DESCRIPTION).is_file() or not any(directory.iterdir()))
        if directory.exists() and not is_ours:
            raise DataError(f"{directory}: exists and is no prepared corpus, so it is not overwritten. Choose another.")
        try:
            with new_directory_beside(directory) as temporary:
                self.fill(temporary)
                if directory.exists():
                    remove_directory(directory)
        except OSError as error:
            raise DataError(f"{directory}: cannot be written ({error.strerror or error}).") from None
        return PreparedCorpus.open(directory)


def _identify(file: Path, options: ReadOptions, progress: Progress) -> tuple[str, int | None]:
    """Compute a checksum of all that decides the outcome, and the number of documents where each is a line."""
    with open_source(file) as source:
        form = recognize_format(source, options, True)
        has_lines = not source.packing and not source.is_parquet and form != "huggingface"
    facts = {
        "preparation": [PREPARATION_VERSION, __version__],
        "options": {**asdict(options), "format": form},
    }
    files = FORMATS[form].list_files(file)
    n_megabytes = sum(path.stat().st_size for path in files) // 1_000_000
    with progress.stage("checksum", n_megabytes, "MB") as advance:
        key, n_lines = content_key(files, facts, lambda n: advance(n / 1e6))
    return key, n_lines if has_lines else None


def _prepare_in_cache(cache: Cache, key: str, job: _Job) -> PreparedCorpus:
    """Open the corpus in the cache, or prepare it there; in memory if the cache cannot be written."""
    is_new = False

    def fill(directory: Path) -> None:
        nonlocal is_new
        is_new = True
        job.fill(directory)

    try:
        corpus = cache.corpus(key, fill, job.progress)
    except OSError as error:
        job.progress.say(f"{cache.directory}: cannot be written ({error.strerror or error}), so nothing is kept there.")
        return job.fill(None)
    if not is_new:
        job.progress.say(f"{job.name} was prepared before; opened {corpus.directory}")

    # The entry may have been made from a file of another name: its messages should speak of this one.
    messages = [
        f"{job.name}{message.removeprefix(corpus.source)}" if message.startswith(corpus.source) else message
        for message in corpus.skipped.messages
    ]
    return replace(corpus, source=job.name, skipped=SkipReport(corpus.skipped.n_skipped, messages))
