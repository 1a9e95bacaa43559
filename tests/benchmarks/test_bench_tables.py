"""Rows, marks and figures of made-up results, and tables between markers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.comparing import add_differences
from benchmarks.figures import draw_accuracy_time
from benchmarks.judging import METRICS
from benchmarks.publishing import make_table, publish, replace_between_markers
from benchmarks.records import append_record
from benchmarks.summaries import group_records, run_of
from benchmarks.tables import ablation_table, accuracy_table, cost_table, difference_table, notes

from haxmlnet.errors import DataError

N_DOCUMENTS = 200


def result(name: str, accuracy: float, *, peer: bool = False, seed: int = 0, **changes) -> dict:
    values = {
        "data": "colors", "split": "test", "configuration": name, "identity": "i", "seed": seed, "peer": peer,
        "threads": 2, "n_train": 1000, "n_judged": N_DOCUMENTS, "n_labels": 20, "digest": "d", "busy": False,
        "metrics": {**dict.fromkeys(METRICS, accuracy), "ECE": 0.01},
        "reliability": {"scores": [0.1, 0.9], "true": [0.2, 0.8], "counts": [3, 3]},
        "train_seconds": 10.0, "batch_ms": 1.0, "single_ms": 2.0, "peak_memory_mb": 300.0, "model_mb": 4.0,
    }  # fmt: skip
    record = {**values, **changes}
    return {"key": "/".join(str(record[n]) for n in ("data", "split", "configuration", "identity", "seed")), **record}


def cells(table: str, row: str) -> list[str]:
    line = next(line for line in table.splitlines() if line.startswith(f"| {row}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_ours_come_first_and_seeds_make_one_row():
    records = [result("napkinxc PLT", 80, peer=True), result("HAXMLNet", 90), result("HAXMLNet", 92, seed=1)]
    (group,) = group_records(records)
    assert [row.name for row in group.rows] == ["HAXMLNet", "napkinxc PLT"]
    table = accuracy_table(group)
    assert cells(table, "HAXMLNet")[1] == "**91.00** ± 1.41"
    assert cells(table, "napkinxc PLT")[:2] == ["napkinxc PLT \\*", "80.00"]


@pytest.mark.parametrize("busy", [False, True])
def test_the_figure_shows_methods_without_a_time_beside_the_scale(busy):
    records = [result("HAXMLNet", 90), result("napkinxc PLT", 80, peer=True, train_seconds=20.0, busy=busy)]
    drawn = ET.fromstring(draw_accuracy_time(group_records(records)[0]))
    words = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert "napkinxc PLT" in words
    assert ("not timed" in words) == busy
    (square,) = [float(x) for element in drawn.iter() if element.tag.endswith("rect") and (x := element.get("x"))]
    assert (square > 690) == busy


def test_only_the_newest_settings_and_documents_count():
    records = [
        result("HAXMLNet", 70, identity="old"), result("OneVsRestSVM", 60, digest="other documents"),
        result("HAXMLNet", 90, identity="new"),
    ]  # fmt: skip
    (group,) = group_records(records)
    assert [(row.name, row.mean("P@1")) for row in group.rows] == [("HAXMLNet", 90)]


def test_settings_that_were_tried_out_count_on_dev_only():
    records = [result("HAXMLNet (C=1)", 70, split=split) for split in ("dev", "test")]
    assert [group.name for group in group_records(records)] == ["colors/dev"]


def test_times_of_a_busy_machine_are_left_out_and_sizes_are_not():
    records = [
        result("HAXMLNet", 90, busy=True, train_seconds=999.0), result("HAXMLNet", 90, seed=1, train_seconds=12.0),
        result("OneVsRestSVM", 80, peer=True, busy=True),
    ]  # fmt: skip
    (group,) = group_records(records)
    assert cells(cost_table(group), "HAXMLNet") == ["HAXMLNet", "12", "1.00", "2.0", "300", "4.0", "2"]
    assert cells(cost_table(group), "OneVsRestSVM")[1:5] == ["-", "-", "-", "300"]
    assert "left out" in notes(group)


@pytest.fixture
def judged(tmp_path):
    """Two methods whose predictions are known: ours is right on all documents, the peer on half of them."""
    work = tmp_path / "work"
    inputs = work / "inputs" / "colors-test"
    inputs.mkdir(parents=True)
    (work / "predictions").mkdir()
    labels = np.arange(N_DOCUMENTS) % 20
    truth = sp.csr_matrix((np.ones(N_DOCUMENTS), (np.arange(N_DOCUMENTS), labels)), shape=(N_DOCUMENTS, 20))
    sp.save_npz(inputs / "truth.npz", truth)
    sp.save_npz(inputs / "labels_train.npz", truth)
    (inputs / "documents.json").write_text(json.dumps({"digest": "d"}))
    half = np.where(np.arange(N_DOCUMENTS) % 2, labels, (labels + 1) % 20)
    records = [result("HAXMLNet", 100), result("napkinxc PLT", 50, peer=True)]
    for record, best in zip(records, (labels, half), strict=True):
        ids = np.full((N_DOCUMENTS, 5), -1, np.int32)
        ids[:, 0] = best
        np.savez(work / "predictions" / f"{run_of(record).file_name}.npz", ids=ids, scores=np.ones(ids.shape))
    return records, work, tmp_path / "differences.json"


def test_what_is_significant_is_marked(judged):
    records, work, kept = judged
    (group,) = add_differences(group_records(records), work, kept)
    assert cells(accuracy_table(group), "HAXMLNet")[1] == "**100.00** †"
    assert cells(accuracy_table(group), "napkinxc PLT")[1] == "50.00"
    points = cells(difference_table(group), "HAXMLNet")[1]
    assert points.startswith("+50.00 [+4")
    assert cells(difference_table(group), "*best peer*")[1] == "napkinxc PLT"
    assert "10,000 resamples" in notes(group)


def test_a_changed_setting_is_compared_with_the_same_method_without_the_change(judged):
    records, work, kept = judged
    before, after = (work / "inputs" / f"colors-{split}" for split in ("test", "dev"))
    before.rename(after)
    changed = result("HAXMLNet (C=2)", 50, split="dev")
    found = {**records[0], "split": "dev"}, changed, result("LinearTree", 50, split="dev")
    (work / "predictions" / f"{run_of(records[0]).file_name}.npz").rename(
        work / "predictions" / f"{run_of(found[0]).file_name}.npz"
    )
    half = work / "predictions" / f"{run_of(records[1]).file_name}.npz"
    for record in found[1:]:
        (work / "predictions" / f"{run_of(record).file_name}.npz").write_bytes(half.read_bytes())
    (group,) = add_differences(group_records(list(found)), work, kept)
    table = ablation_table(group)
    assert cells(table, "HAXMLNet")[1:] == [*["100.00"] * 6, "-", "-", "-"]
    assert cells(table, "`C=2`")[1] == "50.00"
    assert cells(table, "`C=2`")[7].startswith("-50.00 [-5")
    assert "LinearTree" not in table  # nothing of it was changed
    assert add_differences(group_records(list(found)), work / "empty", kept) == [group]
    # Another change later, when the predictions of the first are no longer at hand, takes nothing from it.
    (work / "predictions" / f"{run_of(changed).file_name}.npz").unlink()
    later = result("LinearTree (C=2)", 50, split="dev")
    (work / "predictions" / f"{run_of(later).file_name}.npz").write_bytes(half.read_bytes())
    (both,) = add_differences(group_records([*found, later]), work, kept)
    assert both.changes.keys() == {"HAXMLNet (C=2)", "LinearTree (C=2)"}
    assert both.changes["HAXMLNet (C=2)"] == group.changes["HAXMLNet (C=2)"]


def test_several_changes_are_compared_with_the_most_of_the_first_ones():
    names = (
        "HAXMLNet",
        "HAXMLNet (a=1)",
        "HAXMLNet (a=1, b=2)",
        "HAXMLNet (a=12)",
        "HAXMLNet (c=1, b=2)",
        "LinearTree (a=1)",
    )
    (group,) = group_records([result(name, 50, split="dev") for name in names])
    found = {row.name: group.without_change(row) for row in group.rows}
    assert found == {
        "HAXMLNet": None, "HAXMLNet (a=1)": "HAXMLNet", "HAXMLNet (a=1, b=2)": "HAXMLNet (a=1)",
        "HAXMLNet (a=12)": "HAXMLNet", "HAXMLNet (c=1, b=2)": "HAXMLNet", "LinearTree (a=1)": None,
    }  # fmt: skip


def test_differences_are_kept_for_when_predictions_are_not_at_hand(judged, tmp_path):
    records, work, kept = judged
    first = add_differences(group_records(records), work, kept)
    assert add_differences(group_records(records), tmp_path / "empty", kept) == first
    (other,) = add_differences(group_records([*records, result("OneVsRestSVM", 70, peer=True)]), work, kept)
    assert other.differences == {}
    assert "†" not in accuracy_table(other)


@pytest.mark.parametrize("folder", ["work", "empty"], ids=["others at hand", "nothing at hand"])
def test_a_row_without_predictions_leaves_the_others_their_differences(judged, tmp_path, folder):
    records, work, kept = judged
    (first,) = add_differences(group_records(records), work, kept)
    (group,) = add_differences(group_records([*records, result("LinearTree", 70)]), tmp_path / folder, kept)
    assert group.differences == first.differences
    assert cells(accuracy_table(group), "LinearTree")[1] == "70.00"


def test_a_peer_that_is_best_in_nothing_need_not_be_at_hand(judged, tmp_path):
    records, work, kept = judged
    (first,) = add_differences(group_records(records), work, kept)
    with_another = group_records([*records, result("OneVsRestSVM", 40, peer=True)])
    for folder in (work, tmp_path / "empty"):  # and later, on another machine
        (group,) = add_differences(with_another, folder, kept)
        assert group.differences == first.differences
    best_in_tail = result("OneVsRestSVM", 40, peer=True)
    best_in_tail["metrics"]["tail P@5"] = 99
    (group,) = add_differences(group_records([*records, best_in_tail]), work, kept)
    assert group.differences["HAXMLNet"] == {
        metric: value for metric, value in first.differences["HAXMLNet"].items() if metric != "tail P@5"
    }


def test_only_columns_whose_best_peer_is_not_at_hand_have_no_marks(judged):
    records, work, kept = judged
    best_in_one = result("OneVsRestSVM", 40, peer=True)
    best_in_one["metrics"]["PSP@1"] = 60
    (group,) = add_differences(group_records([*records, best_in_one]), work, kept)
    rows = {
        name: cells(table, "HAXMLNet")
        for name, table in (("all", accuracy_table(group)), ("gaps", difference_table(group)))
    }
    assert (rows["all"][1], rows["all"][7], rows["all"][9]) == ("**100.00** †", "**100.00**", "**100.00** †")
    assert rows["gaps"][1].startswith("+50.00 [+4")
    assert rows["gaps"][6] == cells(difference_table(group), "*best peer*")[6] == "-"
    assert notes(group).count("Not compared, as the best peer's predictions are of another machine: PSP@1.") == 1


def test_rows_that_changed_lose_their_differences(judged, tmp_path):
    records, work, kept = judged
    add_differences(group_records(records), work, kept)
    changed = [result("HAXMLNet", 90), records[1]]
    (group,) = add_differences(group_records(changed), tmp_path / "empty", kept)
    assert "HAXMLNet" not in group.differences


PAGE = """\
# Page

