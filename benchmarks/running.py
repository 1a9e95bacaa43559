"""Data sets x configurations x seeds: what is left to do, done one after the other, each in its own processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.configurations import OWN, VECTORS, Configuration
from benchmarks.inputs import FEATURES_SUMMARY, SUMMARY, source_stamps, write_json
from benchmarks.judging import Truth, judge_predictions, read_predictions
from benchmarks.peers.exchange import Task
from benchmarks.planning import Job, Plan, command_of, is_finished, jobs_of, left_out
from benchmarks.processes import BUSY_SHARE, Watched, watch
from benchmarks.records import Record, append_record
from haxmlnet.errors import HaxmlnetError, SettingError

ROOT = Path(__file__).resolve().parents[1]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


class RunFailed(HaxmlnetError):
    """A method ended with an error; its log says which."""


def run_all(plan: Plan) -> int:
    """Do every run that is not finished yet, and return the number of those that failed."""
    n_failed = 0
    for data, directory in plan.sets.items():
        inputs = plan.work / "inputs" / f"{data}-{plan.split}"
        summary = prepare_documents(directory, plan.split, inputs)
        for name in left_out(plan, summary["n_labels"]):
            say(f"{data}: {name} is left out: too slow for so many labels. Ask for it with --methods.")
        for job in jobs_of(plan, data, inputs, summary):
            if is_finished(job.run, plan):
                say(f"{job.run.key}: finished before")
            else:
                n_failed += not run_one(job, plan)
    return n_failed


def run_one(job: Job, plan: Plan) -> bool:
    """Do a run and add its result; say so, and give False, if it fails."""
    say(f"{job.run.key}: started")
    try:
        record = do_run(job, plan)
    except HaxmlnetError as error:
        say(f"{job.run.key}: failed. {error}")
        return False
    append_record(plan.results, record)
    metrics = ", ".join(f"{name} {record['metrics'][name]:.2f}" for name in ("P@1", "P@5", "nDCG@5", "PSP@5"))
    say(f"{job.run.key}: {metrics}; trained in {record['train_seconds']:.0f} s")
    return True


def do_run(job: Job, plan: Plan) -> Record:
    """Train, predict, judge; an interrupted run leaves nothing behind that a later one would take up."""
    out = plan.work / "current" / job.run.file_name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    if job.configuration.reads_features:
        prepare_features(job.inputs, plan)
    task = Task(
        job.inputs.resolve(), out.resolve(), find_settings(job.configuration, plan.vectors), job.run.seed, plan.threads,
        job.configuration.use_dev and plan.split == "test",
    )  # fmt: skip
    task.write(out / "task.json")
    watched = [run_step(step, job.configuration, task) for step in ("train", "predict")]
    predictions = plan.work / "predictions" / f"{job.run.file_name}.npz"
    predictions.parent.mkdir(exist_ok=True)
    record = make_record(job, plan, task, watched)
    os.replace(out / "predictions.npz", predictions)
    if not plan.keep_models:
        shutil.rmtree(out)
    return record


def make_record(job: Job, plan: Plan, task: Task, watched: list[Watched]) -> Record:
    """Put together all that is known of a run."""
    train, predict = (json.loads((task.out / f"{step}.json").read_text("utf-8")) for step in ("train", "predict"))
    before = {"seconds": 0.0, "batch_ms": 0.0, "single_ms": 0.0, "others_share": 0.0}
    if job.configuration.reads_features:
        before = json.loads((job.inputs / FEATURES_SUMMARY).read_text("utf-8"))
    judgement = judge_predictions(*read_predictions(task.out / "predictions.npz"), Truth.read(job.inputs))
    others = max(before["others_share"], *(seen.others_share for seen in watched))
    return {
        "key": job.run.key, "data": job.run.data, "split": job.run.split, "configuration": job.run.name,
        "identity": job.run.identity, "seed": job.run.seed, "peer": job.configuration.peer,
        "method": job.configuration.method, "preset": job.configuration.preset,
        "settings": dict(job.configuration.settings), "threads": plan.threads,
        **{name: job.summary[name] for name in ("n_train", "n_judged", "n_labels", "digest")},
        "metrics": judgement.values, "reliability": vars(judgement.reliability),
        "psp_of_seen_labels": judgement.psp_of_seen,
        "train_seconds": before["seconds"] + train["seconds"], "feature_seconds": before["seconds"],
        "peak_memory_mb": max(train["peak_memory"], watched[0].peak_memory) / 1e6,
        "batch_ms": before["batch_ms"] + predict["batch_ms"], "single_ms": before["single_ms"] + predict["single_ms"],
        "model_mb": sum(file.stat().st_size for file in task.model.rglob("*") if file.is_file()) / 1e6,
        "busy": plan.busy or others > BUSY_SHARE, "others_share": round(others, 3),
        "versions": train["versions"], "commit": describe_commit(), "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": command_of(job, plan), "details": read_details(task, plan.vectors),
    }  # fmt: skip


def prepare_documents(directory: Path, split: str, inputs: Path) -> dict[str, Any]:
    """Write the files that the methods are given, unless they are there already."""
    path = inputs / SUMMARY
    summary = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if summary.get("sources") != source_stamps(directory):
        say(f"{directory.name}: reading the documents of {split}")
        command = [sys.executable, "-m", "benchmarks.inputs", str(directory.resolve()), split, str(inputs.resolve())]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            raise RunFailed(f"benchmarks.inputs ended with {done.returncode}: {last}")
        summary = json.loads(path.read_text("utf-8"))
    return dict(summary)


def prepare_features(inputs: Path, plan: Plan) -> None:
    """Make the TF-IDF of the linear peers; again, if its time was taken on a busy machine and a true one is wanted."""
    path = inputs / FEATURES_SUMMARY
    if path.exists():
        known = json.loads(path.read_text("utf-8")).get("others_share", 1.0)
        if plan.busy or known <= BUSY_SHARE:
            return
    say(f"{inputs.name}: making TF-IDF features")
    path.unlink(missing_ok=True)
    log = inputs / "features.log"
    command = [sys.executable, "-m", "benchmarks.inputs", "-", "-", str(inputs.resolve()), "features"]
    watched = watch(command, log, os.environ, ROOT)
    if watched.exit_code:
        raise RunFailed(f"making features ended with {watched.exit_code}. See {log}.")
    share = 1.0 if plan.busy else watched.others_share
    write_json(path, {**json.loads(path.read_text("utf-8")), "others_share": share})


def say(message: str) -> None:
    """Tell how the bench goes on, on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def run_step(step: str, configuration: Configuration, task: Task) -> Watched:
    """Train or predict in the environment of the method."""
    python, module = Path(sys.executable), "benchmarks.own_method"
    if configuration.environment != OWN:
        python, module = ROOT / configuration.environment / "bin/python", f"benchmarks.peers.{configuration.method}"
        if not python.exists():
            raise RunFailed(f"there is no environment {configuration.environment}. Run 'make bench-peers'.")
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(task.threads))}
    log = task.out / f"{step}.log"
    watched = watch([str(python), "-m", module, step, str(task.out / "task.json")], log, environment, ROOT)
    if watched.exit_code:
        last = log.read_text("utf-8", errors="replace").strip().splitlines()[-1:]
        raise RunFailed(f"{step} ended with {watched.exit_code}: {' '.join(last)[:300]}. See {log}.")
    return watched


def find_settings(configuration: Configuration, vectors: Path | None) -> dict[str, Any]:
    """Return what the method is told, with the file of word vectors in its place."""
    settings = dict(configuration.settings)
    for name, value in settings.items():
        if value == VECTORS:
            if vectors is None:
                raise SettingError(f"{name}: there is no file of word vectors. Give one with --vectors.")
            settings[name] = str(vectors.resolve())
    if configuration.environment == OWN:
        settings |= {"method": configuration.method, "preset": configuration.preset}
    return settings


def read_details(task: Task, vectors: Path | None) -> dict[str, Any]:
    """Read what the method says about its training; methods of others say nothing."""
    path = task.out / "details.json"
    text = path.read_text("utf-8") if path.exists() else "{}"
    if vectors is not None:  # where the file lies on this machine is of no use to others
        text = text.replace(json.dumps(str(vectors.resolve())), json.dumps(vectors.name))
    return dict(json.loads(text))


def describe_commit() -> str:
    """Name the version of the sources."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=10"], cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout.strip()
