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
from tests.fuzz.cases import Case
from tests.fuzz.records import MUST_FAIL, is_utf_8, parse_json_lines, unpack
from tests.fuzz.samples import FILTER, VECTORS

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
    """What came of a case."""

    outcome: Literal["read", "partly", "refused", "failed"]
    reason: str = ""
    """The message of a refusal; for a failure the first line says what it is, the rest where."""


def run_case(case: Case, folder: Path, seconds: float = SECONDS) -> Result:
    """Read the files of a case and judge what comes."""
    report = SkipReport()
    try:
        with time_limit(seconds), warnings.catch_warnings():
            warnings.simplefilter("error")  # noise that a user cannot act on
            warnings.simplefilter("ignore", ResourceWarning)  # files left open are counted elsewhere
            read = _read(case, folder if case.path == "." else folder / case.path, report)
    except DataError as error:
        return _judge_refusal(str(error), folder)
    except TimeIsUp:
        return Result("failed", f"hang: no answer after {seconds:g} s\n{traceback.format_exc()}")
    except BaseException as failure:
        place = traceback.extract_tb(failure.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return Result("failed", f"{type(failure).__name__} at {where}: {failure!s:.200}\n{traceback.format_exc()}")
    fault = check_count(case, read, report) or check_content(read, case.with_labels)
    if not fault and case.given_format == "jsonl" and case.path != ".":
        expected = parse_json_lines(unpack((folder / case.path).read_bytes()) or b"", case.with_labels)
        if read != expected:
            pairs = zip(read, expected, strict=False)
            first = next(((a, b) for a, b in pairs if a != b), (len(read), len(expected)))
            fault = f"other documents than line by line\n{first!r:.600}"
    return Result("failed", fault) if fault else Result("partly" if report.n_skipped else "read")


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TimeIsUp` inside the block when its time is over."""

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


def _judge_refusal(message: str, folder: Path) -> Result:
    if len(message.splitlines()) != 1:
        return Result("failed", f"message of several lines\n{message!r}")
    if str(folder) not in message:
        return Result("failed", f"message without a file\n{message!r}")
    if len(message) > LONGEST_MESSAGE:
        return Result("failed", f"message of {len(message)} characters\n{message!r}")
    return Result("refused", message)


def check_count(case: Case, read: Read, report: SkipReport) -> str:
    """Say what is wrong with the numbers of documents read and skipped."""
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


def check_content(read: Read, with_labels: bool) -> str:
    """Say what is wrong with documents, features or vectors in themselves."""
    if isinstance(read, LabelPairs):
        return ""
    if isinstance(read, np.ndarray):
        return "" if read.ndim == 2 and np.isfinite(read).all() else f"vectors\n{read!r}"
    if isinstance(read, FeatureCorpus):
        return check_features(read, with_labels)
    return next(filter(None, (check_document(document, with_labels) for document in read)), "")


def check_document(document: Any, with_labels: bool) -> str:
    """Say what is wrong with a document."""
    fault = ""
    if not isinstance(document, Document) or not isinstance(document.labels, tuple):
        fault = "not a document"
    elif not all(isinstance(part, str) for part in (document.id, document.text, *document.labels)):
        fault = "not a string"
    elif not is_utf_8(document):
        fault = "half a character"
    elif len(set(document.labels)) < len(document.labels) or not all(label.strip() for label in document.labels):
        fault = "empty or double labels"
    elif document.labels and not with_labels:
        fault = "labels without being asked"
    return fault and f"{fault}\n{document!r:.300}"


def check_features(corpus: FeatureCorpus, with_labels: bool) -> str:
    """Say what is wrong with features and their targets."""
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
