from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from haxmlnet.ranking import ABSENT, Ranking, average_rankings, extend_ranking, is_full, rank, rank_csr

NAMES = np.array(["ant", "bee", "cat", "dog"], dtype=object)


def ids_of(*rows: list[int]) -> np.ndarray:
    return np.array(rows, dtype=np.int32)


def scores_of(*rows: list[float]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


@pytest.fixture
def ranking() -> Ranking:
    """Three labels for the first document, one for the second."""
    return Ranking(ids_of([2, 0, 3], [1, -1, -1]), scores_of([0.75, 0.5, 0.25], [0.5, 0, 0]), NAMES)


@st.composite
def candidates(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Different ids in each row, some absent, with few different scores, so that many tie."""
    n, width = draw(st.integers(0, 5)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ids = np.array([rng.permutation(20)[:width] for _ in range(n)], dtype=np.int32).reshape(n, width)
    ids[rng.random(ids.shape) < draw(st.sampled_from([0, 0.3, 1]))] = ABSENT
    scores = rng.integers(-1, draw(st.integers(1, 30)), ids.shape) / np.float32(8)
    return ids, scores.astype(np.float32), draw(st.integers(1, 14))


@settings(max_examples=60, deadline=None)
@given(candidates())
def test_rank_equals_a_python_sort(case):
    ids, scores, k = case
    result = rank(ids, scores, k, None, 20)
    assert result.ids.shape == result.scores.shape == (len(ids), min(k, ids.shape[1]))
    for row in range(len(ids)):
        present = [(-s, i) for i, s in zip(ids[row].tolist(), scores[row].tolist(), strict=True) if i >= 0]
        assert result[row] == [(i, -s) for s, i in sorted(present)[:k]]
        n = len(result[row])
        assert (result.ids[row, n:] == ABSENT).all()
        assert (result.scores[row, n:] == 0).all()


def test_rank_does_not_depend_on_the_order_of_candidates():
    rng = np.random.default_rng(0)
    ids, scores = np.arange(200, dtype=np.int32)[None], np.full((1, 200), 0.5, np.float32)
    for _ in range(5):
        order = rng.permutation(200)
        assert rank(ids[:, order], scores[:, order], 3, None, 200).ids.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("k", [1, 7, 150, 599, 600])
def test_rank_of_many_candidates_equals_numpy(k):
    rng = np.random.default_rng(k)
    ids = np.array([rng.permutation(1000)[:600] for _ in range(20)], np.int32)
    scores = rng.normal(size=ids.shape).astype(np.float32)
    scores[:10] = np.round(scores[:10], 1)  # many are equal, 0.0 and -0.0 among them
    order = np.lexsort((ids, -scores), axis=1)[:, :k]
    result = rank(ids, scores, k, None, 1000)
    np.testing.assert_array_equal(result.ids, np.take_along_axis(ids, order, 1))
    np.testing.assert_array_equal(result.scores, np.take_along_axis(scores, order, 1))


def test_rank_takes_any_layout_of_candidates():
    ids, scores = np.arange(5, dtype=np.int64), np.array([[1, 5, 3, 2, 4], [5, 4, 3, 2, 1]], np.float64)
    assert rank(np.broadcast_to(ids, (2, 5)), scores, 2, None, 5).ids.tolist() == [[1, 4], [0, 1]]
    assert rank(np.broadcast_to(ids, (2, 5))[:, ::-1], scores[:, ::-1], 2, None, 5).ids.tolist() == [[1, 4], [0, 1]]


def test_an_id_that_occurs_twice_pushes_no_better_one_out():
    assert rank(ids_of([3, 3, 3, 1]), scores_of([0.5, 0.5, 0.5, 0.9]), 2, None, 4).ids.tolist() == [[1, 3]]


def test_labels_are_names_and_none_where_there_is_none(ranking):
    assert ranking.labels.tolist() == [["cat", "ant", "dog"], ["bee", None, None]]


def test_labels_without_names_are_the_ids():
    assert Ranking(ids_of([2, -1]), scores_of([0.5, 0])).labels.tolist() == [[2, None]]


def test_iteration_gives_pairs_of_label_and_score(ranking):
    assert len(ranking) == 2
    assert list(ranking) == [[("cat", 0.75), ("ant", 0.5), ("dog", 0.25)], [("bee", 0.5)]]
    assert ranking[-1] == [("bee", 0.5)]


def test_to_csr_has_a_column_for_every_name(ranking):
    expected = [[0.5, 0, 0.75, 0.25], [0, 0.5, 0, 0]]
    assert ranking.to_csr().toarray().tolist() == expected
    assert ranking.to_csr().nnz == 4


def test_to_csr_without_names_has_n_ids_columns():
    assert Ranking(ids_of([1]), scores_of([1.0]), None, 3).to_csr().toarray().tolist() == [[0, 1, 0]]


def test_above_keeps_scores_at_the_threshold(ranking):
    kept = ranking.above(0.5)
    assert list(kept) == [[("cat", 0.75), ("ant", 0.5)], [("bee", 0.5)]]
    assert kept.scores[0].tolist() == [0.75, 0.5, 0]
    assert list(ranking.above(0.8)) == [[], []]
    assert list(ranking.above(0)) == list(ranking)


@pytest.mark.parametrize(("k", "n_kept"), [(0, [0, 0]), (1, [1, 1]), (2, [2, 1]), (9, [3, 1])])
def test_top(ranking, k, n_kept):
    assert [len(pairs) for pairs in ranking.top(k)] == n_kept
    assert list(ranking.top(k)) == [pairs[:k] for pairs in ranking]


def test_average_counts_a_missing_label_as_zero(ranking):
    other = Ranking(ids_of([3, 1], [1, 0]), scores_of([0.75, 0.5], [0.25, 0.125]), NAMES)
    merged = average_rankings([ranking, other], 3)
    # The first document's dog has (0.25 + 0.75) / 2; its ant and bee both have 0.25, and ant comes first.
    assert list(merged) == [[("dog", 0.5), ("cat", 0.375), ("ant", 0.25)], [("bee", 0.375), ("ant", 0.0625)]]


def test_average_of_one_ranking_is_its_top(ranking):
    assert list(average_rankings([ranking], 2)) == list(ranking.top(2))


def test_extension_lowers_the_scores_of_what_it_appends(ranking):
    more = Ranking(ids_of([3, 1, 2], [3, 2, 1]), scores_of([0.9, 0.2, 0.1], [0.9, 0.75, 0.1]), NAMES)
    extended = extend_ranking(ranking, more, 4)
    assert list(extended) == [
        [("cat", 0.75), ("ant", 0.5), ("dog", 0.25), ("bee", pytest.approx(0.2))],
        [("bee", 0.5), ("dog", 0.5), ("cat", 0.5)],
    ]
    assert extended.ids.tolist() == [[2, 0, 3, 1], [1, 3, 2, ABSENT]]
    assert extended.scores[1].tolist() == [0.5, 0.5, 0.5, 0]


@settings(max_examples=100, deadline=None)
@given(candidates(), candidates())
def test_extension_equals_a_loop_over_lists(first, second):
    n = min(len(first[0]), len(second[0]))
    k = first[2]
    best = rank(first[0][:n], first[1][:n], 5, None, 20)
    more = rank(second[0][:n], second[1][:n], 12, None, 20)
    extended = extend_ranking(best, more, k)
    assert extended.ids.shape == extended.scores.shape == (n, k)
    assert extended.n_ids == 20
    for row in range(n):
        expected = best[row]
        for label, score in more[row]:
            if label not in [known for known, _ in expected]:
                expected.append((label, min([score, *(s for _, s in expected)])))
        assert extended[row] == expected[:k]
        assert (extended.ids[row, len(expected) :] == ABSENT).all()
        assert (np.diff(extended.scores[row, : len(extended[row])]) <= 0).all()


def test_extension_of_nothing_is_the_other_ranking(ranking):
    nothing = Ranking(np.zeros((2, 0), np.int32), np.zeros((2, 0), np.float32), NAMES)
    assert list(extend_ranking(nothing, ranking, 3)) == list(ranking)
    assert list(extend_ranking(ranking, nothing, 3)) == list(ranking)
    assert list(extend_ranking(ranking.above(2), ranking.top(2), 3)) == list(ranking.top(2))


def test_a_ranking_is_full_with_k_labels_or_all_there_are(ranking):
    assert is_full(ranking.top(1), 1)
    assert not is_full(ranking.top(1), 2)
    assert not is_full(ranking, 2)
    assert is_full(Ranking(ids_of([0, 1, 2, 3]), scores_of([4, 3, 2, 1]), NAMES), 9)


def test_rank_csr_ranks_stored_entries_only():
    matrix = sp.csr_array(np.array([[0, 0.5, 0.25, 0], [0, 0, 0, 0], [-1, 0, 0, 0.5]], np.float32))
    assert list(rank_csr(matrix, 9, NAMES)) == [
        [("bee", 0.5), ("cat", 0.25)],
        [],
        [("dog", 0.5), ("ant", -1.0)],
    ]
    assert [len(pairs) for pairs in rank_csr(matrix, 1, NAMES)] == [1, 0, 1]


@settings(max_examples=60, deadline=None)
@given(candidates())
def test_rank_csr_undoes_to_csr(case):
    ids, scores, k = case
    ranking = rank(ids, scores + 1, k, None, 20)
    assert list(rank_csr(ranking.to_csr(), k, None)) == list(ranking)


def test_no_documents():
    empty = rank(np.zeros((0, 4), np.int32), np.zeros((0, 4), np.float32), 2, NAMES, 4)
    assert (list(empty), empty.labels.shape, empty.to_csr().shape) == ([], (0, 2), (0, 4))
    assert list(average_rankings([empty, empty], 2)) == []
    assert list(extend_ranking(empty, empty, 3)) == []
