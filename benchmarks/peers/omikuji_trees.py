"""omikuji: partitioned label trees of linear classifiers, as in Parabel or Bonsai."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import omikuji  # type: ignore[import-not-found]
import scipy.sparse as sp

from benchmarks.peers.exchange import N_BEST, Ranked, Steps, Task, rank_pairs, run_step

BEAM = 10


def write_training_file(task: Task) -> Path:
    """Write features and labels in the form of the Extreme Classification Repository, the only one it reads."""
    features, labels = task.matrix("features_train"), task.matrix("labels_train")
    path = task.out / "train.txt"
    with open(path, "w", encoding="ascii") as file:
        file.write(f"{features.shape[0]} {features.shape[1]} {labels.shape[1]}\n")
        rows = zip(pairwise(features.indptr), pairwise(labels.indptr), strict=True)
        for (start, end), (first, last) in rows:
            words = zip(features.indices[start:end].tolist(), features.data[start:end].tolist(), strict=True)
            pairs = " ".join([f"{word}:{value:.6g}" for word, value in words])
            file.write(f"{','.join(map(str, labels.indices[first:last].tolist()))} {pairs}\n")
    return path


def fit(task: Task, training_file: Path) -> Any:
    """Train; the time includes reading the file. omikuji takes no seed: each run differs a little."""
    parameters = omikuji.Model.default_hyper_param()
    for name, value in task.settings.items():
        getattr(parameters, name)  # an unknown name must not pass unnoticed
        setattr(parameters, name, value)
    return omikuji.Model.train_on_data(str(training_file), parameters, n_threads=task.threads)


def save(task: Task, model: Any) -> None:
    """Save, and drop the training file."""
    model.save(str(task.model))
    (task.out / "train.txt").unlink()


def load(task: Task) -> Any:
    """Load a model that predicts with the task's threads."""
    model = omikuji.Model.load(str(task.model))
    model.init_prediction_thread_pool(task.threads)
    return model


def predict(model: Any, features: sp.csr_matrix) -> Ranked:
    """Predict one by one: there is no call for many."""
    rows = []
    for start, end in pairwise(features.indptr):
        words = zip(features.indices[start:end].tolist(), features.data[start:end].tolist(), strict=True)
        rows.append(model.predict(list(words), beam_size=BEAM, top_k=N_BEST))
    return rank_pairs(rows)


if __name__ == "__main__":
    run_step(
        Steps(
            write_training_file, fit, save, load, lambda task: task.matrix("features_judged"), predict,
            packages=("omikuji",),
        )
    )  # fmt: skip
