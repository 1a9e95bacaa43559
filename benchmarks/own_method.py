"""One of haxmlnet's methods as the steps of the bench."""

from __future__ import annotations

import inspect
import json
from typing import Any

from benchmarks.peers.exchange import N_BEST, Ranked, Steps, Task, run_step
from haxmlnet.cli.console import ConsoleProgress
from haxmlnet.models import METHODS, load_model
from haxmlnet.settings import preset

Labeled = tuple[list[str], list[list[str]]]


def read_training(task: Task) -> dict[str, Any]:
    """Read texts and labels, and the dev documents where the task gives them."""
    train, dev = _labeled(task, "train"), _labeled(task, "dev") if task.use_dev else ([], [])
    return {"train": train, "validation": dev if dev[0] else None}


def fit(task: Task, data: dict[str, Any]) -> Any:
    """Train the method."""
    settings = dict(task.settings)
    method = METHODS[settings.pop("method")]
    name = settings.pop("preset")
    if name is not None:
        settings = {**preset(name), **settings}
    known = inspect.signature(method).parameters
    common = {"random_state": task.seed, "n_jobs": task.threads}
    settings = {name: value for name, value in common.items() if name in known} | settings
    model: Any = method(**settings)
    given: dict[str, Any] = {"progress": ConsoleProgress()}  # lines in the log of the run
    if data["validation"] is not None:
        given["validation"] = data["validation"]
    return model.fit(*data["train"], **given)


def save(task: Task, model: Any) -> None:
    """Save the model, and what it says about its training."""
    model.save(task.model)
    (task.out / "details.json").write_text(json.dumps(model.training_, default=str), "utf-8")


def predict(model: Any, texts: list[str]) -> Ranked:
    """Rank; the bench orders labels by name, as every method does that is fitted on names."""
    ranking = model.predict(texts, k=N_BEST)
    return ranking.ids, ranking.scores


def load(task: Task) -> Any:
    """Load the model and check that its label ids are those of the bench."""
    model = load_model(task.model)
    assert model.classes_.tolist() == task.label_names(), "the order of the labels differs"
    return model


def read_queries(task: Task) -> Any:
    """Read the texts of the judged documents."""
    return [document["text"] for document in task.documents("judged")]


def _labeled(task: Task, part: str) -> Labeled:
    documents = list(task.documents(part))
    return [document["text"] for document in documents], [document["labels"] for document in documents]


if __name__ == "__main__":
    run_step(
        Steps(read_training, fit, save, load, read_queries, predict, ("haxmlnet", "torch", "scikit-learn", "numba"))
    )
