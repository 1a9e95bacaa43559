from __future__ import annotations

import numpy as np
import pytest

from haxmlnet.errors import ModelError
from haxmlnet.evidence.fusion import MIN_DOCUMENTS, N_NETWORKS, Fusion, fit_fusion


def candidates(n_documents: int, seed: int):
    """Make candidates of which the first feature tells the chance of being right, and the second nothing."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_documents, 20, 2)).astype(np.float32)
    chance = 1 / (1 + np.exp(-2 * features[..., 0]))
    present = rng.random((n_documents, 20)) < 0.9
    return features, present, (rng.random((n_documents, 20)) < chance) & present, chance


@pytest.fixture(scope="module")
def fusion() -> Fusion:
    return fit_fusion(*candidates(1000, 0)[:3], seed=0)


def test_a_probability_of_a_tenth_is_right_one_time_in_ten(fusion):
    features, present, right, _ = candidates(1000, 1)
    probabilities = fusion.probabilities(features, present)[present]
    for low in np.arange(0, 1, 0.1):
        inside = (probabilities >= low) & (probabilities < low + 0.1)
        assert abs(right[present][inside].mean() - probabilities[inside].mean()) < 0.05


def test_the_fusion_learns_which_feature_counts(fusion):
    features, present, _, chance = candidates(200, 2)
    errors = np.abs(fusion.probabilities(features, present) - chance)[present]
    assert errors.mean() < 0.05


def test_the_fusion_is_the_mean_of_several_that_differ(fusion):
    units = np.split(np.arange(len(fusion.inner_biases)), N_NETWORKS)
    features, present, _, _ = candidates(200, 6)
    outputs = []
    for own in units:
        alone = Fusion(
            fusion.centre, fusion.scale, fusion.inner_weights[own], fusion.inner_biases[own],
            N_NETWORKS * fusion.outer_weights[own], fusion.outer_bias,
        )  # fmt: skip
        probabilities = alone.probabilities(features, present)[present].astype(np.float64)
        outputs.append(np.log(probabilities / (1 - probabilities)))
    together = fusion.probabilities(features, present)[present]
    np.testing.assert_allclose(together, 1 / (1 + np.exp(-np.mean(outputs, axis=0))), atol=1e-4)
    spread = np.std(outputs, axis=0).mean()
    assert 0.01 < spread < 1


def test_absent_candidates_have_no_probability_and_no_influence(fusion):
    features, present, _, _ = candidates(50, 3)
    probabilities = fusion.probabilities(features, present)
    assert (probabilities[~present] == 0).all()
    changed = np.where(present[..., None], features, 1e6).astype(np.float32)
    np.testing.assert_array_equal(fusion.probabilities(changed, present), probabilities)


def test_probabilities_are_those_of_the_network_in_numpy(fusion):
    features, present, _, _ = candidates(30, 4)
    present[5] = False
    for row in range(30):
        itself = features[row][present[row]].astype(np.float64)
        inputs = np.hstack([itself, itself - itself.max(axis=0, initial=-np.inf)])
        hidden = np.maximum((inputs - fusion.centre) / fusion.scale @ fusion.inner_weights.T + fusion.inner_biases, 0)
        expected = 1 / (1 + np.exp(-(hidden @ fusion.outer_weights + fusion.outer_bias)))
        np.testing.assert_allclose(fusion.probabilities(features, present)[row][present[row]], expected, atol=1e-6)


def test_a_document_has_the_same_probabilities_alone_and_among_others(fusion):
    features, present, _, _ = candidates(30, 5)
    together = fusion.probabilities(features, present)
    alone = [fusion.probabilities(features[[row]], present[[row]]) for row in range(30)]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def test_the_same_seed_gives_the_same_fusion():
    data = candidates(100, 0)[:3]
    first, second = fit_fusion(*data, seed=3).to_arrays(), fit_fusion(*data, seed=3).to_arrays()
    assert all((first[name] == second[name]).all() for name in first)


def test_too_little_to_learn_from_gives_no_fusion():
    features, present, right, _ = candidates(MIN_DOCUMENTS, 0)
    assert fit_fusion(features[:-1], present[:-1], right[:-1], seed=0) is None
    assert fit_fusion(features, present, np.zeros_like(right), seed=0) is None
    assert fit_fusion(features, present, right, seed=0) is not None


def test_arrays_of_another_model_are_refused():
    arrays = fit_fusion(*candidates(100, 0)[:3], seed=0).to_arrays()
    assert Fusion.from_arrays(arrays, 2).outer_bias == arrays["outer_bias"]
    with pytest.raises(ModelError, match="centre"):
        Fusion.from_arrays(arrays, 3)
    del arrays["scale"]
    with pytest.raises(ModelError, match="scale"):
        Fusion.from_arrays(arrays, 2)
