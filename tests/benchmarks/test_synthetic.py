"""Synthetic data has the statistics it promises, and is the same for the same seed."""

import re

import numpy as np
import pytest
from benchmarks.synthetic import STATISTICS, ZIPF_EXPONENT, ZIPF_SHIFT, SyntheticData, main
from benchmarks.synthetic_text import made_up_words

from haxmlnet.data import iterate_documents

SMALL = [("amazon-670k", 0.005), ("wiki10-31k", 0.02), ("cve-products", 0.02), ("amazoncat-13k", 0.01)]


@pytest.fixture(scope="module", params=SMALL, ids=lambda chosen: chosen[0])
def made(request):
    name, scale = request.param
    return STATISTICS[name].scaled(scale), {split: SyntheticData.of(name, scale).arrays(split) for split in SPLITS}


SPLITS = ("train", "test")


@pytest.mark.parametrize("split", SPLITS)
def test_sizes_are_those_of_the_table(made, split):
    statistics, splits = made
    tokens, targets = splits[split]
    assert len(tokens) == targets.shape[0] == (statistics.n_train if split == "train" else statistics.n_test)
    wanted = statistics.words_train if split == "train" else statistics.words_test
    assert tokens.lengths.mean() == pytest.approx(wanted, rel=0.03)
    assert tokens.lengths.min() >= 1
    assert targets.nnz / targets.shape[0] == pytest.approx(statistics.labels_per_document, rel=0.03)
    assert targets.shape[1] == statistics.n_labels
    assert set(targets.data) == {1}


def test_every_label_is_in_training_and_a_tenth_of_them_has_most_documents_of_all(made):
    counts = np.sort(np.bincount(made[1]["train"][1].indices, minlength=made[0].n_labels))[::-1]
    assert counts[-1] >= 1
    assert counts[0] <= 0.31 * made[0].n_train
    tenth = len(counts) // 10
    assert counts[:tenth].sum() > 3 * tenth * counts.mean()
    assert np.median(counts) < 0.8 * counts.mean()


def test_words_follow_the_law_of_zipf(made):
    tokens, _ = made[1]["train"]
    n_words = made[0].n_words
    counts = np.sort(np.bincount(tokens.ids - 2, minlength=n_words))[::-1]
    ranks = np.arange(n_words) + 1
    common = (ranks + ZIPF_SHIFT) ** -ZIPF_EXPONENT
    # The words of labels are drawn evenly by the logarithm of their rank, from the 50th.
    of_labels = np.where(ranks > 50, 1 / ranks, 0)
    expected = np.sort(0.8 * common / common.sum() + 0.2 * of_labels / of_labels.sum())[::-1]
    middle = slice(20, 600)
    slopes = [np.polyfit(np.log(ranks[middle]), np.log(values[middle]), 1)[0] for values in (counts, expected)]
    assert slopes[0] == pytest.approx(slopes[1], abs=0.15)
    assert slopes[0] < -0.8
    assert tokens.ids.min() == 2
    assert tokens.ids.max() < n_words + 2


def test_lengths_have_the_spread_of_real_documents(made):
    assert np.log(made[1]["train"][0].lengths).std() == pytest.approx(0.55, abs=0.05)


def test_documents_with_a_label_share_words():
    tokens, targets = SyntheticData.of("amazoncat-13k", 0.01).arrays("train")
    column = targets.tocsc()[:, [20]].toarray().ravel() > 0
    n_words = tokens.ids.max() + 1
    share = np.zeros((2, n_words))
    for has_label in (0, 1):
        rows = np.flatnonzero(column == has_label)
        words = np.concatenate(
            [tokens.ids[tokens.starts[row] : tokens.starts[row] + tokens.lengths[row]] for row in rows]
        )
        share[has_label] = np.bincount(words, minlength=n_words) / len(words)
    assert ((share[1] > 0.003) & (share[1] > 10 * share[0])).sum() >= 3


def test_labels_occur_together_again():
    targets = SyntheticData.of("amazon-670k", 0.005).labels("train")
    together = (targets.T @ targets).tocoo()
    often = together.data[(together.row < together.col)] > 1
    # Drawn independently, some 0.05% of the pairs of labels that occur together would do so twice.
    assert often.mean() > 0.02


def test_the_seed_decides():
    first, again, other = (SyntheticData.of("cve-products", 0.01, seed) for seed in (1, 1, 2))
    tokens, targets = first.arrays("train")
    assert (tokens.ids == again.arrays("train")[0].ids).all()
    assert (targets != again.labels("train")).nnz == 0
    assert (targets != other.labels("train")).nnz > 0


def test_the_files_hold_the_same_documents_as_the_arrays(tmp_path, capsys):
    for folder in ("a", "b"):
        main(["cve-products", "--scale", "0.005", "--seed", "3", "--out", str(tmp_path / folder)])
    assert "609 documents" in capsys.readouterr().out
    for split in SPLITS:
        path = tmp_path / "a" / f"{split}.jsonl"
        assert path.read_bytes() == (tmp_path / "b" / f"{split}.jsonl").read_bytes()
        data = SyntheticData.of("cve-products", 0.005, 3)
        tokens, targets = data.arrays(split)
        words = made_up_words(data.statistics.n_words)
        documents = list(iterate_documents(path, with_labels=True))
        assert [int(document.id) for document in documents] == list(range(len(tokens)))
        found = [word for document in documents for word in re.findall(r"[^\W_]+", document.text.lower())]
        assert found == [words[i - 2] for i in tokens.ids]
        assert [int(label[1:]) for document in documents for label in document.labels] == targets.indices.tolist()
        assert [len(document.labels) for document in documents] == np.diff(targets.indptr).tolist()


def test_texts_look_like_texts(tmp_path):
    SyntheticData.of("cve-products", 0.005).write("train", tmp_path / "a.jsonl")
    text = "\n".join(document.text for document in iterate_documents(tmp_path / "a.jsonl", with_labels=False))
    assert all(mark in text for mark in (". ", ", ", '"', "\n"))
    assert re.search(r"[^.] [A-Z]", text)
    assert not text.isascii()


def test_words_are_different_and_longer_the_rarer():
    words = made_up_words(100_000)
    assert len(set(words)) == len(words)
    assert all(len(word) > 1 and word.isalpha() and word.islower() for word in words)
    assert np.mean([len(word) for word in words[:200]]) < np.mean([len(word) for word in words[-200:]]) - 4
