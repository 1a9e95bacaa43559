"""`Model`: what every model has in common: fit, predict, score, save, load, as in scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from haxmlnet.data.filters import LabelPairs, drop_label_pairs, drop_pairs
from haxmlnet.data.labels import LabelIndex, truth_matrix
from haxmlnet.data.prepared import PreparedCorpus
from haxmlnet.errors import DataError, ModelError, SettingError
from haxmlnet.metrics import Propensity, Report, evaluate
from haxmlnet.models.estimator import Estimator
from haxmlnet.progress import Progress
from haxmlnet.ranking import Ranking
from haxmlnet.saved import SavedModel
from haxmlnet.store import new_directory, write_arrays, write_header, write_lines
from haxmlnet.version import __version__


class Model(Estimator, ABC):
    """A system that learns to rank labels for texts; its learned attributes end with an underscore."""

    label_index_: LabelIndex
    label_counts_: NDArray[np.int64]
    """Training documents of each label."""
    training_: dict[str, Any]
    """How the model was trained: numbers of documents, seconds, scores."""
    takes_features = False
    """Can it be trained on sparse features instead of texts?"""

    @abstractmethod
    def fit(self, texts: Any, labels: Any) -> Self:
        """Train on texts and their labels."""

    @abstractmethod
    def fit_prepared(self, corpus: PreparedCorpus, *, progress: Progress | None = None) -> Self:
        """Train on a prepared corpus, as `haxmlnet.prepare` makes it of files of any size."""

    @abstractmethod
    def predict(self, texts: Sequence[str], k: int = 5) -> Ranking:
        """Rank the best k labels of each text."""

    @abstractmethod
    def _write_parts(self, directory: Path) -> None:
        """Write what is particular to the model."""

    @abstractmethod
    def _read_parts(self, saved: SavedModel) -> None:
        """Read what `_write_parts` wrote."""

    @property
    def classes_(self) -> NDArray[np.object_]:
        """The labels, in the order of the columns of `Ranking.to_csr`."""
        self._check_fitted()
        return self.label_index_.names

    def evaluate(
        self,
        texts: Sequence[str],
        labels: Any,
        *,
        propensity_a: float = 0.55,
        propensity_b: float = 1.5,
        ignored: LabelPairs | None = None,
    ) -> Report:
        """Predict the texts and compare with their true labels: all metrics.

        Ignored pairs of a document and a label count neither as true nor as predicted.
        """
        if ignored is None:
            ranking = self.predict(texts, k=5)
        else:
            ranking = drop_pairs(self.predict(texts, k=5 + ignored.most_per_document), ignored).top(5)
            labels = drop_label_pairs(labels, ignored)
        truth = truth_matrix(labels, self.label_index_)
        counts = np.zeros(truth.shape[1], np.int64)  # labels training never saw stand at the end, with 0
        counts[: len(self.label_counts_)] = self.label_counts_
        propensity = Propensity(propensity_a, propensity_b)
        return evaluate(ranking, truth, counts, self.training_["n_documents"], propensity=propensity)

    def score(self, texts: Sequence[str], labels: Any) -> float:
        """Return nDCG@5 between 0 and 1: what a grid search maximizes."""
        return self.evaluate(texts, labels).values["nDCG@5"] / 100

    def describe(self) -> dict[str, Any]:
        """Return what the model is made of, as `haxmlnet inspect` prints it."""
        self._check_fitted()
        return {
            "method": type(self).__name__, "n_labels": len(self.label_index_),
            "training": self.training_, "settings": self.get_params(),
        }  # fmt: skip

    def save(self, path: str | Path) -> None:
        """Write the model directory; one that is there already is replaced only when the new one is complete."""
        self._check_fitted()
        with new_directory(path) as directory:
            write_lines(directory / "labels.txt", self.label_index_.names.tolist())
            write_arrays(directory / "labels.safetensors", {"counts": self.label_counts_})
            self._write_parts(directory)
            header = {
                "method": type(self).__name__, "library_version": __version__,
                "settings": {n: v.item() if isinstance(v, np.generic) else v for n, v in self.get_params().items()},
                "training": self.training_,
            }  # fmt: skip
            write_header(directory, header)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model directory written by `save`, after checking every file of it."""
        return cls._from_saved(SavedModel(path).fetch())

    @classmethod
    def _from_saved(cls, saved: SavedModel) -> Self:
        """Make the model of files that were read and checked."""
        header = saved.header
        if header.get("method") != cls.__name__:
            raise ModelError(f"{saved.directory}: holds a model of {header.get('method')}, not of {cls.__name__}.")
        settings = header["settings"].items()
        model = cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in settings})
        model.training_ = header["training"]
        model.label_index_ = LabelIndex(np.array(saved.lines("labels.txt"), dtype=object))
        model.label_counts_ = saved.arrays("labels.safetensors")["counts"]
        if len(model.label_counts_) != len(model.label_index_):
            raise ModelError(f"{saved.directory}: labels.txt and labels.safetensors hold different numbers of labels.")
        model._read_parts(saved)
        return model

    def _check_fitted(self) -> None:
        if not hasattr(self, "label_index_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"This {type(self).__name__} is not trained yet. Call 'fit' or 'load' first.")


def check_texts(texts: Any) -> list[str]:
    """Check that texts are a sequence of strings that UTF-8 can hold."""
    if isinstance(texts, str | bytes):
        raise DataError("texts must be a sequence of strings, got one string. Put it in a list.")
    checked = list(texts)
    for row, text in enumerate(checked):
        if not isinstance(text, str):
            raise DataError(f"texts[{row}] must be a string, got {text!r:.60}.")
        if text.isascii():
            continue
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            where = f"character {error.start}"
            raise DataError(f"texts[{row}] holds half a surrogate pair at {where}. Decode the text properly.") from None
    return checked


def check_k(k: int, n_labels: int) -> int:
    """Check the number of labels asked for; more than there are means all."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise SettingError(f"k must be a whole number of at least 1, got {k!r}.")
    return min(int(k), n_labels)
