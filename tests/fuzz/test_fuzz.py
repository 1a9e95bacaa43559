"""The fuzz run finds what is planted, counts records rightly, and gives the same cases for the same seed."""

import json
import os
import signal
import time
from pathlib import Path
from random import Random

import pytest
from tests.fuzz import campaign
from tests.fuzz.__main__ import OUTCOMES, main
from tests.fuzz.campaign import fuzz
from tests.fuzz.cases import Case, load_case, make_case, save_case
from tests.fuzz.judge import run_case
from tests.fuzz.mutations import MUTATIONS, RARE_MUTATIONS, keep_whole
from tests.fuzz.records import COUNTED, MUST_FAIL, count_records, parse_json_lines
from tests.fuzz.samples import READABLE, Sample, all_samples, write_files

from haxmlnet.data import FORMATS, Document
from haxmlnet.errors import DataError

# Newer Python versions warn of forking beside the threads of libraries; the workers start none.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
N_FILES = 60


@pytest.fixture(scope="module")
def samples():
    return all_samples()


@pytest.fixture
def plant(monkeypatch, samples):
    """Let the reader of JSON lines go wrong with every file that is damaged."""
    heads = [content for sample in samples["jsonl"] for content in sample.files.values()]

    def plant_reader(faulty):
        original = FORMATS["jsonl"]

        def read(source, options, with_labels):
            whole = source.head in heads
            return (original.read if whole else faulty)(source, options, with_labels)

        monkeypatch.setitem(FORMATS, "jsonl", original._replace(read=read))
        return original.read

    return plant_reader


def kinds_found(tmp_path, n_files=N_FILES):
    tally = fuzz(n_files, 0, 2, tmp_path, ["jsonl"])
    assert sum(tally.outcomes["jsonl"][outcome] for outcome in OUTCOMES) == n_files
    return {kind for _, kind in tally.failures}


def test_every_format_has_samples_that_are_read(samples):
    assert samples.keys() == set(READABLE)
    campaign.check_samples(samples)


def test_a_format_without_a_sample_is_not_passed_over(monkeypatch, tmp_path):
    monkeypatch.setattr(campaign, "READABLE", (*READABLE, "new"))
    with pytest.raises(SystemExit, match="no sample of new"):
        fuzz(10, 0, 1, tmp_path)


def test_good_readers_pass(tmp_path, capsys):
    arguments = ["--files", "400", "--workers", "2", "--out", str(tmp_path), "--format", "jsonl", "--format", "tsv"]
    assert main(arguments) == 0
    *table, last = capsys.readouterr().out.splitlines()
    summary = json.loads(last)
    assert [row.split()[0] for row in table] == ["format", "jsonl", "tsv"]
    assert summary["files"] == 400 == sum(summary[outcome] for outcome in OUTCOMES)
    assert summary["failed"] == 0
    assert min(summary["read"], summary["partly"], summary["refused"], summary["counted"]) > 30
    assert list(tmp_path.iterdir()) == []


def test_another_exception_is_a_failure_that_can_be_read_again(plant, tmp_path, capsys):
    def faulty(source, options, with_labels):
        raise KeyError("planted")

    plant(faulty)
    (kind,) = kinds_found(tmp_path)
    assert kind.startswith("KeyError at test_fuzz.py:")
    folders = list(tmp_path.iterdir())
    assert len(folders) == campaign.SAVED_OF_A_KIND
    assert main(["--again", str(folders[0])]) == 1
    assert "KeyError" in capsys.readouterr().out


def test_a_document_lost_in_silence_is_a_failure(plant, tmp_path):
    def faulty(source, options, with_labels):
        documents = list(original(source, options, with_labels))
        return iter(documents[:-1] if len(documents) > 1 else documents)

    original = plant(faulty)
    assert "number of documents" in kinds_found(tmp_path)


@pytest.mark.parametrize(
    ("message", "kind"),
    [("no name in it", "message without a file"), ("{name}: two\nlines", "message of several lines")],
)
def test_a_poor_message_is_a_failure(plant, tmp_path, message, kind):
    def faulty(source, options, with_labels):
        raise DataError(message.format(name=source.name))

    plant(faulty)
    assert kinds_found(tmp_path) == {kind}


def test_a_process_that_dies_is_a_failure_and_the_others_go_on(plant, tmp_path):
    def faulty(source, options, with_labels):
        if b"first" in source.head:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(source, options, with_labels)

    original = plant(faulty)
    assert kinds_found(tmp_path, n_files=20) == {f"crash: the process ended with {-signal.SIGKILL}"}


def test_a_hang_is_a_failure(plant, tmp_path):
    def faulty(source, options, with_labels):
        time.sleep(60)

    plant(faulty)
    case = Case("jsonl", "a.jsonl", "jsonl", True, "stop", None)
    write_files({"a.jsonl": b'{"text": "no sample", "labels": []}\n'}, tmp_path)
    assert run_case(case, tmp_path, seconds=0.2).reason.startswith("hang")


def test_a_hang_that_hears_no_signal_is_a_failure(plant, tmp_path, monkeypatch):
    def faulty(source, options, with_labels):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        time.sleep(60)

    plant(faulty)
    monkeypatch.setattr(campaign, "PATIENCE", 0.5)
    (kind,) = kinds_found(tmp_path, n_files=3)
    assert kind.startswith("hang")


