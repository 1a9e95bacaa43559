"""Splits, results on disk, watched processes, and runs that are never repeated."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import benchmarks.running as running
import pytest
from benchmarks.configurations import CONFIGURATIONS, Configuration
from benchmarks.datasets import find_sets, in_dev, read_parts
from benchmarks.planning import Plan
from benchmarks.processes import Watched, watch
from benchmarks.records import append_record, read_records
from benchmarks.running import run_all

from haxmlnet.errors import DataError, SettingError
from haxmlnet.models import METHODS

WORDS = {"red": "apple rose blood", "blue": "sky sea ink", "green": "grass leaf lime"}


def write_lines(path: Path, documents: list[dict]) -> None:
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), "utf-8")


def documents(n: int, start: int = 0) -> list[dict]:
    names = list(WORDS)
    chosen = [(f"d{i}", names[i % 3]) for i in range(start, start + n)]
    return [{"id": i, "text": f"{WORDS[name]} thing", "labels": [name]} for i, name in chosen]


@pytest.fixture
def colors(tmp_path):
    directory = tmp_path / "data" / "colors"
    directory.mkdir(parents=True)
    write_lines(directory / "train.jsonl", documents(300))
    write_lines(directory / "test.jsonl", documents(9, 300))
    return directory


def plan_of(directory: Path, tmp_path: Path, **changes) -> Plan:
    values = {
        "sets": {directory.name: directory}, "names": ["OneVsRestSVM"], "seeds": [0], "split": "test", "changes": {},
        "threads": 1, "vectors": None, "work": tmp_path / "work", "results": tmp_path / "results.jsonl",
    }  # fmt: skip
    return Plan(**{**values, **changes})


def test_dev_is_a_part_of_train_that_depends_on_the_ids_alone(colors):
    parts = read_parts(colors, "dev")
    assert sorted(parts.train.ids + parts.judged.ids) == sorted(d["id"] for d in documents(300))
    assert 10 < len(parts.judged) < 60
    assert all(map(in_dev, parts.judged.ids))
    write_lines(colors / "train.jsonl", documents(300)[::-1])
    assert set(read_parts(colors, "dev").judged.ids) == set(parts.judged.ids)


def test_dev_does_not_open_the_test_file(colors):
    before = read_parts(colors, "dev").judged.ids
    (colors / "test.jsonl").write_text("no documents at all\n")
    assert read_parts(colors, "dev").judged.ids == before


def test_a_dev_file_is_dev_and_is_not_trained_on(colors):
    write_lines(colors / "dev.jsonl", documents(5, 400))
    dev, test = read_parts(colors, "dev"), read_parts(colors, "test")
    assert dev.judged.ids == test.dev.ids == [d["id"] for d in documents(5, 400)]
    assert len(dev.train) == len(test.train) == 300
    assert len(test.judged) == 9


def test_data_sets_are_folders_or_paths(colors):
    assert find_sets(["colors"], colors.parent) == {"colors": colors}
    assert find_sets([str(colors)], Path("elsewhere")) == {"colors": colors}
    assert find_sets([], colors) == {"colors": colors}
    with pytest.raises(DataError, match="shapes"):
        find_sets(["shapes"], colors.parent)


def test_the_newest_result_of_a_run_counts_and_a_torn_line_does_not(tmp_path):
    path = tmp_path / "results.jsonl"
    append_record(path, {"key": "a", "value": 1})
    append_record(path, {"key": "b", "value": 2})
    append_record(path, {"key": "a", "value": 3})
    with open(path, "a") as file:
        file.write('{"key": "c", "val')
    assert read_records(path) == [{"key": "b", "value": 2}, {"key": "a", "value": 3}]
    append_record(path, {"key": "d", "value": 4})
    assert [record["key"] for record in read_records(path)] == ["b", "a", "d"]


def test_a_broken_line_within_the_results_is_named(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"key": "a"}\nnonsense\n{"key": "b"}\n')
    with pytest.raises(DataError, match=r"results\.jsonl:2: "):
        read_records(path)


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


@needs_proc
def test_peak_memory_counts_children(tmp_path):
    hold = "import time; held = bytearray(b'x' * {}); time.sleep(0.6)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold.format(80_000_000)!r}])"
    watched = watch([sys.executable, "-c", code], tmp_path / "log", os.environ, tmp_path)
    assert watched.exit_code == 0
    assert 80e6 < watched.peak_memory < 180e6


def test_only_the_time_of_others_makes_the_machine_busy(tmp_path, monkeypatch):
    reads = iter([(0.0, 10.0, 1.0), (10.0, 14.0, 2.0)])  # clock, all processes, this one
    monkeypatch.setattr("benchmarks.processes.OthersClock._read", lambda _: next(reads))
    monkeypatch.setattr("benchmarks.processes.OthersClock.seconds", lambda _: 10.0)
    watched = watch([sys.executable, "-c", ""], tmp_path / "log", os.environ, tmp_path)
    assert watched.others_share * 10 * os.cpu_count() == pytest.approx(3)


@needs_proc
def test_an_interruption_ends_the_process_and_its_children(tmp_path, monkeypatch):
    pids = tmp_path / "pids"
    child = "import time; time.sleep(60)"
    code = (
        f"import os, subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {child!r}]);"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}'); child.wait()"
    )

    def interrupt(seconds):
        deadline = time.monotonic() + 20
        while not pids.exists() or len(pids.read_text().split()) < 2:
            assert time.monotonic() < deadline
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.processes.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        watch([sys.executable, "-c", code], tmp_path / "log", os.environ, tmp_path)
    monkeypatch.undo()
    for pid in map(int, pids.read_text().split()):
        assert is_gone(pid)


def is_gone(pid: int) -> bool:
    for _ in range(100):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_run_is_measured_and_never_repeated(colors, tmp_path, capsys):
    plan = plan_of(colors, tmp_path)
    leftovers = plan.work / "current"
    assert run_all(plan) == 0
    (record,) = read_records(plan.results)
    assert record["metrics"]["P@1"] == 100
    assert (record["n_train"], record["n_judged"], record["n_labels"]) == (300, 9, 3)
    for name in ("train_seconds", "peak_memory_mb", "batch_ms", "single_ms", "model_mb"):
        assert record[name] > 0
    assert record["versions"]["haxmlnet"]
    assert record["command"].startswith("python -m benchmarks run colors --methods OneVsRestSVM --seeds 0")
    assert list(leftovers.iterdir()) == []
    assert run_all(plan) == 0
    assert "finished before" in capsys.readouterr().err
    assert len(plan.results.read_text().splitlines()) == 1


def test_features_timed_on_a_busy_machine_are_made_again_unless_it_still_is(colors, tmp_path, monkeypatch):
    shares = iter([0.5, 0.0])

    def made(command, log, environment, directory):
        (tmp_path / "features.json").write_text('{"seconds": 1.0}')
        return Watched(0, 1.0, 0, next(shares))

    monkeypatch.setattr(running, "watch", made)
    plan = plan_of(colors, tmp_path)
    running.prepare_features(tmp_path, plan)
    running.prepare_features(tmp_path, plan_of(colors, tmp_path, busy=True))  # good enough where no times count
    running.prepare_features(tmp_path, plan)
    assert json.loads((tmp_path / "features.json").read_text())["others_share"] == 0
    running.prepare_features(tmp_path, plan)
    assert next(shares, "none left") == "none left"


@pytest.fixture
def counted_runs(colors, tmp_path, monkeypatch):
    """Runs that cost nothing: their keys are noted, and one of them can be interrupted."""
    started: list[str] = []
    stops: set[int] = set()

    def do_run(job, plan):
        started.append(f"{job.run.name}/{job.run.seed}")
        if len(started) in stops:
            raise KeyboardInterrupt
        metrics = dict.fromkeys(("P@1", "P@5", "nDCG@5", "PSP@5"), 1.0)
        return {"key": job.run.key, "metrics": metrics, "train_seconds": 1.0, "busy": job.run.seed == 1}

    summary = {"digest": "x", "n_labels": 3}
    monkeypatch.setattr(running, "do_run", do_run)
    monkeypatch.setattr(running, "prepare_documents", lambda *_: summary)
    return started, stops, lambda **changes: plan_of(colors, tmp_path, **changes)


def test_after_an_interruption_only_what_is_left_is_run(counted_runs):
    started, stops, plan = counted_runs
    stops.add(2)
    with pytest.raises(KeyboardInterrupt):
        run_all(plan(seeds=[0, 1, 2]))
    assert run_all(plan(seeds=[0, 1, 2])) == 0
    assert started == ["OneVsRestSVM/0", "OneVsRestSVM/1", "OneVsRestSVM/1", "OneVsRestSVM/2"]


def test_other_settings_are_other_runs(counted_runs):
    started, _, plan = counted_runs
    for changes in ({}, {"C": 2.0}, {"C": 2.0}, {"C": 3.0}):
        run_all(plan(changes=changes))
    assert started == ["OneVsRestSVM/0", "OneVsRestSVM (C=2.0)/0", "OneVsRestSVM (C=3.0)/0"]


def test_again_repeats_busy_runs_or_all(counted_runs):
    started, _, plan = counted_runs
    for again, n_started in (("", 2), ("", 2), ("busy", 3), ("all", 5)):
        run_all(plan(seeds=[0, 1], again=again))
        assert len(started) == n_started
    assert started[2] == "OneVsRestSVM/1"


def test_all_seeds_and_configurations_are_run(counted_runs):
    started, _, plan = counted_runs
    run_all(plan(names=[], seeds=[0, 1]))
    assert started == [f"{name}/{seed}" for name in CONFIGURATIONS for seed in (0, 1)]


def test_a_slow_method_runs_on_many_labels_only_by_name(counted_runs, monkeypatch):
    started, _, plan = counted_runs
    monkeypatch.setattr(running, "prepare_documents", lambda *_: {"digest": "x", "n_labels": 600_000})
    run_all(plan(names=[]))
    assert "OneVsRestSVM/0" not in started
    run_all(plan(names=["OneVsRestSVM"]))
    assert "OneVsRestSVM/0" in started


def test_a_failed_run_is_reported_and_the_next_one_done(colors, tmp_path, monkeypatch, capsys):
    missing = Configuration("nothing", environment=".venv-of-nobody", peer=True)
    monkeypatch.setitem(CONFIGURATIONS, "missing peer", missing)
    assert run_all(plan_of(colors, tmp_path, names=["missing peer"])) == 1
    assert "make bench-peers" in capsys.readouterr().err
    assert read_records(tmp_path / "results.jsonl") == []


def test_an_unknown_method_is_refused(colors, tmp_path):
    with pytest.raises(SettingError, match="HAXNet"):
        run_all(plan_of(colors, tmp_path, names=["HAXNet"]))


@pytest.mark.parametrize("name", [name for name, c in CONFIGURATIONS.items() if not c.environment])
def test_our_configurations_name_methods_and_settings_that_exist(name):
    configuration = CONFIGURATIONS[name]
    METHODS[configuration.method](**configuration.settings)
