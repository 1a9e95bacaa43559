from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from frames import config_of
from hypothesis import given

from haxmlnet.data.labels import LabelIndex
from haxmlnet.evidence.fold import Fold
from haxmlnet.evidence.fused_tree import FusedTree, describe_candidates, mark_true, train_fused_tree, unite
from haxmlnet.evidence.fusion import MIN_DOCUMENTS, Fusion
from haxmlnet.evidence.protocol import Documents, Evidence, Run
from haxmlnet.evidence.training_set import TrainingSet
from haxmlnet.ranking import ABSENT, Ranking, rank
from haxmlnet.tree import LabelTree

N_LABELS = 12
TREE = LabelTree((np.arange(N_LABELS, dtype=np.int32) // 4,), N_LABELS)


@dataclass(frozen=True)
class Known:
    """Evidence that knows a score for each document and label; the only feature of a document is its number."""

    scores: np.ndarray
    n_proposals: int = 3
    beam: int = 10
    block_size: int = 4

    name: ClassVar[str] = "known"
    of_tree: ClassVar[bool] = True
    feature_names: ClassVar[tuple[str, ...]] = ("score", "square")

    def examine(self, documents: Documents) -> KnownFindings:
        return KnownFindings(self, self.scores[documents.features.toarray()[:, 0].astype(int) - 1])

    def map_blocks(
        self, work: Callable[[Documents], Any], documents: Documents, n_threads: int
    ) -> Iterator[tuple[np.ndarray, Any]]:
        for start in reversed(range(0, len(documents), self.block_size)):
            rows = np.arange(start, min(start + self.block_size, len(documents)))[::-1].copy()
            yield rows, work(documents.take(rows))

    def run_jobs(self, jobs: Sequence[Callable[[], Any]], documents: Documents) -> list[Any]:
        return [job() for job in jobs]


@dataclass(frozen=True)
class KnownFindings:
    evidence: Known
    scores: np.ndarray

    def ranking(self, k: int) -> Ranking:
        ids = np.tile(np.arange(N_LABELS, dtype=np.int32), (len(self.scores), 1))
        return rank(ids, self.scores.astype(np.float32), k, None, N_LABELS)

    @property
    def proposals(self) -> np.ndarray:
        return self.ranking(self.evidence.n_proposals).ids

    def features(self, candidates: np.ndarray) -> np.ndarray:
        own = np.take_along_axis(self.scores, np.maximum(candidates, 0), axis=1)
        return np.stack([own, own**2], axis=-1).astype(np.float32)


class OtherKnown(Known):
    name: ClassVar[str] = "other"
    of_tree: ClassVar[bool] = False


def numbered(n_documents: int) -> Documents:
    numbers = np.arange(1, n_documents + 1, dtype=np.float32)[:, None]
    return Documents(None, np.zeros(0, np.float32), sp.csr_array(numbers))


def sum_of_scores() -> Fusion:
    """Make the fusion whose probability is the sigmoid of the sum of both scores."""
    weights, none = np.array([[1, 0, 1, 0, 0, 0, 0, 0]], np.float32), np.zeros(8, np.float32)
    one, hundred = np.ones(1, np.float32), np.full(1, 100, np.float32)  # far from where a hidden unit is cut off
    return Fusion(none, np.ones(8, np.float32), weights, hundred, one, -hundred)


def random_scores(seed: int, n_documents: int = 10) -> np.ndarray:
    return np.random.default_rng(seed).random((n_documents, N_LABELS))


def fused(fusion: Fusion | None) -> FusedTree:
    return FusedTree(TREE, [Known(random_scores(0)), OtherKnown(random_scores(1))], fusion)


@given(st.integers(0, 2**32), st.integers(0, 4), st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_a_label_that_comes_again_is_absent(seed, n_documents, widths):
    rng = np.random.default_rng(seed)
    proposals = []
    for width in widths:
        labels = [rng.permutation(8)[:width] for _ in range(n_documents)]
        ids = np.array(labels, np.int32).reshape(n_documents, width)
        ids[rng.random(ids.shape) < 0.3] = ABSENT
        proposals.append(ids)
    candidates = unite(proposals)
    assert candidates.dtype == np.int32
    expected = np.concatenate(proposals, axis=1)
    for row in expected:
        seen: set[int] = set()
        for place, label in enumerate(row.tolist()):
            if label in seen:
                row[place] = ABSENT
            seen.add(label)
    np.testing.assert_array_equal(candidates, expected)


def test_all_findings_describe_all_candidates():
    model = fused(None)
    findings = model.examine(numbered(10))
    candidates, features = describe_candidates(findings)
    assert candidates.shape == (10, 6)
    assert model.feature_names == ["known: score", "known: square", "other: score", "other: square"]
    assert features.shape == (10, 6, len(model.feature_names))
    present, rows = candidates != ABSENT, np.arange(10)[:, None]
    for column, seed in ((0, 0), (2, 1)):
        scores = random_scores(seed)[rows, candidates]
        np.testing.assert_allclose(features[..., column][present], scores[present], rtol=1e-6)
        np.testing.assert_allclose(features[..., column + 1][present], scores[present] ** 2, rtol=1e-6)
    for row in range(10):
        best = {label for seed in (0, 1) for label in np.argsort(-random_scores(seed)[row])[:3].tolist()}
        assert sorted(candidates[row][present[row]].tolist()) == sorted(best)


@pytest.mark.parametrize("k", [1, 3, 12, 100])
def test_without_a_fusion_the_first_ranks_alone(k):
    ranking = fused(None).rank(numbered(10), k, 1)
    expected = np.sort(random_scores(0), axis=1)[:, ::-1][:, :k]
    np.testing.assert_allclose(ranking.scores, expected, rtol=1e-6)
    assert ranking.ids.tolist() == np.argsort(-random_scores(0), axis=1)[:, :k].tolist()


def test_the_fusion_ranks_the_candidates_and_the_first_what_is_left():
    ranking = fused(sum_of_scores()).rank(numbered(10), N_LABELS, 1)
    first, other = random_scores(0), random_scores(1)
    for row in range(10):
        candidates = {label for scores in (first, other) for label in np.argsort(-scores[row])[:3].tolist()}
        judged = sorted(candidates, key=lambda label: -(first[row, label] + other[row, label]))
        left = sorted(set(range(N_LABELS)) - candidates, key=lambda label: -first[row, label])
        assert ranking.ids[row].tolist() == judged + left
        probabilities = 1 / (1 + np.exp(-(first[row] + other[row])[judged]))
        lowered = np.minimum.accumulate(np.concatenate([probabilities, first[row, left]]))
        np.testing.assert_allclose(ranking.scores[row], lowered, rtol=1e-4)


@pytest.mark.parametrize("fusion", [None, sum_of_scores()], ids=["alone", "fused"])
def test_neither_order_nor_scores_of_the_first_labels_depend_on_k_or_the_block(fusion):
    model = fused(fusion)
    every = model.rank(numbered(10), N_LABELS, 1)
    for k in range(1, N_LABELS):
        ranking = model.rank(numbered(10), k, 1)
        np.testing.assert_array_equal(ranking.ids, every.ids[:, :k])
        np.testing.assert_array_equal(ranking.scores, every.scores[:, :k])
    for row in range(10):
        alone = model.rank(numbered(10).take(np.array([row])), 4, 1)
        np.testing.assert_array_equal(alone.ids[0], every.ids[row, :4])
        np.testing.assert_allclose(alone.scores[0], every.scores[row, :4], rtol=1e-6)


def test_another_beam_makes_another_tree():
    model = fused(None)
    assert model.with_beam(None) is model.with_beam(10) is model
    narrow = model.with_beam(3)
    assert (narrow.first.beam, model.first.beam) == (3, 10)
    assert narrow.evidence[1:] == model.evidence[1:]


def test_no_documents():
    assert fused(sum_of_scores()).rank(numbered(0), 5, 1).ids.shape == (0, 5)


def test_true_labels_are_marked():
    targets = sp.csr_array(np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]], np.float32))
    labels = np.array([[2, 0, ABSENT], [0, 1, 2], [0, ABSENT, 1]], np.int32)
    assert mark_true(labels, targets).tolist() == [[True, False, False], [False] * 3, [True, False, False]]


