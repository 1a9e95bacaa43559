"""libmultilabel: AttentionXML with two levels, the neural peer."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from libmultilabel.common_utils import AttributeDict  # type: ignore[import-not-found]
from libmultilabel.nn.attentionxml import PLTDataset, PLTModel, PLTTrainer  # type: ignore[import-not-found]
from libmultilabel.nn.data_utils import load_or_build_text_dict, tokenize  # type: ignore[import-not-found]
from libmultilabel.nn.model import Model  # type: ignore[import-not-found]
from libmultilabel.nn.nn_utils import set_seed  # type: ignore[import-not-found]
from scipy.special import expit

from benchmarks.peers.exchange import N_BEST, Ranked, Steps, Task, run_step

HELD_OUT, MOST_HELD_OUT = 0.05, 2000
"""Training documents that choose its best weights where no dev documents are given, as HAXMLNet does by default."""


@dataclass(frozen=True)
class Loaded:
    """Both levels, and what turns texts into their input."""

    trainer: Any
    levels: tuple[Any, Any]
    clusters: Any
    label_ids: np.ndarray[Any, np.dtype[np.int32]]
    """The label id of each class: the library sorts its classes as strings."""


def read_training(task: Task) -> dict[str, Any]:
    """Read texts and label ids, split off what chooses the weights, and unpack the word vectors."""
    torch.set_num_threads(task.threads)
    ids = {name: str(i) for i, name in enumerate(task.label_names())}
    train = [_instance(document, ids) for document in task.documents("train") if document["labels"]]
    held_out = [_instance(document, ids) for document in task.documents("dev")] if task.use_dev else []
    if not held_out:
        n_held_out = min(round(HELD_OUT * len(train)), MOST_HELD_OUT)
        order = np.random.default_rng(task.seed).permutation(len(train))
        held_out = [train[i] for i in order[:n_held_out]]
        train = [train[i] for i in np.sort(order[n_held_out:])]
    vectors = task.out / "vectors.txt"
    with gzip.open(task.settings["vectors"]) as packed, open(vectors, "wb") as plain:
        shutil.copyfileobj(packed, plain)
    return {"train": train, "val": held_out, "classes": sorted(ids.values()), "vectors": vectors}


def fit(task: Task, data: dict[str, Any]) -> tuple[Any, dict[str, int]]:
    """Tokenize, read the word vectors, build the clusters, train both levels."""
    set_seed(task.seed)
    datasets = {
        part: [{"text": tokenize(d["text"]), "label": d["label"]} for d in data[part]] for part in ("train", "val")
    }
    words, vectors = load_or_build_text_dict(datasets["train"], embed_file=str(data["vectors"]), silent=True)
    trainer = PLTTrainer(_configuration(task), classes=data["classes"], embed_vecs=vectors, word_dict=words)
    trainer.fit(datasets)
    return trainer, words


def save(task: Task, fitted: tuple[Any, dict[str, int]]) -> None:
    """Keep words and classes beside the checkpoints, and drop what prediction does not need."""
    trainer, words = fitted
    parts = {"words": words, "classes": list(trainer.classes)}
    (task.model / "words.json").write_text(json.dumps(parts), "utf-8")
    for path in [*task.model.glob("last*.ckpt"), task.out / "vectors.txt"]:
        path.unlink()


def load(task: Task) -> Loaded:
    """Load both levels."""
    torch.set_num_threads(task.threads)
    parts = json.loads((task.model / "words.json").read_text("utf-8"))
    trainer = PLTTrainer(_configuration(task), classes=parts["classes"], word_dict=parts["words"])
    first = Model.load_from_checkpoint(
        trainer.get_best_model_path(level=0), save_k_predictions=trainer.beam_width, weights_only=False
    )
    second = PLTModel.load_from_checkpoint(
        trainer.get_best_model_path(level=1), save_k_predictions=N_BEST, weights_only=False
    )
    clusters = np.load(trainer.get_cluster_path(), allow_pickle=True)  # the library's own form, made by this run
    return Loaded(trainer, (first.eval(), second.eval()), clusters, np.array(parts["classes"]).astype(np.int32))


@torch.inference_mode()
def predict(loaded: Loaded, texts: list[str]) -> Ranked:
    """Find the best clusters, then rank their labels."""
    trainer = loaded.trainer
    encoded = trainer.reformat_text([{"text": tokenize(text)} for text in texts])
    ids, scores = [], []
    for start in range(0, len(texts), trainer.config.eval_batch_size):
        batch = encoded[start : start + trainer.config.eval_batch_size]
        above = loaded.levels[0].predict_step({"text": batch}, 0)
        labels, chances = trainer.cluster2label(loaded.clusters, above["top_k_pred"], expit(above["top_k_pred_scores"]))
        best = loaded.levels[1].predict_step(_candidates(loaded, batch, labels, chances), 0)
        ids.append(loaded.label_ids[best["top_k_pred"]])
        scores.append(expit(best["top_k_pred_scores"]))
    return np.concatenate(ids), np.concatenate(scores)


def _candidates(loaded: Loaded, batch: torch.Tensor, labels: Any, chances: Any) -> dict[str, torch.Tensor]:
    width = loaded.trainer.beam_width * max(map(len, loaded.clusters))
    padded = PLTDataset(
        batch,
        num_classes=loaded.trainer.num_classes,
        num_labels_selected=width,
        labels_selected=labels,
        label_scores=chances,
    )
    return dict(torch.utils.data.default_collate([padded[row] for row in range(len(batch))]))


def _instance(document: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    # Labels that only dev documents have are unknown to the library.
    return {"text": document["text"], "label": [ids[label] for label in document["labels"] if label in ids]}


def _configuration(task: Task) -> Any:
    settings = {name: value for name, value in task.settings.items() if name != "vectors"}
    metric = "nDCG@5"
    n_clusters = 2 ** max(math.ceil(math.log2(len(task.label_names()) / settings["cluster_size"])), 0)
    settings["beam_width"] = min(settings["beam_width"], n_clusters)
    fixed = {
        "multiclass": False, "loss_function": "binary_cross_entropy_with_logits", "optimizer": "adam", "momentum": 0.9,
        "weight_decay": 0, "lr_scheduler": None, "scheduler_config": None, "cpu": True, "silent": True,
        "limit_train_batches": 1.0, "limit_val_batches": 1.0, "limit_test_batches": 1.0, "shuffle": True,
        "early_stopping_metric": metric, "val_metric": metric, "monitor_metrics": [metric], "metric_threshold": 0.5,
        "data_workers": 0, "save_k_predictions": N_BEST, "checkpoint_dir": str(task.model),
        "log_path": str(task.out / "log.json"), "predict_out_path": None,
    }  # fmt: skip
    return AttributeDict({**fixed, **settings})


def read_queries(task: Task) -> list[str]:
    """Read the texts of the judged documents."""
    return [document["text"] for document in task.documents("judged")]


if __name__ == "__main__":
    packages = ("libmultilabel", "torch", "lightning")
    run_step(Steps(read_training, fit, save, load, read_queries, predict, packages))
