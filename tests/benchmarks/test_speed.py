"""The speed benchmark computes what it says, and its command gives a table and one line of JSON."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.speed import __main__ as speed
from benchmarks.speed.metrics import made_up_ranking
from benchmarks.speed.row import Row, Run, Unavailable, at_least, at_most, median_seconds, run_command
from benchmarks.speed.tree import in_group_cosine


def test_in_group_cosine_is_the_mean_of_the_cosines_with_the_centres():
    rng = np.random.default_rng(0)
    rows = rng.random((40, 12)) * (rng.random((40, 12)) < 0.5) + 0.01
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    groups = rng.permutation(np.arange(40) % 6).astype(np.int32)
    cosines = []
    for row, group in zip(rows, groups, strict=True):
        centre = rows[groups == group].mean(axis=0)
        cosines.append(row @ centre / np.linalg.norm(centre))
    assert in_group_cosine(sp.csr_array(rows), groups) == pytest.approx(np.mean(cosines))


def test_a_made_up_ranking_has_each_label_once_and_some_true_ones():
    rng = np.random.default_rng(0)
    truth = sp.csr_array((rng.random((300, 50)) < 0.1).astype(np.float32))
    ids = made_up_ranking(truth, rng)
    assert ids.shape == (300, 5)
    assert all(len(set(row)) == 5 for row in ids.tolist())
    assert ids.min() >= 0
    assert ids.max() < 50
    true = truth.toarray()[np.arange(300)[:, None], ids]
    assert 0.2 < true.mean() < 0.6


def test_limits_decide_what_is_reached():
    assert at_most("a", 1.0, "s", 1.0, {}).reached
    assert not at_most("a", 1.01, "s", 1.0, {}).reached
    assert at_least("a", 0.5, "", 0.5, {}).reached
    assert not at_least("a", 0.49, "", 0.5, {}).reached


def test_the_median_counts():
    seconds, times = median_seconds(lambda: None, 3)
    assert seconds == sorted(times)[1]


def test_a_command_that_fails_is_named_with_its_last_line():
    with pytest.raises(Unavailable, match="ended with 3: the reason"):
        run_command(["sh", "-c", "echo first >&2; echo the reason >&2; exit 3"])


@pytest.fixture
def planted(monkeypatch):
    def fast(run):
        """Is fast."""
        yield Row("fast: a", 0.5, "s", "<= 1", True)
        yield Row("fast: b", 7.0, "x", details={"work": run.work.name})

    def slow(run):
        """Is slow."""
        yield Row("slow", 2.0, "s", "<= 1", False)

    def missing(run):
        """Is not there."""
        raise Unavailable("there is no peer. Run 'make bench-peers'.")
        yield

    monkeypatch.setattr(speed, "ROWS", {"fast": fast, "slow": slow, "missing": missing})


def run_main(capsys, *arguments):
    code = speed.main(list(arguments))
    lines = capsys.readouterr().out.strip().splitlines()
    return code, lines, json.loads(lines[-1])


def test_all_rows_are_measured_and_one_that_is_not_reached_fails(planted, capsys, tmp_path):
    code, lines, found = run_main(capsys, "--work", str(tmp_path))
    assert code == 1
    assert found["reached"] is False
    assert [row["what"] for row in found["rows"]] == [
        "fast: a", "fast: b", "slow", "missing: there is no peer. Run 'make bench-peers'.",
    ]  # fmt: skip
    assert "NOT REACHED" in next(line for line in lines if line.startswith("slow"))
    assert found["rows"][1]["details"]["work"] == tmp_path.name
    assert 0 <= found["rows"][0]["details"]["others_share"] <= 1.5


def test_rows_can_be_chosen(planted, capsys, tmp_path):
    code, _, found = run_main(capsys, "fast", "fast", "--work", str(tmp_path))
    assert code == 0
    assert found["reached"] is True
    assert len(found["rows"]) == 2


def test_a_row_that_does_not_exist_is_refused(planted, capsys):
    with pytest.raises(SystemExit):
        speed.main(["fats"])
    assert "there is no row 'fats'; the rows are fast, slow, missing" in capsys.readouterr().err


def test_help_names_every_row(capsys):
    with pytest.raises(SystemExit):
        speed.main(["--help"])
    text = capsys.readouterr().out
    for name, function in speed.ROWS.items():
        assert f"  {name:<12}{function.__doc__}" in text


def test_the_row_of_the_metrics_works_at_a_small_size(tmp_path):
    (row,) = speed.ROWS["metrics"](Run(tmp_path, scale=0.002, rounds=1))
    assert row.reached
    assert row.details["documents"] == 306
    assert row.details["metrics"] == 14
