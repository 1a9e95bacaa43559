"""`evaluate`: every ranking metric of a test set in one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from haxmlnet.errors import DataError, SettingError
from haxmlnet.metrics.buckets import Bucket, bucket_table
from haxmlnet.metrics.propensity import (
    USUAL_PROPENSITY,
    Propensity,
    propensities,
    propensity_gains,
    psndcg_at_k,
    psp_at_k,
)
from haxmlnet.metrics.top_k import judge, ndcg_at_k, precision_at_k, r_precision_at_k, recall_at_k
from haxmlnet.ranking import Ranking


@dataclass(frozen=True)
class Report:
    """The metrics of a test set in percent, unrounded, and those by label frequency."""

    values: dict[str, float]
    buckets: list[Bucket]

    def rows(self) -> list[tuple[str, str]]:
        """Return each metric and its value with two decimals, ready to print."""
        return [(name, _text(value)) for name, value in self.values.items()]

    def bucket_rows(self) -> list[dict[str, str]]:
        """Return the table of buckets, one dictionary from column to text for each row."""
        return [
            {
                "labels": bucket.name,
                "number": str(bucket.n_labels),
                "frequency": f"{bucket.min_frequency}-{bucket.max_frequency}",
                "true": str(bucket.n_true),
            }
            | {name: _text(value) for name, value in bucket.values.items()}
            for bucket in self.buckets
        ]


def evaluate(
    ranking: Ranking | NDArray[np.int32],
    truth: sp.csr_array | sp.csr_matrix,
    label_counts: ArrayLike,
    n_training_documents: int,
    *,
    ks: Sequence[int] = (1, 3, 5),
    propensity: Propensity = USUAL_PROPENSITY,
) -> Report:
    """Compare a ranking (or its ids alone) with the true labels.

    `truth` has a column for every label the model knows, in its order, and then one for each true label that
    training never saw: these count as true and can only be missed. `label_counts` has the training frequency
    of every column. PSnDCG@k follows the "repository" convention of `psndcg_at_k`.
    """
    counts = np.asarray(label_counts)
    if not ks or min(ks) < 1:
        raise SettingError(f"evaluation: ks must be one or more numbers of at least 1, got {tuple(ks)}.")
    if counts.shape != (truth.shape[1],):
        raise DataError(
            f"evaluation: label_counts must have a number for each of the {truth.shape[1]} columns of truth, "
            f"got shape {counts.shape}. Use 0 for labels training never saw."
        )

    judged = judge((ranking.ids if isinstance(ranking, Ranking) else ranking)[:, : max(ks)], truth)
    gains = propensity_gains(judged, propensities(counts, n_training_documents, *propensity), max(ks))
    values = {f"P@{k}": precision_at_k(judged, k) for k in ks}
    values |= {f"nDCG@{k}": ndcg_at_k(judged, k) for k in ks}
    values |= {f"PSP@{k}": psp_at_k(gains, k) for k in ks}
    values |= {f"PSnDCG@{k}": psndcg_at_k(gains, k) for k in ks}
    values[f"R@{max(ks)}"] = recall_at_k(judged, max(ks))
    values[f"RP@{max(ks)}"] = r_precision_at_k(judged, max(ks))
    values["n_documents"] = len(judged.ids)
    return Report(values, bucket_table(judged, counts, ks))


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}"
