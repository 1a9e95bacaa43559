"""`Fusion`: a small network that turns the features of a candidate label into the probability that it is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from haxmlnet.errors import ModelError

# The mean of several networks depends less on chance than one.
N_NETWORKS = 3
HIDDEN_SIZE = 64
STEPS = 3000
BATCH_SIZE = 1024
LEARNING_RATE = 1e-2
# Divided by the number of documents: the fewer there are, the stronger the regularization.
WEIGHT_DECAY, MAX_WEIGHT_DECAY = 80.0, 0.3
# With fewer documents than this, the fusion would fit noise.
MIN_DOCUMENTS = 50
Layers = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]
"""Inner weights and biases, outer weights and bias."""
_ARRAYS = ("centre", "scale", "inner_weights", "inner_biases", "outer_weights", "outer_bias")


@dataclass(frozen=True)
class Fusion:
    """Several networks of one hidden layer, joined to one, fitted on documents that the evidence was not trained on.

    A feature counts as it is, and as its distance from the best candidate of the same document.
    """

    centre: NDArray[np.float32]  # (2 F,)
    scale: NDArray[np.float32]  # (2 F,)
    inner_weights: NDArray[np.float32]  # (hidden, 2 F)
    inner_biases: NDArray[np.float32]
    outer_weights: NDArray[np.float32]  # (hidden,)
    outer_bias: NDArray[np.float32]  # (1,)

    def probabilities(self, features: NDArray[np.float32], present: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Return the probability of each candidate (B, C) from its features (B, C, F)."""
        probabilities = np.zeros(present.shape, np.float32)
        fuse_candidates(
            np.ascontiguousarray(features, np.float32), np.ascontiguousarray(present), *self._folded,
            self.outer_weights, self.outer_bias, probabilities,
        )  # fmt: skip
        return probabilities

    @cached_property
    def _folded(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """What a unit adds for a feature, what it subtracts for the document's best, and its bias.

        A feature and its distance from the best are two inputs, but of the second only the best is new: so a candidate
        is multiplied with one weight a feature, and the best ones once a document.
        """
        weights = (self.inner_weights / self.scale).T.astype(np.float64)  # (2 F, hidden)
        itself, behind = np.split(weights, 2)
        start = self.inner_biases - self.centre.astype(np.float64) @ weights
        return tuple(np.ascontiguousarray(x, np.float32) for x in (itself + behind, behind, start))  # type: ignore[return-value]

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the numbers by name, for saving."""
        return {name: getattr(self, name) for name in _ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_features: int) -> Fusion:
        """Make it from its named arrays, after checking them."""
        hidden, inputs = arrays.get("inner_biases", np.zeros(HIDDEN_SIZE)).shape[:1], (2 * n_features,)
        shapes = dict(zip(_ARRAYS, (inputs, inputs, hidden + inputs, hidden, hidden, (1,)), strict=True))
        for name, shape in shapes.items():
            if name not in arrays or arrays[name].shape != shape:
                raise ModelError(f"fusion: expected {name} of shape {shape}. Copy the model again, or train it anew.")
        return cls(**{name: arrays[name] for name in _ARRAYS})


def fit_fusion(
    features: NDArray[np.float32], present: NDArray[np.bool_], right: NDArray[np.bool_], seed: int
) -> Fusion | None:
    """Fit the fusion on candidates (B, C) known to be right or wrong; None where there is too little to learn."""
    if len(features) < MIN_DOCUMENTS or not right[present].any() or right[present].all():
        return None
    # A feature counts as it is, and as its distance from the best candidate of the same document.
    best = np.where(present[..., None], features, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    inputs = np.concatenate([features, features - best], axis=-1, dtype=np.float32)[present]
    centre, scale = inputs.mean(axis=0), inputs.std(axis=0) + 1e-6
    decay = min(WEIGHT_DECAY / len(features), MAX_WEIGHT_DECAY)
    layers = train_networks((inputs - centre) / scale, right[present].astype(np.float32), decay, seed)
    return Fusion(centre.astype(np.float32), scale.astype(np.float32), *layers)


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def fuse_candidates(  # type: ignore[no-untyped-def]
    features, present, weights, of_best, start, outer_weights, outer_bias, probabilities
):  # fmt: skip
    """Return the output of the network for each candidate that is present, document by document."""
    n_features, n_units, zero, one = features.shape[2], len(start), np.float32(0), np.float32(1)
    own_start, hidden = np.empty(n_units, np.float32), np.empty(n_units, np.float32)
    for row in range(features.shape[0]):
        for unit in range(n_units):
            own_start[unit] = start[unit]
        for feature in range(n_features):
            best = np.float32(-np.inf)
            for candidate in range(features.shape[1]):
                if present[row, candidate]:
                    best = max(best, features[row, candidate, feature])
            for unit in range(n_units):
                own_start[unit] -= best * of_best[feature, unit]
        for candidate in range(features.shape[1]):
            if not present[row, candidate]:
                continue
            for unit in range(n_units):
                hidden[unit] = own_start[unit]
            own = features[row, candidate]
            for feature in range(0, n_features - 3, 4):  # four at a time: sums are read and written less often
                a, b, c, d = own[feature], own[feature + 1], own[feature + 2], own[feature + 3]
                for unit in range(n_units):
                    hidden[unit] += (
                        a * weights[feature, unit] + b * weights[feature + 1, unit]
                        + c * weights[feature + 2, unit] + d * weights[feature + 3, unit]
                    )  # fmt: skip
            for feature in range(n_features - n_features % 4, n_features):
                for unit in range(n_units):
                    hidden[unit] += own[feature] * weights[feature, unit]
            output = outer_bias[0]
            for unit in range(n_units):
                output += max(hidden[unit], zero) * outer_weights[unit]
            probabilities[row, candidate] = one / (one + np.exp(-output))


def train_networks(inputs: NDArray[np.float32], targets: NDArray[np.float32], decay: float, seed: int) -> Layers:
    """Train networks from different starts, all in one step, and give one whose output is the mean of theirs."""
    import torch
    from torch import nn

    from haxmlnet.training.hardware import one_thread

    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        layers = [(nn.Linear(inputs.shape[1], HIDDEN_SIZE), nn.Linear(HIDDEN_SIZE, 1)) for _ in range(N_NETWORKS)]
    starts = (
        [inner.weight.T for inner, _ in layers], [inner.bias[None] for inner, _ in layers],
        [outer.weight.T for _, outer in layers], [outer.bias[None] for _, outer in layers],
    )  # fmt: skip
    parameters = [nn.Parameter(torch.stack(start).detach()) for start in starts]
    inner_weights, inner_biases, outer_weights, outer_biases = parameters  # (networks, 2 F, hidden), ...
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=decay, fused=True)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, STEPS)
    x, y = torch.from_numpy(inputs), torch.from_numpy(targets)
    generator = torch.Generator().manual_seed(seed)
    with one_thread():  # more would wait for each other longer than they work on so little
        for _ in range(STEPS):
            batch = torch.randint(len(x), (N_NETWORKS, min(BATCH_SIZE, len(x))), generator=generator)
            hidden = torch.baddbmm(inner_biases, x[batch], inner_weights).relu()
            outputs = torch.baddbmm(outer_biases, hidden, outer_weights)[..., 0]
            # The mean over all of them, times their number: each learns as if it were alone.
            loss = N_NETWORKS * nn.functional.binary_cross_entropy_with_logits(outputs, y[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    weights, biases, last_weights, last_biases = (parameter.detach().numpy() for parameter in parameters)
    by_unit = np.ascontiguousarray(weights.transpose(0, 2, 1)).reshape(-1, inputs.shape[1])
    mean_weights, mean_bias = last_weights.ravel() / N_NETWORKS, last_biases.mean(axis=0).ravel()
    return by_unit, biases.ravel(), mean_weights.astype(np.float32), mean_bias.astype(np.float32)