class Trained(Known):
    """Evidence that notes how it is trained, and whether an earlier one of its kind was gone by then."""

    log: ClassVar[list[tuple[str, int, bool]]]
    alive: ClassVar[dict[str, weakref.ref[Any]]]
    pays: ClassVar[bool] = False
    gives_nothing: ClassVar[bool] = False

    @classmethod
    def train(cls, fold: Fold, tree: LabelTree, run: Run) -> Any:
        before = Trained.alive.get(cls.name, lambda: None)()
        Trained.log.append((cls.name, len(fold.kept), before is None))
        if cls.gives_nothing:
            return None
        truth = fold.whole.targets.toarray()
        noise = np.random.default_rng(len(cls.name)).random(truth.shape)
        made = cls(truth + 2 * noise)
        Trained.alive[cls.name] = weakref.ref(made)
        return made

    def pays_to_retrain(self, fold: Fold) -> bool:
        return self.pays


class First(Trained):
    name: ClassVar[str] = "first"


class Second(Trained):
    name: ClassVar[str] = "second"
    pays: ClassVar[bool] = True


class Third(Trained):
    name: ClassVar[str] = "third"
    pays: ClassVar[bool] = True


class PayingFirst(First):
    pays: ClassVar[bool] = True


class Nothing(Trained):
    name: ClassVar[str] = "nothing"
    gives_nothing: ClassVar[bool] = True