def test_much_memory_for_a_small_file_is_a_failure(plant, tmp_path, monkeypatch):
    def faulty(source, options, with_labels):
        bytearray(b"x") * (200 << 20)
        return original(source, options, with_labels)

    original = plant(faulty)
    monkeypatch.setattr(campaign, "MEMORY_LIMIT", 50 << 20)
    # The system tells the peak of a process alone, so that only the first such file of a worker is seen.
    assert "memory" in kinds_found(tmp_path, n_files=6)


def test_a_number_and_a_seed_make_a_case(samples):
    first = [make_case(samples, 3, number) for number in range(200)]
    assert first == [make_case(samples, 3, number) for number in range(200)]
    assert first != [make_case(samples, 4, number) for number in range(200)]
    assert {case.format for case, _ in first} == set(READABLE)
    names = {name for _, files in first for name in files}
    assert {Path(name).suffix for name in names} >= {".gz", ".zst", ".npz", ".parquet", ".arrow", ".jsonl"}


def test_saved_cases_are_the_same_when_loaded(samples, tmp_path):
    for number in range(40):
        case, files = make_case(samples, 5, number)
        save_case(case, files, "reason", tmp_path / str(number))
        assert load_case(tmp_path / str(number)) == case
        assert all((tmp_path / str(number) / name).read_bytes() == content for name, content in files.items())


@pytest.mark.parametrize("mutation", [*MUTATIONS, *RARE_MUTATIONS], ids=lambda mutation: mutation.__name__)
def test_mutations_damage_files_and_bear_empty_ones(mutation, samples):
    content = next(iter(samples["jsonl"][0].files.values()))
    made = [mutation(content, Random(i), b"1,2\t3\n") for i in range(30)]
    assert (mutation is keep_whole) == all(damaged == content for damaged in made)
    assert all(isinstance(mutation(b"", Random(i), b""), bytes) for i in range(10))


@pytest.mark.parametrize(
    ("format_name", "content", "n_records"),
    [
        ("jsonl", b'\xef\xbb\xbf{}\n\n \t\r\n{"a": 1}', 2),
        ("jsonl", b"\x1f\x8bno gzip", MUST_FAIL),
        ("text", b"a\n\nb", 3),
        ("text", b"a\n\n", 2),
        ("fasttext", b"a\n \r\n\tb\n", 2),
        ("csv", b"text,labels\na,b\n\r\nc,d", 2),
        ("csv", b'text,labels\n"a\nb",c\n', None),
        ("svmlight", b"# none\n1 2:3\n\n1 2:3 # one\n", 2),
        ("xc-sparse", b"2 3 4\n1 1:1\n\n\n", 2),
        ("xc-sparse", b"2 3 4\n1 1:1\n", MUST_FAIL),
        ("xc-sparse", b"1 3 4\n1 1:1\n1 1:1\n", MUST_FAIL),
        ("xc-sparse", b"x 3 4\n1 1:1\n", MUST_FAIL),
        ("vectors", b"the 1 2\n", None),
    ],
)
def test_records_are_counted(format_name, content, n_records):
    assert count_records(Sample(format_name, {"a": b"a,b\n"}, 9), {"a": content}, True) == n_records


def test_json_lines_are_read_line_by_line():
    lines = [
        b'{"text": "t", "labels": ["a", 1, "1"]}',
        b"",
        b'{"id": 7, "title": "T", "content": "c", "labels": []}',
        b'{"text": "t", "labels": ["a", " "]}',
        b'{"text": null, "content": "c", "labels": []}',
        b'{"text": "t"}',
        b'{"text": "\\ud800", "labels": []}',
        b"[1]",
    ]
    expected = [Document("1", "t", ("a", "1")), Document("7", "T\nc", ())]
    assert parse_json_lines(b"\n".join(lines), True) == expected
    assert [document.id for document in parse_json_lines(b"\n".join(lines), False)] == ["1", "7", "4", "6"]


def test_documents_that_differ_from_those_line_by_line_are_a_failure(plant, tmp_path):
    def faulty(source, options, with_labels):
        for document in original(source, options, with_labels):
            yield document if isinstance(document, DataError) else document._replace(text=document.text + "?")

    original = plant(faulty)
    assert kinds_found(tmp_path) == {"other documents than line by line"}


def test_texts_and_labels_must_have_as_many_lines():
    sample = Sample("parallel", {}, 2)
    assert count_records(sample, {"a_texts.txt": b"a\nb\n", "a_labels.txt": b"x\n\n"}, True) == 2
    assert count_records(sample, {"a_texts.txt": b"a\nb\n", "a_labels.txt": b"x\n"}, True) == MUST_FAIL
    assert count_records(sample, {"a_texts.txt": b"a\nb\n", "a_labels.txt": b"x\n"}, False) == 2


def test_quoted_tables_are_counted_while_their_structure_is_the_same(samples):
    sample = next(sample for sample in samples["csv"] if b'"a ""' in sample.files.get("train.csv", b""))
    content = sample.files["train.csv"]
    assert count_records(sample, {"train.csv": content.replace(b"number", b"n9")}, True) == sample.n_documents
    assert count_records(sample, {"train.csv": content.replace(b'"a ""', b'x"a ""')}, True) is None


def test_records_can_be_counted_in_most_formats():
    assert set(READABLE) - COUNTED == {"parquet", "huggingface", "pecos-npz", "vectors"}


def test_a_case_whose_damage_must_be_seen_fails_when_it_is_not(samples, tmp_path):
    sample = samples["jsonl"][0]
    write_files(sample.files, tmp_path)
    case = Case("jsonl", next(iter(sample.files)), "jsonl", True, "stop", MUST_FAIL)
    assert run_case(case, tmp_path).reason.startswith("damage not seen")
