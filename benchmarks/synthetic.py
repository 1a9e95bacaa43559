"""Synthetic data that follows the published statistics of a data set, at its full size or any part of it.

    python -m benchmarks.synthetic amazon-670k --scale 0.01 --out DIR

writes DIR/train.jsonl and DIR/test.jsonl. Words follow Zipf's law, labels have their long tail, and each label has
a few words of its own and some that it shares with its neighbours, so that trees and training have something to find.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks.synthetic_text import Block, WordTable, json_lines
from haxmlnet.data import replace_file
from haxmlnet.data.tokens import UNKNOWN_ID, TokenArray

Split = Literal["train", "test"]
SPLITS: tuple[Split, Split] = ("train", "test")
BLOCK_TOKENS = 4_000_000
# In EURLEX57K and the CVE reports the slope is 1.0 among the first words and 1.4 from the 10th to the 10,000th.
ZIPF_EXPONENT, ZIPF_SHIFT = 1.2, 2.7
WORDS_SPREAD = 0.55  # deviation of the logarithm of the words of a document, as in the same two sets
LABELS_SPREAD = 0.6
WORDS_OF_LABEL, SHARED_WORDS, LABELS_OF_TOPIC = 5, 2, 50
TOPICAL_SHARE = 0.2
"""So many words of a document are words of its labels."""
MOST_FREQUENT_SHARE = 0.3
"""No label is on more than this part of the documents."""
APART = 4
"""The documents of a frequent label are so many documents apart, or it would be twice on one of them."""


@dataclass(frozen=True)
class Statistics:
    """What is published about a data set; all labels are in the training documents."""

    n_train: int
    n_test: int
    n_words: int
    n_labels: int
    labels_per_document: float
    words_train: float
    words_test: float
    label_slope: float = 0.95
    """Exponent of the frequency of a label by its rank: about 1 for subjects, small for products bought together."""

    def scaled(self, scale: float) -> Statistics:
        """Take part of the documents and as large a part of the labels; words grow with the root (Heaps' law)."""
        return replace(
            self,
            n_train=max(1, round(self.n_train * scale)),
            n_test=max(1, round(self.n_test * scale)),
            n_words=max(200, round(self.n_words * math.sqrt(scale))),
            n_labels=max(1, round(self.n_labels * scale)),
        )


# Documents, words (features), labels and labels per document: the HAXMLNet paper for Amazon-670K and Wiki-500K, the
# Extreme Classification Repository for the others; words per document: the same paper, and AttentionXML's table 1.
# The last two sets are counted from their files. Slopes of labels are measured for these two, chosen for the others.
STATISTICS = {
    "eurlex-4k": Statistics(15_449, 3_865, 186_104, 3_956, 5.30, 1248.58, 1230.40),
    "wiki10-31k": Statistics(14_146, 6_616, 101_938, 30_938, 18.64, 2484.30, 2425.45),
    "amazoncat-13k": Statistics(1_186_239, 306_782, 203_882, 13_330, 5.04, 246.61, 245.98),
    "amazon-670k": Statistics(490_449, 153_025, 135_909, 670_091, 5.45, 247.33, 241.22, label_slope=0.6),
    "wiki-500k": Statistics(1_779_881, 769_421, 2_381_304, 501_008, 4.75, 808.66, 808.56),
    "amazon-3m": Statistics(1_717_899, 742_507, 337_067, 2_812_281, 36.04, 104.08, 104.18, label_slope=0.6),
    "eurlex57k": Statistics(45_000, 6_000, 159_561, 4_108, 5.07, 793.63, 788.75, label_slope=1.0),
    "cve-products": Statistics(121_874, 30_554, 114_194, 59_838, 2.36, 47.16, 47.06, label_slope=0.9),
}


@dataclass(frozen=True)
class SyntheticData:
    """Documents made by chance from a seed: the same for the same statistics and seed."""

    statistics: Statistics
    seed: int = 0

    @classmethod
    def of(cls, name: str, scale: float = 1.0, seed: int = 0) -> SyntheticData:
        """Follow a data set of `STATISTICS`."""
        return cls(STATISTICS[name].scaled(scale), seed)

    def n_documents(self, split: Split) -> int:
        """Return the number of documents."""
        return self.statistics.n_train if split == "train" else self.statistics.n_test

    def labels(self, split: Split) -> sp.csr_array:
        """Return the 0/1 matrix (documents x labels); labels that lie side by side occur together."""
        rng = self._rng("labels", split)
        sizes = 1 + _spread(self.n_documents(split), self.statistics.labels_per_document - 1, LABELS_SPREAD, rng)
        total = int(sizes.sum())
        counts = _label_counts(self.statistics, total, split, rng)
        labels = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        labels = labels[np.argsort(_places(self._label_places, counts, len(sizes), rng), kind="stable")]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        targets = sp.csr_array((np.ones(total, np.float32), labels, starts), shape=(len(sizes), len(counts)))
        targets = targets[rng.permutation(len(sizes))]
        targets.sum_duplicates()
        targets.data[:] = 1
        return targets

    def token_blocks(self, split: Split, targets: sp.csr_array) -> Iterator[tuple[int, Block]]:
        """Return the number of the first document and the words of some documents at a time."""
        mean = self.statistics.words_train if split == "train" else self.statistics.words_test
        lengths = np.maximum(_spread(self.n_documents(split), mean, WORDS_SPREAD, self._rng("lengths", split)), 1)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        first = 0
        while first < len(lengths):
            stop = max(int(np.searchsorted(starts, starts[first] + BLOCK_TOKENS, side="right")) - 1, first + 1)
            block_starts = starts[first : stop + 1] - starts[first]
            yield first, Block(self._drawn(split, first, block_starts, targets), block_starts)
            first = stop

    def arrays(self, split: Split) -> tuple[TokenArray, sp.csr_array]:
        """Return word ids as a tokenizer gives them, from 2, and the labels, without any text."""
        targets = self.labels(split)
        blocks = [block for _, block in self.token_blocks(split, targets)]
        lengths = np.concatenate([np.diff(block.starts) for block in blocks])
        ids = np.concatenate([block.ids for block in blocks])
        ids += UNKNOWN_ID + 1
        return TokenArray.from_lengths(ids, lengths), targets

    def write(self, split: Split, path: str | Path) -> int:
        """Write JSON lines and give the number of words in them."""
        targets = self.labels(split)
        words = WordTable.of_size(self.statistics.n_words)
        n_words = 0
        with replace_file(path) as temporary, open(temporary, "wb") as stream:
            for first, block in self.token_blocks(split, targets):
                rows = targets[first : first + len(block.starts) - 1]
                stream.write(json_lines(words, block, rows, first, self._rng("text", split, first)).data)
                n_words += len(block.ids)
        return n_words

    def _rng(self, purpose: str, split: str = "train", block: int = 0) -> np.random.Generator:
        return np.random.default_rng([self.seed, *purpose.encode(), SPLITS.index(split), block])

    @cached_property
    def _label_places(self) -> NDArray[np.float64]:
        return self._rng("places").random(self.statistics.n_labels)

    @cached_property
    def _label_words(self) -> NDArray[np.int32]:
        """Choose the words of each label, (labels, words of a label), by the law of all words but the commonest."""
        rng, n_words, n_labels = self._rng("words"), self.statistics.n_words, self.statistics.n_labels
        n_topics = max(1, n_labels // LABELS_OF_TOPIC)
        own = _rare_words(n_words, (n_labels, WORDS_OF_LABEL - SHARED_WORDS), rng)
        shared = _rare_words(n_words, (n_topics, SHARED_WORDS), rng)
        return np.hstack([own, shared[(self._label_places * n_topics).astype(np.int64)]])

    @cached_property
    def _alias(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        weights = (np.arange(self.statistics.n_words) + 1 + ZIPF_SHIFT) ** -ZIPF_EXPONENT
        shares, others = _alias_table(weights / weights.mean())
        return shares, others

    def _drawn(self, split: Split, first: int, starts: NDArray[np.int64], targets: sp.csr_array) -> NDArray[np.int32]:
        rng = self._rng("tokens", split, first)
        chance = rng.random((2, int(starts[-1])))
        indptr = targets.indptr[first : first + len(starts)].astype(np.int64)
        ids: NDArray[np.int32] = _draw_words(chance, starts, indptr, targets.indices, self._label_words, *self._alias)
        return ids


def _spread(n: int, mean: float, deviation: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return log-normal integers with a given mean; evenly drawn, so that few of them have the mean as well."""
    normal = ndtri((rng.permutation(n) + rng.random(n)) / n)
    return np.floor(mean * np.exp(deviation * normal - deviation**2 / 2) + rng.random(n)).astype(np.int64)


def _label_counts(statistics: Statistics, total: int, split: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the number of documents of each label; each is in training at least once."""
    powers = np.arange(1, statistics.n_labels + 1) ** -statistics.label_slope
    least, most = 1, max(1, MOST_FREQUENT_SHARE * statistics.n_train)
    wanted = max(statistics.n_train * statistics.labels_per_document, statistics.n_labels)
    low, high = 0.0, float(wanted)
    for _ in range(60):
        middle = (low + high) / 2
        is_low = np.clip(middle * powers, least, most).sum() < wanted
        low, high = (middle, high) if is_low else (low, middle)
    expected = np.clip(high * powers, least, most)
    share = np.floor(expected * (total / expected.sum()) + rng.random(len(expected)))
    fewest = 1 if split == "train" else 0
    counts: NDArray[np.int64] = np.maximum(share, fewest).astype(np.int64)
    while missing := total - int(counts.sum()):
        changed = np.flatnonzero(counts > (fewest if missing < 0 else -1))[: abs(missing)]
        assert len(changed), "more labels than places for them"
        counts[changed] += np.sign(missing)
    return counts


def _places(
    centres: NDArray[np.float64], counts: NDArray[np.int64], n_documents: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Lay the occurrences of each label around its place, at distances that keep them on different documents."""
    widths = np.minimum(1.0, APART * counts / n_documents)
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    # Half a step of chance leaves half a step between them.
    steps = (nth + rng.random(len(nth)) / 2) / np.repeat(counts, counts) - 0.5
    places: NDArray[np.float64] = (np.repeat(centres, counts) + steps * np.repeat(widths, counts)) % 1
    return places


def _rare_words(n_words: int, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw ranks evenly by their logarithm, which is Zipf's law again."""
    least = min(50, n_words // 4)
    return np.minimum(least * (n_words / least) ** rng.random(shape), n_words - 1).astype(np.int32)


@numba.njit(cache=True)
def _alias_table(weights):  # type: ignore[no-untyped-def]
    """Walker's table for weights of mean one: an index keeps its share, the rest of its place is another's."""
    n = len(weights)
    left, other = weights.copy(), np.arange(n).astype(np.int32)
    small, large = 0, 0
    while small < n and left[small] >= 1:
        small += 1
    current = small
    while current < n:
        while large < n and left[large] < 1:
            large += 1
        if large == n:
            break
        other[current] = large
        left[large] -= 1 - left[current]
        if left[large] < 1 and large < small:
            current = large
            continue
        small += 1
        while small < n and left[small] >= 1:
            small += 1
        current = small
    return left, other


@numba.njit(cache=True, nogil=True)
def _draw_words(chance, starts, label_starts, labels, label_words, shares, others):  # type: ignore[no-untyped-def]
    ids = np.empty(starts[-1], np.int32)
    for document in range(len(starts) - 1):
        first, n_labels = label_starts[document], label_starts[document + 1] - label_starts[document]
        for i in range(starts[document], starts[document + 1]):
            if chance[0, i] < TOPICAL_SHARE and n_labels:
                words = label_words[labels[first + int(chance[0, i] / TOPICAL_SHARE * n_labels)]]
                ids[i] = words[int(chance[1, i] * len(words))]
            else:
                place = chance[1, i] * len(shares)
                word = int(place)
                ids[i] = word if place - word < shares[word] else others[word]
    return ids


def main(arguments: list[str] | None = None) -> None:
    """Write the files and say what is in them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synthetic", description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(STATISTICS), help="the data set to follow")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the documents and labels (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="directory for train.jsonl and test.jsonl")
    chosen = parser.parse_args(arguments)
    chosen.out.mkdir(parents=True, exist_ok=True)
    data = SyntheticData.of(chosen.name, chosen.scale, chosen.seed)
    for split in SPLITS:
        start, path = time.perf_counter(), chosen.out / f"{split}.jsonl"
        n_words, n_documents = data.write(split, path), data.n_documents(split)
        seconds = time.perf_counter() - start
        size = f"{n_documents:,} documents, {n_words / n_documents:.2f} words each, {path.stat().st_size / 1e6:,.0f} MB"
        print(f"{path}: {size}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