def train(
    sources: list[type[Evidence]], fraction: float = 0.4, n_documents: int = 200, *, is_true: bool = True
) -> FusedTree:
    Trained.log, Trained.alive = [], {}
    labels = np.random.default_rng(5).integers(0, N_LABELS, (n_documents, 2))
    targets = np.zeros((n_documents, N_LABELS), np.float32)
    np.put_along_axis(targets, labels, float(is_true), axis=1)
    index = LabelIndex(np.array([f"label {i}" for i in range(N_LABELS)], object))
    features = numbered(n_documents).features
    whole = TrainingSet(sp.csr_array(targets), index, given_features=features)
    config = config_of(n_documents, N_LABELS, validation_fraction=fraction)
    return train_fused_tree(Fold.split(whole, config, None, 0), TREE, sources, Run(config))


def test_what_pays_is_trained_again_on_all_documents_after_the_old_one_is_gone():
    model = train([First, Second, Nothing, Third])
    assert [evidence.name for evidence in model.evidence] == ["first", "second", "third"]
    assert model.fusion is not None
    assert Trained.log == [
        ("first", 120, True), ("second", 120, True), ("nothing", 120, True), ("third", 120, True),
        ("second", 200, True), ("third", 200, True),
    ]  # fmt: skip


def test_the_first_is_trained_again_where_it_pays():
    model = train([PayingFirst, Third])
    assert [entry[:2] for entry in Trained.log] == [("first", 120), ("third", 120), ("first", 200), ("third", 200)]
    assert all(was_gone for *_, was_gone in Trained.log)
    assert type(model.first) is PayingFirst


def test_nothing_is_trained_again_where_no_document_was_left_out():
    train([PayingFirst], fraction=0)
    assert Trained.log == [("first", 200, True)]


def test_the_fusion_learns_what_counts():
    model = train([First, Second])
    # The truth is in both scores, each time under noise of its own.
    ranking = model.rank(numbered(200), 1, 1)
    targets = model.first.scores.argmax(axis=1)
    assert (ranking.scores > 0).all()
    labels = np.random.default_rng(5).integers(0, N_LABELS, (200, 2))
    fused_right = (labels == ranking.ids).any(axis=1).mean()
    alone_right = (labels == targets[:, None]).any(axis=1).mean()
    assert fused_right > alone_right + 0.05


def test_too_few_held_out_documents_leave_the_first_alone():
    model = train([First, Second], fraction=0.4, n_documents=round((MIN_DOCUMENTS - 2) / 0.4))
    assert model.fusion is None
    assert len(model.evidence) == 1
    assert {name for name, *_ in Trained.log} == {"first"}


def test_where_nothing_can_be_learned_the_first_ranks_alone():
    model = train([First, Second], is_true=False)
    assert model.fusion is None
    assert len(model.evidence) == 1
    assert model.rank(numbered(3), 2, 1).ids.shape == (3, 2)
