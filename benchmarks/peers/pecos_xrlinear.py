"""libpecos: XR-Linear, a tree of linear classifiers over clusters of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory  # type: ignore[import-not-found]
from pecos.xmc.xlinear.model import XLinearModel  # type: ignore[import-not-found]

from benchmarks.peers.exchange import N_BEST, Ranked, Steps, Task, rank_pairs, run_step


@dataclass(frozen=True)
class Loaded:
    """A model, and how it predicts."""

    model: Any
    beam: int
    threads: int


def read_matrices(task: Task) -> tuple[sp.csr_matrix, sp.csc_matrix]:
    """Read features and labels; labels are wanted by column, as float32."""
    features = task.matrix("features_train").astype(np.float32)
    features.sort_indices()
    return features, sp.csc_matrix(task.matrix("labels_train"), dtype=np.float32)


def fit(task: Task, data: tuple[sp.csr_matrix, sp.csc_matrix]) -> Any:
    """Cluster the labels by the sums of their documents (PIFA), then train level by level."""
    features, labels = data
    embedding = LabelEmbeddingFactory.create(labels, features, method="pifa")
    clusters = Indexer.gen(
        embedding, indexer_type="hierarchicalkmeans", seed=task.seed, threads=task.threads,
        **task.settings.get("indexer", {}),
    )  # fmt: skip
    return XLinearModel.train(features, labels, C=clusters, threads=task.threads, **task.settings.get("model", {}))


def save(task: Task, model: Any) -> None:
    """Save to the model directory."""
    model.save(str(task.model))


def load(task: Task) -> Loaded:
    """Load in the form that only predicts, which is its fastest."""
    model = XLinearModel.load(str(task.model), is_predict_only=True)
    return Loaded(model, task.settings.get("beam_size", 10), task.threads)


def read_queries(task: Task) -> sp.csr_matrix:
    """Read the features of the judged documents."""
    features = task.matrix("features_judged").astype(np.float32)
    features.sort_indices()
    return features


def predict(loaded: Loaded, features: sp.csr_matrix) -> Ranked:
    """Rank the labels that the beam search finds."""
    scores = loaded.model.predict(features, beam_size=loaded.beam, only_topk=N_BEST, threads=loaded.threads)
    rows = []
    for row in range(features.shape[0]):
        part = slice(scores.indptr[row], scores.indptr[row + 1])
        pairs = zip(scores.indices[part].tolist(), scores.data[part].tolist(), strict=True)
        rows.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
    return rank_pairs(rows)


if __name__ == "__main__":
    run_step(Steps(read_matrices, fit, save, load, read_queries, predict, packages=("libpecos",)))
