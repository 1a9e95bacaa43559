"""The benchmark of scale runs every stage at the sizes it was given."""

import json

import pytest
from benchmarks.scale import main, print_stage, statistics_of
from benchmarks.scale_stages import TrainingClock, prepare_corpus, write_text
from benchmarks.synthetic import STATISTICS, SyntheticData

from benchmarks import scale

AMAZON = STATISTICS["amazon-670k"]
FIGURES = {
    "seconds": {"a": 1.0, "b": 2.5}, "memory": {"a": {"resident": 2e9, "own": 5e8}},
    "peak_bytes": 3e9, "peak_anonymous_bytes": 1e9,
}  # fmt: skip
TINY = ["--labels", "120", "--documents", "300", "--words", "400", "--length", "12", "--judged", "20"]
TINY_NETWORK = ["hidden_size=4", "word_size=6", "mlp_sizes=[5]", "group_size=8", "n_jobs=1", "linear=false"]


@pytest.fixture
def no_stage_runs(monkeypatch):
    """Gives the stages that would have run, in their order, with what they were given."""
    ran = []

    def pretended(part, *arguments):
        ran.append((part.__name__, arguments))
        return FIGURES

    monkeypatch.setattr(scale, "run_alone", pretended)
    return ran


def test_all_labels_fit_on_few_documents():
    statistics = statistics_of(AMAZON, labels=900, documents=100, words=500, length=30, judged=10)
    targets = SyntheticData(statistics).labels("train")
    assert targets.shape == (100, 900)
    assert len(set(targets.indices.tolist())) == 900
    assert statistics_of(AMAZON, 100, 1000, 500, 30, 10).labels_per_document == pytest.approx(5.45)


def test_text_and_preparation_leave_what_the_next_stage_needs(tmp_path):
    text, judged, corpus = (tmp_path / name for name in ("train.jsonl", "test.jsonl", "corpus"))
    write_text(statistics_of(AMAZON, 600, 400, 800, 30, 20), 0, text, judged)
    assert len(judged.read_text().splitlines()) == 20
    prepared = prepare_corpus(text, corpus)
    assert (prepared["documents"], prepared["labels"]) == (400, 600)


@pytest.mark.parametrize(("limit", "code"), [([], 0), (["--limit", "3.5"], 0), (["--limit", "2.9"], 1)])
def test_the_command_prints_each_stage_and_fails_beyond_the_memory(no_stage_runs, capsys, tmp_path, limit, code):
    assert main(["--labels", "50", "--folder", str(tmp_path), *limit]) == code
    *lines, last = capsys.readouterr().out.splitlines()
    stages = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert stages == ["text", "prepare", "train", "load,"]
    found = json.loads(last)
    assert found["labels"] == 50
    assert found["holds"] is (code == 0)
    assert list(tmp_path.iterdir()) == []


def test_sizes_that_are_not_given_are_those_of_the_data_set(no_stage_runs, tmp_path):
    main(["--data", "amazon-3m", "--documents", "70", "--folder", str(tmp_path)])
    _, (statistics, *_) = no_stage_runs[0]
    assert (statistics.n_labels, statistics.n_words, statistics.words_train) == (2_812_281, 337_067, 104.08)
    assert statistics.n_train == 70


def test_settings_reach_the_stages_that_train(no_stage_runs, tmp_path):
    main(["--set", "hidden_size=256", "--set", "linear=false", "--steps", "7", "--folder", str(tmp_path)])
    given = {name: arguments[-1] for name, arguments in no_stage_runs}
    expected = {"max_steps": 7, "random_state": 0, "hidden_size": 256, "linear": False}
    assert given["train_and_save"] == expected