<!-- bench colors/test accuracy -->
old
<!-- /bench -->
between
<!-- bench colors/test cost -->
<!-- /bench -->
end
"""


def test_a_run_repeated_with_another_result_is_another_run():
    before, again, other = (group_records([result("HAXMLNet", score)])[0].keys for score in (90, 90, 91))
    assert before == again
    assert before != other


def test_what_stands_between_markers_is_replaced_and_nothing_else():
    new = replace_between_markers(PAGE, str.upper, "page.md")
    assert new.count("\n\nCOLORS/TEST ACCURACY\n\n<!-- /bench -->\nbetween\n<!-- bench colors/test cost -->\n\n") == 1
    assert "old" not in new
    assert new.endswith("COLORS/TEST COST\n\n<!-- /bench -->\nend\n")
    assert replace_between_markers(new, str.upper, "page.md") == new
    assert replace_between_markers(PAGE, lambda wish: None, "page.md") == PAGE


@pytest.mark.parametrize("page", ["<!-- bench all -->\n", PAGE.replace("<!-- /bench -->\nbetween", "between")])
def test_a_marker_without_end_is_named_by_its_line(page):
    line = 1 if page.startswith("<!--") else 3
    with pytest.raises(DataError, match=rf"page\.md:{line}: .* has no end"):
        replace_between_markers(page, str.upper, "page.md")


@pytest.mark.parametrize("wish", ["accuracy", "colors/test beauty", "everything"])
def test_an_unknown_wish_is_refused(wish):
    with pytest.raises(DataError, match="accuracy, frequency"):
        make_table(wish, group_records([result("HAXMLNet", 90)]), "figures")


def test_tables_and_figures_are_written(tmp_path, capsys):
    results, page, figures = tmp_path / "results.jsonl", tmp_path / "PAGE.md", tmp_path / "figures"
    for record in (result("HAXMLNet", 90), result("napkinxc PLT", 80, peer=True, train_seconds=3.0)):
        append_record(results, record)
    page.write_text("<!-- bench all -->\n<!-- /bench -->\n\n<!-- bench shapes/test cost -->\nkept\n<!-- /bench -->\n")
    publish(results, tmp_path / "work", [page], figures)
    text = page.read_text("utf-8")
    assert "### colors, test split" in text
    assert "kept" in text
    for name in ("accuracy_time", "reliability"):
        assert f"(figures/{name}_colors.svg)" in text
        drawn = ET.parse(figures / f"{name}_colors.svg").getroot()
        words = " ".join(element.text or "" for element in drawn.iter() if element.tag.endswith("text"))
        assert "HAXMLNet" in words
        assert "napkinxc PLT" in words
    publish(results, tmp_path / "work", [], figures)
    assert "| HAXMLNet |" in capsys.readouterr().out


def test_without_results_there_is_nothing_to_publish(tmp_path):
    with pytest.raises(DataError, match="no results yet"):
        publish(tmp_path / "results.jsonl", tmp_path, [], Path("figures"))
