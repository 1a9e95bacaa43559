"""Read a damaged file as users do, and judge what comes: documents, a refusal, or what must never happen."""

from __future__ import annotations

import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.fuzz_cases import Case
from benchmarks.fuzz_counts import MUST_FAIL, json_documents, unpacked
from benchmarks.fuzz_samples import FILTER, VECTORS
from haxmlnet.data import FORMATS, Document, FeatureCorpus, ReadOptions, SkipReport, iterate_documents, read_features
from haxmlnet.data.filters import LabelPairs, filter_pairs, read_filter
from haxmlnet.errors import DataError
from haxmlnet.text.word_vectors import read_vectors

LONGEST_MESSAGE = 2_000
SECONDS = 5.0
WORDS = ["[PAD]", "[UNK]", "the", "text", "missing"]
Read = list[Document] | FeatureCorpus | LabelPairs | np.ndarray


class TimeIsUp(BaseException):
    """Reading took longer than it may; passes through every `except Exception`."""


@dataclass
class Result:
    """What came of a case: documents, a refusal, or what should not have happened."""

    outcome: Literal["read", "partly", "refused", "failed"]
    reason: str = ""
    """The message of a refusal; for a failure the first line says what it is, the rest where."""


def run_case(case: Case, folder: Path, seconds: float = SECONDS) -> Result:
    """Read the files of a case and judge what comes."""
    report = SkipReport()
    try:
        with _time_limit(seconds), _warnings_as_errors():
            read = _read(case, folder if case.path == "." else folder / case.path, report)
    except DataError as error:
        return _judged_refusal(str(error), folder)
    except TimeIsUp:
        return Result("failed", f"hang: no answer after {seconds:g} s\n{traceback.format_exc()}")
    except BaseException as failure:
        place = traceback.extract_tb(failure.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Result("failed", f"{type(failure).__name__} at {where}: {failure!s:.200}\n{traceback.format_exc()}")
    fault = _fault_of_number(case, read, report) or _fault_of(read, case.with_labels)
    if not fault and case.given_format == "jsonl" and case.path != ".":
        fault = _difference(read, json_documents(unpacked((folder / case.path).read_bytes()) or b"", case.with_labels))
    return Result("failed", fault) if fault else Result("partly" if report.n_skipped else "read")


def _read(case: Case, path: Path, report: SkipReport) -> Read:
    options = ReadOptions(format=case.given_format, on_error=case.on_error)
    if case.format == VECTORS:
        return read_vectors(path, WORDS, np.random.default_rng(0))
    if case.format == FILTER:
        others = sorted(file for file in path.parent.iterdir() if file.name.startswith("trn"))
        pairs = filter_pairs(others[0], options)
        return LabelPairs(read_filter(path)[:, 0], np.zeros(0, object)) if pairs is None else pairs
    if FORMATS[case.format].is_sparse:
        return read_features(path, options, with_labels=case.with_labels, report=report)
    return list(iterate_documents(path, options, with_labels=case.with_labels, report=report))


def _judged_refusal(message: str, folder: Path) -> Result:
    if len(message.splitlines()) != 1:
        return Result("failed", f"message of several lines\n{message!r}")
    if str(folder) not in message:
        return Result("failed", f"message without a file\n{message!r}")
    if len(message) > LONGEST_MESSAGE:
        return Result("failed", f"message of {len(message)} characters\n{message!r}")
    return Result("refused", message)


def _fault_of_number(case: Case, read: Read, report: SkipReport) -> str:
    # A row of features may be skipped for two faults, one in each of its files.
    n_skipped = read.n_skipped if isinstance(read, FeatureCorpus) else report.n_skipped
    n_found = len(read) + n_skipped
    if case.n_records == MUST_FAIL:
        return f"damage not seen\n{n_found} documents came from files that cannot be read to their end"
    if case.n_records is not None and n_found != case.n_records:
        return f"number of documents\n{case.n_records} records, but {len(read)} read, {n_skipped} skipped"
    if not len(read) and not isinstance(read, LabelPairs):
        return "no document and no error"
    if report.n_skipped < n_skipped or (n_skipped and case.on_error == "stop"):
        return "documents skipped without a word"
    if any(len(message.splitlines()) != 1 for message in report.messages):
        return f"skip message of several lines\n{report.messages!r}"
    return ""


def _fault_of(read: Read, with_labels: bool) -> str:
    if isinstance(read, FeatureCorpus):
        return _fault_of_features(read, with_labels)
    if isinstance(read, np.ndarray):
        return "" if read.ndim == 2 and np.isfinite(read).all() else f"vectors\n{read!r}"
    if isinstance(read, LabelPairs):
        return ""
    return next(filter(None, (_fault_of_document(document, with_labels) for document in read)), "")


def _difference(read: Read, expected: list[Document]) -> str:
    if read == expected:
        return ""
    assert isinstance(read, list)
    first = next(((a, b) for a, b in zip(read, expected, strict=False) if a != b), (len(read), len(expected)))
    return f"other documents than line by line\n{first!r:.600}"


def _fault_of_document(document: Any, with_labels: bool) -> str:
    if not isinstance(document, Document) or not isinstance(document.labels, tuple):
        return f"not a document\n{document!r:.300}"
    parts = (document.id, document.text, *document.labels)
    if not all(isinstance(part, str) for part in parts):
        return f"not a string\n{document!r:.300}"
    try:
        "".join(parts).encode()
    except UnicodeEncodeError:
        return f"half a character\n{document!r:.300}"
    if len(set(document.labels)) < len(document.labels) or not all(label.strip() for label in document.labels):
        return f"empty or double labels\n{document!r:.300}"
    return "" if with_labels or not document.labels else f"labels without being asked\n{document!r:.300}"


def _fault_of_features(corpus: FeatureCorpus, with_labels: bool) -> str:
    for name, matrix in (("features", corpus.features), ("targets", corpus.targets)):
        try:
            matrix.check_format(full_check=True)
        except ValueError as failure:
            return f"{name} that are no matrix\n{failure}"
        if not matrix.has_canonical_format or not np.isfinite(matrix.data).all() or not matrix.data.all():
            return f"{name} out of order, or with zeros, or not finite\n{matrix.data!r:.300}"
    if (corpus.targets.data != 1).any():
        return "targets other than 1"
    if len(corpus.labels) != len(corpus) or (corpus.label_names is not None and not all(corpus.label_names)):
        return "labels without names"
    if corpus.label_names is not None and len(set(corpus.label_names)) < len(corpus.label_names):
        return "labels with one name"
    return "" if with_labels or not corpus.targets.nnz else "labels without being asked"


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TimeIsUp

    previous = signal.signal(signal.SIGALRM, stop)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        signal.setitimer(signal.ITIMER_REAL, remaining, interval)  # the timer of whoever runs us


@contextmanager
def _warnings_as_errors() -> Iterator[None]:
    """Make an error of each warning, which is noise a user cannot act on; files left open are counted elsewhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)
        yield