@pytest.mark.parametrize(("change", "message"), [("bem=3", "no such setting"), ("beam", "NAME=VALUE"), ("beam=0", "1")])
def test_a_wrong_setting_is_one_line_before_anything_runs(no_stage_runs, capsys, change, message):
    assert main(["--set", change]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert no_stage_runs == []


def test_a_kept_corpus_is_not_made_again(no_stage_runs, capsys, tmp_path):
    command = ["--labels", "50", "--folder", str(tmp_path), "--keep", str(tmp_path / "kept")]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    no_stage_runs.clear()
    assert main([*command, "--set", "beam=4"]) == 0
    output = capsys.readouterr().out
    assert [name for name, _ in no_stage_runs] == ["train_and_save", "load_and_judge"]
    assert "prepare (earlier run)" in output
    second = json.loads(output.splitlines()[-1])
    assert second["stages"]["text"] == {**first["stages"]["text"], "is_found": True}


def test_a_kept_corpus_of_other_sizes_is_refused(no_stage_runs, capsys, tmp_path):
    keep = ["--folder", str(tmp_path), "--keep", str(tmp_path / "kept")]
    main(["--labels", "50", *keep])
    no_stage_runs.clear()
    assert main(["--labels", "51", *keep]) == 2
    assert "n_labels 50, not 51. Remove it" in capsys.readouterr().err
    assert no_stage_runs == []


def test_the_markdown_table_has_stages_parts_and_memory(no_stage_runs, tmp_path):
    main(["--labels", "50", "--documents", "70", "--folder", str(tmp_path), "--markdown", str(tmp_path / "table.md")])
    title, _, *rows = (tmp_path / "table.md").read_text().splitlines()
    assert title.startswith("50 labels, 70 synthetic documents")
    assert rows[:2] == ["| stage | seconds | peak, GB | own, GB |", "|---|---:|---:|---:|"]
    assert rows[2:5] == ["| **text** | 3.5 | 3.00 | 1.00 |", "| – a | 1.0 | 2.00 | 0.50 |", "| – b | 2.5 | | |"]
    assert len(rows) == 2 + 4 * 3


def test_all_stages_without_a_linear_part_with_the_corpus_of_an_earlier_run(monkeypatch, capsys, tmp_path):
    memory = {"peak_bytes": 1e9, "peak_anonymous_bytes": 1e9}
    monkeypatch.setattr(scale, "run_alone", lambda part, *arguments: {**part(*arguments), **memory})
    settings = [word for setting in TINY_NETWORK for word in ("--set", setting)]
    command = [*TINY, *settings, "--steps", "3", "--folder", str(tmp_path), "--keep", str(tmp_path / "kept")]
    for _ in range(2):
        assert main(command) == 0
        stages = json.loads(capsys.readouterr().out.splitlines()[-1])["stages"]
    assert sorted(file.name for file in (tmp_path / "kept").iterdir()) == ["corpus", "made.json", "test.jsonl"]
    training = stages["train and save"]
    assert training["level_sizes"] == [16, 120]
    assert training["has_linear_part"] is False
    # TF-IDF, label features and word vectors are found beside the corpus.
    expected = {"networks, tree 0", "the rest of training", "save"}
    assert set(training["seconds"]) >= expected
    assert not {"TF-IDF", "label features", "word vectors"} & set(training["seconds"])
    assert all(seconds >= 0 for seconds in training["seconds"].values())
    total = sum(training["seconds"].values()) - training["seconds"]["save"]
    assert total == pytest.approx(training["seconds_of_training"], rel=0.01)
    assert 0 < training["seconds_of_a_step"] < training["seconds"]["networks, tree 0"]
    assert training["planned_bytes"] > 0
    assert training["memory"]  # of stages that take longer than it takes to sample once
    assert set(training["memory"]) <= set(training["seconds"])
    assert all(peak["resident"] >= peak["own"] > 0 for peak in training["memory"].values())
    assert stages["load, predict, evaluate"]["documents"] == 20


def test_the_last_step_is_no_typical_one():
    clock = TrainingClock()
    with clock.stage("tree 0", 3, "batches") as advance:
        for n in (0, 1, 1, 1):
            advance(n)
    with clock.stage("linear level 0", 9, "nodes") as advance:
        assert clock.current == "linear level 0"
        advance(9)
    assert clock.current == "the rest of training"
    assert len(clock.steps) == 2
    assert set(clock.seconds) == {"networks, tree 0", "linear level 0"}
    assert TrainingClock().median_step() is None


def test_a_stage_takes_as_long_as_its_parts(capsys):
    print_stage("a", FIGURES)  # a part may have the name of the whole
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [
        ["a", "3.5", "3.00", "1.00"],
        ["a", "1.0", "2.00", "0.50"],
        ["b", "2.5"],
    ]
    assert [line.startswith("  ") for line in lines] == [False, True, True]
